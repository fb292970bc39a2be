//! `wtxmgr`: what happened. Big endian, never sealed.
//!
//! A mined transaction, its credits (outputs of ours) and debits (our outputs that it spends) share
//! a key: name, height, block. Unmined ones have only a name, and their debits are not written
//! down: they follow from what their inputs spend. Two unmined transactions may spend the same
//! output; the source keeps both and believes both.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bitcoin::{BlockHash, OutPoint, Transaction, Txid, consensus::encode, hashes::Hash as _};

use crate::{ReadError, bolt::Bucket, fields::Fields};

/// The version of the layout that is read here.
const VERSION: u32 = 2;
/// Bytes that name an output or input of a mined transaction: name, height, block, index.
const PART: usize = 72;
const SPENT: u8 = 1;
const CHANGE: u8 = 2;

/// A block that holds transactions of the wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceBlock {
    /// Blocks between it and genesis.
    pub height: u32,
    /// The hash of its header.
    pub hash: BlockHash,
    /// What its header says, in seconds.
    pub time: u64,
}

/// An output of the wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Which output.
    pub index: u32,
    /// In satoshis.
    pub amount: u64,
    /// Whether the source made it as change.
    pub is_change: bool,
    /// Whether any transaction of the file spends it, mined or not.
    pub is_spent: bool,
}

/// An input that spends an output of the wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debit {
    /// Which input.
    pub index: u32,
    /// In satoshis.
    pub amount: u64,
}

/// A transaction with all that the file says of it.
#[derive(Clone, Debug)]
pub struct SourceTx {
    /// Its name.
    pub txid: Txid,
    /// The transaction itself, with signatures.
    pub tx: Transaction,
    /// When the source first saw it, in seconds.
    pub received: u64,
    /// The block that holds it; nothing when unmined.
    pub block: Option<SourceBlock>,
    /// Its outputs of the wallet, by index.
    pub credits: Vec<Credit>,
    /// Its inputs of the wallet, by index.
    pub debits: Vec<Debit>,
}

/// A lease: an output held for somebody until a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLease {
    /// What is held.
    pub coin: OutPoint,
    /// For whom.
    pub id: [u8; 32],
    /// Until when, in seconds.
    pub expires: u64,
}

/// All that happened.
#[derive(Debug)]
pub struct History {
    /// Mined transactions in the order of the chain, then unmined ones by name.
    pub txs: Vec<SourceTx>,
    /// Leases, those that have run out included.
    pub leases: Vec<SourceLease>,
    /// Labels of transactions, also of such as are gone; bytes that are no UTF-8 stay bytes.
    pub labels: Vec<(Txid, Result<String, Vec<u8>>)>,
}

impl History {
    pub(crate) fn read(bucket: &Bucket<'_>) -> Result<Self, ReadError> {
        check_version(bucket)?;
        let reader = HistoryReader::new(bucket)?;
        let mut txs = reader.mined()?;
        // Mined ones first: of an unmined input only what it spends tells whether it is ours.
        txs.extend(reader.unmined(&txs)?);
        let leases = each(bucket, b"lo", |BucketEntry { key, value }| {
            let (coin, mut fields) = (outpoint(key)?, Fields::new(value, "a lease"));
            let (id, expires) = (fields.array()?, fields.u64_be()?);
            fields.end()?;
            Ok(SourceLease { coin, id, expires })
        })?;
        Ok(Self { txs, leases, labels: each(bucket, b"l", label)? })
    }

    /// Every output of the wallet, with its transaction.
    pub fn credits(&self) -> impl Iterator<Item = (&SourceTx, &Credit)> {
        self.txs.iter().flat_map(|tx| tx.credits.iter().map(move |credit| (tx, credit)))
    }
}

fn check_version(bucket: &Bucket<'_>) -> Result<(), ReadError> {
    let missing = || ReadError::NotAWallet("the history has no version".into());
    let version = Fields::new(bucket.value(b"vers").ok_or_else(missing)?, "a version").u32_be()?;
    if version == VERSION {
        return Ok(());
    }
    let remedy = if version < VERSION {
        "the upgrade to version 2 drops all history anyway: create a wallet from its keys and scan"
    } else {
        "this version is newer than this program knows"
    };
    Err(ReadError::Version(format!("the history is of version {version}, not 2: {remedy}")))
}

/// A value and what it stands under.
struct BucketEntry<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

/// Every value of a bucket that may be absent.
fn each<T>(
    bucket: &Bucket<'_>,
    name: &[u8],
    read: impl Fn(BucketEntry<'_>) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let found = bucket.bucket(name).into_iter().flat_map(Bucket::values);
    found.map(|(key, value)| read(BucketEntry { key, value })).collect()
}

fn hash(fields: &mut Fields<'_>) -> Result<[u8; 32], ReadError> {
    fields.array()
}

fn outpoint(bytes: &[u8]) -> Result<OutPoint, ReadError> {
    let mut fields = Fields::new(bytes, "an outpoint");
    let txid = Txid::from_byte_array(hash(&mut fields)?);
    let vout = fields.u32_be()?;
    fields.end()?;
    Ok(OutPoint { txid, vout })
}

fn label(
    BucketEntry { key, value }: BucketEntry<'_>,
) -> Result<(Txid, Result<String, Vec<u8>>), ReadError> {
    let mut name = Fields::new(key, "the name of a label");
    let txid = Txid::from_byte_array(hash(&mut name)?);
    let mut fields = Fields::new(value, "a label");
    let long = fields.u16_be()?;
    let text = fields.bytes(long.into())?.to_vec();
    fields.end()?;
    Ok((txid, String::from_utf8(text).map_err(std::string::FromUtf8Error::into_bytes)))
}

/// Name and place of a mined transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct RecordKey {
    txid: Txid,
    height: u32,
    hash: BlockHash,
}

impl RecordKey {
    fn read(fields: &mut Fields<'_>) -> Result<Self, ReadError> {
        let txid = Txid::from_byte_array(hash(fields)?);
        let height = fields.u32_be()?;
        Ok(Self { txid, height, hash: BlockHash::from_byte_array(hash(fields)?) })
    }

    /// The key of one output or input, and which.
    fn part(bytes: &[u8]) -> Result<(Self, u32), ReadError> {
        let mut fields = Fields::new(bytes, "the key of a credit or debit");
        let (record, index) = (Self::read(&mut fields)?, fields.u32_be()?);
        fields.end()?;
        Ok((record, index))
    }
}

/// A mined credit as it is written down.
struct RawCredit {
    credit: Credit,
    /// The input that spends it.
    spender: Option<(RecordKey, u32)>,
}

struct HistoryReader<'b, 'a> {
    bucket: &'b Bucket<'a>,
    /// Outputs that unmined transactions spend, ours or not.
    spent_unmined: BTreeSet<OutPoint>,
}

impl<'b, 'a> HistoryReader<'b, 'a> {
    fn new(bucket: &'b Bucket<'a>) -> Result<Self, ReadError> {
        let spent_unmined = each(bucket, b"mi", |entry| outpoint(entry.key))?.into_iter().collect();
        Ok(Self { bucket, spent_unmined })
    }

    fn mined(&self) -> Result<Vec<SourceTx>, ReadError> {
        let (blocks, order) = self.blocks()?;
        let mut credits = self.credits()?;
        let mut debits = self.debits(&credits)?;
        let mut found = Vec::new();
        for (key, value) in self.bucket.bucket(b"t").into_iter().flat_map(Bucket::values) {
            let mut fields = Fields::new(key, "the key of a transaction");
            let record = RecordKey::read(&mut fields)?;
            fields.end()?;
            let (received, tx) = transaction(record.txid, value)?;
            let block = blocks.get(&record.height).filter(|block| block.hash == record.hash);
            // A block that leaves the chain takes its records along. One that
            // stayed behind would count as confirmed in a block that is no more.
            let Some(place) = order.get(&record).filter(|_| block.is_some()) else {
                let why =
                    format!("transaction {} is in a block that does not list it", record.txid);
                return Err(ReadError::Damaged(why));
            };
            let credits = credits.remove(&record).unwrap_or_default();
            let credits: Vec<Credit> = credits.into_iter().map(|raw| raw.credit).collect();
            let debits = debits.remove(&record).unwrap_or_default();
            let txid = record.txid;
            let made = SourceTx { txid, tx, received, block: block.copied(), credits, debits };
            check_parts(&made)?;
            found.push(((record.height, *place), made));
        }
        // Passed over, they would be coins without a transaction, and the balance would lack them.
        if let Some(lost) = credits.keys().chain(debits.keys()).next() {
            let why = format!("a credit or debit of transaction {}, which is missing", lost.txid);
            return Err(ReadError::Damaged(why));
        }
        found.sort_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, tx)| tx).collect())
    }

    /// Blocks by height, and each transaction's place among those of its block.
    #[allow(clippy::type_complexity)]
    fn blocks(
        &self,
    ) -> Result<(BTreeMap<u32, SourceBlock>, BTreeMap<RecordKey, usize>), ReadError> {
        let (mut blocks, mut order) = (BTreeMap::new(), BTreeMap::new());
        for (key, value) in self.bucket.bucket(b"b").into_iter().flat_map(Bucket::values) {
            let height = Fields::new(key, "the height of a block").u32_be()?;
            let mut fields = Fields::new(value, "a block");
            let hash = BlockHash::from_byte_array(hash(&mut fields)?);
            let (time, count) = (fields.u64_be()?, fields.u32_be()?);
            for place in 0..count {
                let txid = Txid::from_byte_array(fields.array()?);
                order.insert(RecordKey { txid, height, hash }, place as usize);
            }
            blocks.insert(height, SourceBlock { height, hash, time });
        }
        Ok((blocks, order))
    }

    fn credits(&self) -> Result<BTreeMap<RecordKey, Vec<RawCredit>>, ReadError> {
        let mut found: BTreeMap<RecordKey, Vec<RawCredit>> = BTreeMap::new();
        for (key, value) in self.bucket.bucket(b"c").into_iter().flat_map(Bucket::values) {
            let (record, index) = RecordKey::part(key)?;
            let mut fields = Fields::new(value, "a credit");
            let (amount, flags) = (fields.u64_be()?, fields.u8()?);
            let is_mined_spend = flags & SPENT != 0;
            let spender =
                is_mined_spend.then(|| RecordKey::part(fields.bytes(PART)?)).transpose()?;
            let coin = OutPoint { txid: record.txid, vout: index };
            // The flag knows only mined spenders; unmined ones stand in a bucket of their own.
            let is_spent = is_mined_spend || self.spent_unmined.contains(&coin);
            let credit = Credit { index, amount, is_change: flags & CHANGE != 0, is_spent };
            found.entry(record).or_default().push(RawCredit { credit, spender });
        }
        Ok(found)
    }

    /// Debits, each of which must lead to a credit that leads back to it.
    fn debits(
        &self,
        credits: &BTreeMap<RecordKey, Vec<RawCredit>>,
    ) -> Result<BTreeMap<RecordKey, Vec<Debit>>, ReadError> {
        let mut found: BTreeMap<RecordKey, Vec<Debit>> = BTreeMap::new();
        for (key, value) in self.bucket.bucket(b"d").into_iter().flat_map(Bucket::values) {
            let (record, index) = RecordKey::part(key)?;
            let mut fields = Fields::new(value, "a debit");
            let amount = fields.u64_be()?;
            let (spent, vout) = RecordKey::part(fields.bytes(PART)?)?;
            fields.end()?;
            let credit = credits.get(&spent).into_iter().flatten();
            let credit = credit.into_iter().find(|raw| raw.credit.index == vout);
            // The source writes both ends in one commit, so that only damage parts them.
            let leads_back = credit.is_some_and(|raw| {
                raw.credit.amount == amount && raw.spender == Some((record, index))
            });
            if !leads_back {
                let why = format!("input {index} of {} spends a credit differently", record.txid);
                return Err(ReadError::Damaged(why));
            }
            found.entry(record).or_default().push(Debit { index, amount });
        }
        Ok(found)
    }

    fn unmined(&self, mined: &[SourceTx]) -> Result<Vec<SourceTx>, ReadError> {
        let mut credits: HashMap<Txid, Vec<Credit>> = HashMap::new();
        for (coin, mut credit) in each(self.bucket, b"mc", unmined_credit)? {
            credit.is_spent = self.spent_unmined.contains(&coin);
            credits.entry(coin.txid).or_default().push(credit);
        }
        let mut txs = each(self.bucket, b"m", |BucketEntry { key, value }| {
            let txid = Txid::from_byte_array(hash(&mut Fields::new(key, "the name of a tx"))?);
            let (received, tx) = transaction(txid, value)?;
            let credits = credits.get(&txid).cloned().unwrap_or_default();
            Ok(SourceTx { txid, tx, received, block: None, credits, debits: Vec::new() })
        })?;
        // Unmined ones too: a payment may spend change that waits for a block itself.
        let amounts: HashMap<OutPoint, u64> = mined.iter().chain(&txs).flat_map(coins).collect();
        for tx in &mut txs {
            let inputs = (0_u32..).zip(&tx.tx.input);
            let ours = inputs.filter_map(|(index, input)| {
                let amount = *amounts.get(&input.previous_output)?;
                Some(Debit { index, amount })
            });
            tx.debits = ours.collect();
            check_parts(tx)?;
        }
        Ok(txs)
    }
}

/// The wallet's outputs of a transaction, with their amounts.
fn coins(tx: &SourceTx) -> impl Iterator<Item = (OutPoint, u64)> {
    tx.credits.iter().map(|credit| (OutPoint::new(tx.txid, credit.index), credit.amount))
}

fn unmined_credit(
    BucketEntry { key, value }: BucketEntry<'_>,
) -> Result<(OutPoint, Credit), ReadError> {
    let coin = outpoint(key)?;
    let mut fields = Fields::new(value, "an unmined credit");
    let (amount, flags) = (fields.u64_be()?, fields.u8()?);
    let is_change = flags & CHANGE != 0;
    Ok((coin, Credit { index: coin.vout, amount, is_change, is_spent: false }))
}

/// When it was received, and the transaction, which must hash to its name.
fn transaction(txid: Txid, value: &[u8]) -> Result<(u64, Transaction), ReadError> {
    let mut fields = Fields::new(value, "a transaction");
    let received = fields.u64_be()?;
    let read = encode::deserialize::<Transaction>(fields.rest());
    let tx = read.map_err(|error| ReadError::Damaged(format!("transaction {txid}: {error}")))?;
    // bbolt has checksums for its meta pages only: a flipped bit in here is found now, or never.
    if tx.compute_txid() != txid {
        return Err(ReadError::Damaged(format!("transaction {txid} has a different hash")));
    }
    Ok((received, tx))
}

/// Credits are outputs that there are, with their amounts; debits are inputs that there are.
fn check_parts(found: &SourceTx) -> Result<(), ReadError> {
    let wrong = |what: &str, index: u32| {
        let why = format!("{what} {index} of {} is not in the transaction", found.txid);
        Err(ReadError::Damaged(why))
    };
    for credit in &found.credits {
        let output = usize::try_from(credit.index).ok().and_then(|at| found.tx.output.get(at));
        if output.is_none_or(|output| output.value.to_sat() != credit.amount) {
            return wrong("credit", credit.index);
        }
    }
    for debit in &found.debits {
        let input = usize::try_from(debit.index).ok().and_then(|at| found.tx.input.get(at));
        if input.is_none() {
            return wrong("debit", debit.index);
        }
    }
    Ok(())
}
