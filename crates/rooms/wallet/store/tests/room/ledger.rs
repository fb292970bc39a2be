//! A wallet in a fresh database, with short words for what happens to it.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::HashMap,
};

use bitcoin::{
    Amount, Block, BlockHash, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxMerkleNode,
    TxOut, Txid, Witness,
    absolute::LockTime,
    bip32::{DerivationPath, Xpriv, Xpub},
    block::{Header, Version as BlockVersion},
    hashes::Hash as _,
    pow::CompactTarget,
    secp256k1::Secp256k1,
    transaction::Version,
};
use unspent_model::{
    Micros, Network, TxId,
    wallet::{Balance, CoinState, LockId, TxStatus},
};
use unspent_sql::{Door, Options, Row, SqlError, Url};
use unspent_testkit::wallet::postgres;
use unspent_wallet::{
    BlockRef, NewAccount, NewWallet, ObservedTx, TxBatch, TxSource, WalletError, WalletId,
    WalletStore, batch::RecordedChanges, block::AppliedBlocks, descriptor::Keychain,
    lease::LeaseTerms, placed_block::PlacedBlock, schema::SCHEMA,
};

pub const SECOND: i64 = 1_000_000;
/// Height of the first block; far enough from zero to look back from.
pub const FIRST: u64 = 1_000;

pub fn xpriv(seed: u8) -> Xpriv {
    Xpriv::new_master(bitcoin::Network::Regtest, &[seed; 32]).unwrap()
}

pub fn xpub(seed: u8) -> Xpub {
    let secp = Secp256k1::new();
    let path: DerivationPath = "m/84h/1h/0h".parse().unwrap();
    Xpub::from_priv(&secp, &xpriv(seed).derive_priv(&secp, &path).unwrap())
}

/// A descriptor with receive and change chains.
pub fn descriptor(seed: u8) -> String {
    let fingerprint = xpriv(seed).fingerprint(&Secp256k1::new());
    format!("wpkh([{fingerprint}/84h/1h/0h]{}/<0;1>/*)", xpub(seed))
}

pub fn lock(byte: u8) -> LockId {
    LockId::new(&[byte; 32]).unwrap()
}

/// An output that belongs to nobody here.
pub fn foreign(n: u32) -> OutPoint {
    OutPoint::new(Txid::hash(&n.to_le_bytes()), n)
}

/// A script of somebody else.
pub fn theirs(n: u8) -> ScriptBuf {
    ScriptBuf::new_p2wpkh(&bitcoin::WPubkeyHash::hash(&[n, 77]))
}

pub fn tx(inputs: &[OutPoint], outputs: &[(&ScriptBuf, u64)]) -> Transaction {
    let input = |previous_output: &OutPoint| TxIn {
        previous_output: *previous_output,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
        witness: Witness::from_slice(&[[7_u8; 70]]),
    };
    let output = |(script, sats): &(&ScriptBuf, u64)| TxOut {
        value: Amount::from_sat(*sats),
        script_pubkey: (*script).clone(),
    };
    Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: inputs.iter().map(input).collect(),
        output: outputs.iter().map(output).collect(),
    }
}

pub fn coinbase(script: &ScriptBuf, sats: u64, salt: u64) -> Transaction {
    let mut made = tx(&[OutPoint::null()], &[(script, sats)]);
    made.input[0].script_sig = ScriptBuf::from_bytes(salt.to_le_bytes().to_vec());
    made
}

pub fn out(tx: &Transaction, vout: u32) -> OutPoint {
    OutPoint::new(tx.compute_txid(), vout)
}

pub struct Ledger {
    pub room: WalletStore,
    pub wallet: WalletId,
    pub url: Url,
    pub now: Cell<i64>,
    pub chain: RefCell<Vec<PlacedBlock>>,
    salt: Cell<u64>,
    keychains: Vec<Keychain>,
    /// Deriving one takes longer than a statement.
    scripts: RefCell<HashMap<u32, ScriptBuf>>,
    door: OnceCell<Door>,
    _folder: Option<tempfile::TempDir>,
}

/// Runs a test on SQLite and, where it is there, on PostgreSQL.
pub fn on_both(test: impl Fn(Ledger)) {
    test(Ledger::sqlite());
    if let Some(ledger) = Ledger::postgres() {
        test(ledger);
    }
}

impl Ledger {
    /// In memory where the system has such a place: no test here outlives the machine, and the disk
    /// would be waited for after every step.
    pub fn sqlite() -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::tempdir_in(place).unwrap();
        let url = format!("sqlite:{}", folder.path().join("wallet.db").display());
        Self::open(url.parse().unwrap(), Some(folder))
    }

    pub fn postgres() -> Option<Self> {
        Some(Self::open(postgres::database()?.parse().unwrap(), None))
    }

    /// The same database, emptied: quicker than making another one. Rows are deleted, since TRUNCATE
    /// makes the server plan every prepared statement anew.
    pub fn emptied(mut self) -> Self {
        const EMPTY: &str = "DELETE FROM utxo_leases; DELETE FROM frozen_outputs;
            DELETE FROM tx_replacements; DELETE FROM tx_inputs; DELETE FROM utxos;
            DELETE FROM pruned_txs; DELETE FROM transactions; DELETE FROM addresses;
            DELETE FROM keychains; DELETE FROM accounts; DELETE FROM journal;
            DELETE FROM label_origins; DELETE FROM labels; DELETE FROM backfills;
            DELETE FROM blocks; DELETE FROM wallets;
            UPDATE room SET next_wallet_id = 1, tip_height = NULL, tip_hash = NULL";
        self.own_door().write(|tx| tx.script(EMPTY)).unwrap();
        self.wallet = self.room.create_wallet(&new_wallet("ours", 1), Micros(1)).unwrap();
        self.now.set(1_000 * SECOND);
        self.salt.set(0);
        self.chain.borrow_mut().clear();
        self
    }

    /// A database that another process made.
    pub fn attach(url: &str) -> Self {
        Self::open(url.parse().unwrap(), None)
    }

    fn open(url: Url, folder: Option<tempfile::TempDir>) -> Self {
        let room = WalletStore::open(&url, Network::BitcoinRegtest, Options::default()).unwrap();
        let wallet = match room.wallet("ours") {
            Ok(there) => there,
            Err(_) => room.create_wallet(&new_wallet("ours", 1), Micros(1)).unwrap(),
        };
        let network = bitcoin::Network::Regtest;
        Self {
            room,
            wallet,
            url,
            now: Cell::new(1_000 * SECOND),
            chain: RefCell::default(),
            salt: Cell::new(0),
            keychains: Keychain::parse(&descriptor(1), network).unwrap(),
            scripts: RefCell::default(),
            door: OnceCell::new(),
            _folder: folder,
        }
    }

    /// The same database through a door of its own, as another process would open it.
    pub fn another_room(&self) -> WalletStore {
        WalletStore::open(&self.url, Network::BitcoinRegtest, Options::default()).unwrap()
    }

    /// A second wallet in the same database.
    pub fn other_wallet(&self, name: &str, seed: u8) -> WalletId {
        self.room.create_wallet(&new_wallet(name, seed), Micros(1)).unwrap()
    }

    pub fn ours(&self, n: u32) -> ScriptBuf {
        let mut known = self.scripts.borrow_mut();
        known.entry(n).or_insert_with(|| self.keychains[0].script(n).unwrap()).clone()
    }

    pub fn change(&self, n: u32) -> ScriptBuf {
        self.keychains[1].script(n).unwrap()
    }

    /// A moment later, so that order in time is order of events.
    pub fn tick(&self) -> i64 {
        self.now.set(self.now.get() + SECOND);
        self.now.get()
    }

    pub fn see(&self, tx: &Transaction, how: TxSource) -> Result<RecordedChanges, WalletError> {
        self.room.record(&TxBatch::one(tx.clone(), how), Micros(self.tick()))
    }

    pub fn mempool(&self, tx: &Transaction) -> RecordedChanges {
        let done = self.see(tx, TxSource::Mempool).unwrap();
        self.check();
        done
    }

    pub fn relay(&self, tx: &Transaction) -> RecordedChanges {
        let done = self.see(tx, TxSource::Relayed).unwrap();
        self.check();
        done
    }

    pub fn try_create(&self, tx: &Transaction) -> Result<RecordedChanges, WalletError> {
        self.see(tx, TxSource::Created { lock: None, force: false })
    }

    pub fn create(&self, tx: &Transaction) -> RecordedChanges {
        let done = self.try_create(tx).unwrap();
        self.check();
        done
    }

    pub fn height(&self) -> u64 {
        self.chain.borrow().last().map_or(FIRST - 1, |block| block.height)
    }

    /// The next block, not applied yet.
    pub fn block(&self, txs: &[&Transaction]) -> PlacedBlock {
        let salt = self.new_salt();
        let mut txdata = vec![coinbase(&theirs(250), 5_000_000_000, salt)];
        txdata.extend(txs.iter().map(|tx| (*tx).clone()));
        self.block_of(txdata)
    }

    pub fn new_salt(&self) -> u64 {
        self.salt.set(self.salt.get() + 1);
        self.salt.get()
    }

    pub fn block_of(&self, txdata: Vec<Transaction>) -> PlacedBlock {
        let chain = self.chain.borrow();
        let parent = chain.last().map_or(BlockHash::all_zeros(), |last| last.block.block_hash());
        let header = Header {
            version: BlockVersion::TWO,
            prev_blockhash: parent,
            merkle_root: TxMerkleNode::all_zeros(),
            time: 1_600_000_000 + chain.len() as u32,
            bits: CompactTarget::from_consensus(0x207f_ffff),
            nonce: self.new_salt() as u32,
        };
        let height = chain.last().map_or(FIRST, |last| last.height + 1);
        PlacedBlock::of(height, Block { header, txdata })
    }

    pub fn try_apply(&self, block: PlacedBlock) -> Result<AppliedBlocks, WalletError> {
        let applied = self.room.apply_blocks(vec![block.clone()], Micros(self.tick()))?;
        self.chain.borrow_mut().push(block);
        Ok(applied)
    }

    /// Mines these and returns the height.
    pub fn mine(&self, txs: &[&Transaction]) -> u64 {
        self.try_apply(self.block(txs)).unwrap();
        self.check();
        self.height()
    }

    /// Mines empty blocks over a wallet that isn't whole.
    pub fn mine_empty_unchecked(&self, count: u64) {
        for _ in 0..count {
            self.try_apply(self.block(&[])).unwrap();
        }
    }

    /// Mines empty blocks.
    pub fn mine_empty(&self, count: u64) {
        for _ in 0..count {
            self.try_apply(self.block(&[])).unwrap();
        }
        self.check();
    }

    /// Mines a block whose coinbase pays us.
    pub fn mine_to(&self, script: &ScriptBuf, sats: u64) -> Transaction {
        let made = coinbase(script, sats, self.new_salt());
        self.try_apply(self.block_of(vec![made.clone()])).unwrap();
        self.check();
        made
    }

    /// Disconnects the last blocks.
    pub fn undo(&self, count: usize) -> Vec<PlacedBlock> {
        let mut chain = self.chain.borrow_mut();
        let at = chain.len() - count;
        let gone = chain.split_off(at);
        let keep = chain.last().map(|block| block.height);
        drop(chain);
        self.room.disconnect_above(keep, Micros(self.tick())).unwrap();
        self.check();
        gone
    }

    /// Feeds the wallet the old blocks that it waits for.
    pub fn read_again(&self) {
        let blocks = self.chain.borrow().clone();
        let (left, _) = self.room.backfill(self.wallet, blocks, Micros(self.tick())).unwrap();
        assert_eq!(left, None, "all blocks were given");
    }

    pub fn status(&self, tx: &Transaction) -> (TxStatus, Option<u64>) {
        let found = self.room.tx(self.wallet, tx.compute_txid()).unwrap().summary;
        (found.status, found.height)
    }

    pub fn is_known(&self, tx: &Transaction) -> bool {
        self.room.tx(self.wallet, tx.compute_txid()).is_ok()
    }

    pub fn coin(&self, tx: &Transaction, vout: u32) -> CoinState {
        self.room.coin(self.wallet, out(tx, vout), Micros(self.now.get())).unwrap().state
    }

    pub fn spender(&self, tx: &Transaction, vout: u32) -> Option<Txid> {
        self.room.coin(self.wallet, out(tx, vout), Micros(self.now.get())).unwrap().spent_by
    }

    pub fn balance(&self) -> Balance {
        self.room.balance(self.wallet, 1, Micros(self.now.get())).unwrap()
    }

    pub fn unspent(&self) -> Vec<(OutPoint, u64)> {
        let coins = self.room.coins(self.wallet, None, 1_000, Micros(self.now.get())).unwrap();
        coins.into_iter().map(|coin| (coin.outpoint, coin.amount)).collect()
    }

    pub fn count_txs(&self) -> usize {
        use unspent_wallet::history::TxListing;
        self.room.txs(self.wallet, TxListing::Latest(None), 1_000).unwrap().len()
    }

    pub fn replaced_by(&self, tx: &Transaction) -> Vec<Txid> {
        let found = self.room.tx(self.wallet, tx.compute_txid()).unwrap();
        found.replaced_by.iter().map(|edge| edge.txid).collect()
    }

    pub fn own_door(&self) -> &Door {
        let options = Options { readers: 1, ..Options::default() };
        self.door.get_or_init(|| Door::open(&self.url, &SCHEMA, options).unwrap())
    }

    /// Every edge in the database at one read: who was replaced by whom.
    pub fn edges(&self) -> Vec<(TxId, TxId)> {
        const EDGES: &str = "SELECT a.tx_hash AS loser, b.tx_hash AS winner
            FROM tx_replacements r
            JOIN transactions a ON a.wallet_id = r.wallet_id AND a.id = r.replaced_tx_id
            JOIN transactions b ON b.wallet_id = r.wallet_id AND b.id = r.replacement_tx_id";
        let rows =
            self.own_door().read(|tx| -> Result<_, SqlError> { tx.query(EDGES, &[]) }).unwrap();
        let txid = |row: &Row, column: &str| TxId(row.hash(column).unwrap());
        rows.iter().map(|row| (txid(row, "loser"), txid(row, "winner"))).collect()
    }

    pub fn terms(&self, byte: u8) -> LeaseTerms {
        LeaseTerms::new(lock(byte))
    }

    /// Recomputes everything; nothing may differ.
    pub fn check(&self) {
        let found = self.room.audit(self.wallet).unwrap();
        assert!(found.is_empty(), "{found:#?}");
    }

    /// A funding transaction from outside, confirmed.
    pub fn fund(&self, n: u32, sats: u64) -> Transaction {
        let made = tx(&[foreign(n)], &[(&self.ours(0), sats)]);
        self.mine(&[&made]);
        made
    }
}

pub fn new_wallet(name: &str, seed: u8) -> NewWallet {
    NewWallet {
        name: name.into(),
        accounts: vec![NewAccount { name: "main".into(), receive: descriptor(seed), change: None }],
        birthday: 1_000_000,
        gap_limit: 20,
    }
}

pub fn in_block(block: &PlacedBlock, place: u64) -> TxSource {
    TxSource::Block(block.reference(), place)
}

pub fn block_ref(height: u64, byte: u8) -> BlockRef {
    BlockRef { height, hash: unspent_model::BlockHash([byte; 32]), time: 5 }
}

pub fn observed(tx: &Transaction, how: TxSource) -> ObservedTx {
    ObservedTx::new(tx.clone(), how)
}
