//! A store in a fresh database, with short words for what happens to it.

use std::sync::atomic::{AtomicU64, Ordering};

use bitcoin::{
    Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness,
    absolute::LockTime, hashes::Hash as _, transaction::Version,
};
use unspent_model::{
    BlockHash, Network, Outpoint, Point, TxId,
    txstore::{
        DeletionWindows, MinedIn, OutputHash, RetentionBlocks, Slot, SlotRefusal, Spender, TxRecord,
    },
};
use unspent_sql::{Door, Options, Row, SqlError, Url};
use unspent_testkit::wallet::postgres;
use unspent_txstore::{
    AcceptOutcome, AppliedBlock, CleanLimits, CleanReport, CreateOutcome, CreateTerms,
    InputOutcome, InputSpend, NewBlock, NewTx, Settings, SpendOptions, TxSpends, TxStore,
    TxStoreError, Unspend, output_hash, schema::SCHEMA,
};

/// An output that belongs to nobody here.
pub fn foreign(n: u64) -> Outpoint {
    let txid = Txid::hash(&n.to_le_bytes()).to_byte_array();
    Outpoint::new(TxId(txid), 0)
}

fn script(byte: u8) -> ScriptBuf {
    ScriptBuf::from_bytes(vec![byte])
}

/// A transaction whose outputs are as the flags say: spendable, or OP_RETURN.
pub fn raw(inputs: &[Outpoint], outputs: &[bool], salt: u64) -> Transaction {
    let input = |coin: &Outpoint| TxIn {
        previous_output: OutPoint::new(Txid::from_byte_array(coin.tx.0), coin.index),
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::from_slice(&[[7_u8; 70]]),
    };
    let output = |spendable: &bool| TxOut {
        value: Amount::from_sat(1_000 + salt),
        script_pubkey: script(if *spendable { 0x51 } else { 0x6a }),
    };
    Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: inputs.iter().map(input).collect(),
        output: outputs.iter().map(output).collect(),
    }
}

pub fn tx(inputs: &[Outpoint], outputs: usize) -> NewTx {
    NewTx::from_tx(&raw(inputs, &vec![true; outputs], 0))
}

pub fn coinbase(salt: u64, outputs: usize) -> NewTx {
    let mut made = raw(&[], &vec![true; outputs], salt);
    made.input = vec![TxIn {
        script_sig: ScriptBuf::from_bytes(salt.to_le_bytes().to_vec()),
        ..TxIn::default()
    }];
    let made = NewTx::from_tx(&made);
    assert!(made.is_coinbase);
    made
}

pub fn out(tx: &NewTx, vout: u32) -> Outpoint {
    Outpoint::new(tx.txid, vout)
}

/// A block by its height, on a branch.
pub fn block_hash(height: u64, branch: u8) -> BlockHash {
    let mut hash = [branch; 32];
    hash[..8].copy_from_slice(&height.to_be_bytes());
    BlockHash(hash)
}

pub fn at(height: u64) -> MinedIn {
    MinedIn { height, hash: block_hash(height, 1), on_best_chain: true }
}

pub fn on_fork(height: u64) -> MinedIn {
    MinedIn { height, hash: block_hash(height, 9), on_best_chain: false }
}

pub fn by(child: &NewTx, vin: u32) -> Spender {
    Spender { tx: child.txid, vin }
}

pub struct Desk {
    pub store: TxStore,
    pub url: Url,
    salt: AtomicU64,
    _folder: Option<tempfile::TempDir>,
}

/// Runs a test on SQLite and, where it is there, on PostgreSQL.
pub fn on_both(test: impl Fn(Desk)) {
    test(Desk::sqlite());
    if let Some(desk) = Desk::postgres() {
        test(desk);
    }
}

/// The same with other windows: retention and both depths.
pub fn on_both_with(windows: DeletionWindows, test: impl Fn(Desk)) {
    test(Desk::sqlite().with(windows));
    if let Some(desk) = Desk::postgres() {
        test(desk.with(windows));
    }
}

pub fn windows(blocks: u64) -> DeletionWindows {
    DeletionWindows { retention: RetentionBlocks(blocks), safety: blocks, rollback: blocks }
}

pub fn open(url: &Url, windows: DeletionWindows, options: Options) -> TxStore {
    TxStore::open(url, Network::BitcoinRegtest, Settings { windows }, options).unwrap()
}

impl Desk {
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("txstore.db").display());
        Self::open(url.parse().unwrap(), Some(folder))
    }

    pub fn postgres() -> Option<Self> {
        Some(Self::open(postgres::database()?.parse().unwrap(), None))
    }

    fn open(url: Url, folder: Option<tempfile::TempDir>) -> Self {
        let store = open(&url, DeletionWindows::default(), Options::default());
        Self { store, url, salt: AtomicU64::new(1), _folder: folder }
    }

    pub fn with(mut self, windows: DeletionWindows) -> Self {
        self.store = open(&self.url, windows, Options::default());
        self
    }

    pub fn reopened(mut self) -> Self {
        let windows = self.store.windows();
        self.store = open(&self.url, windows, Options::default());
        self
    }

    pub fn new_salt(&self) -> u64 {
        self.salt.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new parent with so many outputs.
    pub fn fresh(&self, outputs: usize) -> NewTx {
        tx(&[foreign(self.new_salt())], outputs)
    }

    pub fn mined(&self, new: &NewTx, height: u64) {
        self.create(new, CreateTerms::mined(at(height)));
    }

    pub fn unmined(&self, new: &NewTx, height: u64) {
        self.create(new, CreateTerms::unmined(height));
    }

    pub fn create(&self, new: &NewTx, terms: CreateTerms) {
        let made = self.store.create(vec![new.clone()], terms).unwrap();
        assert_eq!(made, [CreateOutcome::Created]);
    }

    /// A parent mined at a height.
    pub fn parent(&self, outputs: usize, height: u64) -> NewTx {
        let made = self.fresh(outputs);
        self.mined(&made, height);
        made
    }

    /// Takes in a child that spends, at a height, unmined.
    pub fn child(&self, coins: &[Outpoint], height: u64) -> NewTx {
        let made = tx(coins, 1);
        let accepted = self.accept(&made, height);
        assert!(matches!(accepted, AcceptOutcome::Accepted(_)), "{accepted:?}");
        made
    }

    pub fn accept(&self, new: &NewTx, height: u64) -> AcceptOutcome {
        let (terms, options) = (CreateTerms::unmined(height), SpendOptions::default());
        self.store.accept(vec![new.clone()], terms, options).unwrap().remove(0)
    }

    /// A child that spends at one height and is mined at another.
    pub fn mined_child(&self, coins: &[Outpoint], spent: u64, mined: u64) -> NewTx {
        let made = self.child(coins, spent);
        self.mine(&made, mined);
        made
    }

    pub fn mine(&self, new: &NewTx, height: u64) {
        self.store.set_mined(vec![new.txid], at(height)).unwrap();
    }

    /// One input spent by itself, without the child being there.
    pub fn spend(&self, coin: Outpoint, by: Spender, height: u64) -> Result<(), SlotRefusal> {
        self.spend_as(coin, by, None, height, SpendOptions::default())
    }

    pub fn spend_as(
        &self,
        coin: Outpoint,
        by: Spender,
        output: Option<OutputHash>,
        height: u64,
        options: SpendOptions,
    ) -> Result<(), SlotRefusal> {
        let inputs = vec![InputSpend { vin: by.vin, coin, output }];
        let spends = vec![TxSpends { child: by.tx, inputs }];
        let outcome = self.store.spend(spends, height, options).unwrap().remove(0);
        match outcome.inputs[..] {
            [InputOutcome::Refused(why)] => Err(why),
            [InputOutcome::Spent] => Ok(()),
            _ => panic!("{outcome:?}"),
        }
    }

    pub fn unspend(&self, coin: Outpoint, by: Spender, height: u64) -> Result<bool, SlotRefusal> {
        self.store.unspend(vec![Unspend { coin, by }], height).unwrap().remove(0)
    }

    pub fn record(&self, new: &NewTx) -> TxRecord {
        self.store.get(new.txid).unwrap().expect("it is there").record
    }

    pub fn has(&self, new: &NewTx) -> bool {
        self.store.records(vec![new.txid]).unwrap()[0].is_some()
    }

    pub fn slot(&self, new: &NewTx, vout: u32) -> Slot {
        self.record(new).slots.get(vout).unwrap()
    }

    pub fn delete_at(&self, new: &NewTx) -> Option<u64> {
        self.record(new).delete_at
    }

    /// A pass at a height of a store that follows no blocks.
    pub fn clean_at(&self, height: u64) -> CleanReport {
        self.store.set_height(height).unwrap();
        self.clean()
    }

    pub fn clean(&self) -> CleanReport {
        self.store.clean(CleanLimits::default()).unwrap()
    }

    /// Whether a record is there after a pass at each of these heights.
    pub fn kept_at(&self, new: &NewTx, heights: &[u64]) -> Vec<bool> {
        let kept = heights.iter().map(|height| {
            self.clean_at(*height);
            self.has(new)
        });
        kept.collect()
    }

    pub fn own_door(&self) -> Door {
        Door::open(&self.url, &SCHEMA, Options::default()).unwrap()
    }

    pub fn rows(&self, sql: &'static str) -> Vec<Row> {
        self.own_door().read(move |tx| -> Result<_, SqlError> { tx.query(sql, &[]) }).unwrap()
    }

    /// Adds a block on the tip, of a branch, with a coinbase of its own.
    pub fn block(&self, height: u64, branch: u8, txs: &[&NewTx]) -> NewBlock {
        let tip = self.store.tip().unwrap();
        let hash = block_hash(height, branch);
        let mut all = vec![coinbase(height * 256 + u64::from(branch), 1)];
        all.extend(txs.iter().map(|tx| (*tx).clone()));
        NewBlock {
            point: Point { height, slot: height, hash },
            parent: tip.map(|tip| tip.hash),
            txs: all,
        }
    }

    pub fn apply(&self, height: u64, branch: u8, txs: &[&NewTx]) -> AppliedBlock {
        self.try_apply(height, branch, txs).unwrap()
    }

    pub fn try_apply(
        &self,
        height: u64,
        branch: u8,
        txs: &[&NewTx],
    ) -> Result<AppliedBlock, TxStoreError> {
        self.store.apply_block(self.block(height, branch, txs))
    }

    /// Empty blocks up to a height.
    pub fn mine_to(&self, height: u64, branch: u8) {
        let tip = self.store.tip().unwrap().map_or(0, |tip| tip.height + 1);
        (tip..=height).for_each(|height| {
            self.apply(height, branch, &[]);
        });
    }

    pub fn roll_back_to(&self, height: u64) {
        let to = self.store.stored_at(height).unwrap().unwrap();
        assert_eq!(to.height, height);
        self.store.roll_back(Some(to)).unwrap();
    }
}

pub fn hash_of(new: &NewTx, vout: u32) -> OutputHash {
    let made: Transaction = bitcoin::consensus::deserialize(&new.body).unwrap();
    output_hash(out(new, vout), &made.output[vout as usize])
}
