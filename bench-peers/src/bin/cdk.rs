//! cdk's wallet store beside our ecash room: payments one after the other out of a purse of 10,000
//! proofs on SQLite, each reserved, marked and completed with change.
//!
//! The calls are those that cdk's wallet makes for a melt that needs no swap (`melt/saga` of cdk
//! 0.18). Its wallet reads all free proofs to choose among them; the second figure leaves that
//! reading out. Both stores write ahead with `synchronous = FULL`, so that each commit waits for
//! the disk. Ours seals every proof, keeps a journal and states of its own; cdk's keeps neither, and
//! commits each call by itself.
//!
//! What runs our side is given as arguments; rounds take turns, so that both meet the same load:
//! `cdk cargo bench -q -p unspent-ecash --bench ecash -- beside`.

use std::{
    collections::HashMap,
    error::Error,
    process::Command,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use cdk_common::{
    Amount, CurrencyUnit, Id, KeySetInfo, MeltQuoteState, PaymentMethod, Proof, PublicKey,
    SecretKey, State,
    database::WalletDatabase,
    mint_url::MintUrl,
    secret::Secret,
    wallet::{
        MeltOperationData, MeltQuote, MeltSagaState, OperationData, ProofInfo, Transaction,
        TransactionDirection, TransactionStatus, WalletSaga, WalletSagaState,
    },
};
use cdk_sqlite::WalletSqliteDatabase;
use uuid::Uuid;

/// The same as in `crates/rooms/ecash/store/benches/ecash.rs`.
const KEYSET: &str = "009a1f293253e41e";
const PURSE: u64 = 10_000;
const PAYMENTS: u64 = 50;
const AMOUNT: u64 = 5_000;
const FEE_RESERVE: u64 = 50;
const ROUNDS: usize = 3;

type Failure = Box<dyn Error>;

/// What a round took, in seconds.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

struct Peer {
    db: WalletSqliteDatabase,
    mint: MintUrl,
    keyset: Id,
    /// Free proofs as we know them, for the figure without reading them.
    purse: Vec<ProofInfo>,
}

fn proof(number: u64, amount: u64, keyset: Id) -> Result<Proof, Failure> {
    let point = SecretKey::from_slice(&[7; 32])?.public_key();
    Ok(Proof::new(Amount::from(amount), keyset, Secret::new(format!("{number:064x}")), point))
}

/// The largest first, until they pay: cheaper than any wallet's choice.
fn choose(free: &[ProofInfo]) -> Vec<PublicKey> {
    let mut order: Vec<&ProofInfo> = free.iter().collect();
    order.sort_by_key(|info| std::cmp::Reverse(info.proof.amount));
    let (mut sum, mut ys) = (0, Vec::new());
    // From the smallest that pays alone, or from the largest down.
    let needed = AMOUNT + FEE_RESERVE + 1;
    if let Some(one) = order.iter().rev().find(|info| info.proof.amount.to_u64() >= needed) {
        return vec![one.y];
    }
    for info in order {
        if sum < needed {
            sum += info.proof.amount.to_u64();
            ys.push(info.y);
        }
    }
    ys
}

impl Peer {
    async fn open(path: &str) -> Result<Self, Failure> {
        let db = WalletSqliteDatabase::new(path).await?;
        let (mint, keyset): (MintUrl, Id) = ("http://127.0.0.1:1".parse()?, KEYSET.parse()?);
        db.add_mint(mint.clone(), None).await?;
        let info = KeySetInfo {
            id: keyset,
            unit: CurrencyUnit::Sat,
            active: true,
            input_fee_ppk: 100,
            final_expiry: None,
        };
        db.add_mint_keysets(mint.clone(), vec![info]).await?;
        let mut peer = Self { db, mint, keyset, purse: Vec::new() };
        for number in 0..PURSE {
            let proof = proof(number, 1 << (number % 16), keyset)?;
            peer.purse.push(peer.info(proof)?);
        }
        peer.db.update_proofs(peer.purse.clone(), Vec::new()).await?;
        Ok(peer)
    }

    fn info(&self, proof: Proof) -> Result<ProofInfo, Failure> {
        Ok(ProofInfo::new(proof, self.mint.clone(), State::Unspent, CurrencyUnit::Sat)?)
    }

    fn quote(&self, at: u64) -> MeltQuote {
        MeltQuote {
            id: format!("melt{at}"),
            mint_url: Some(self.mint.clone()),
            unit: CurrencyUnit::Sat,
            amount: Amount::from(AMOUNT),
            request: "lnbc1".into(),
            fee_reserve: Amount::from(FEE_RESERVE),
            state: MeltQuoteState::Unpaid,
            expiry: u64::MAX / 2,
            payment_proof: None,
            estimated_blocks: None,
            fee_index: None,
            payment_method: PaymentMethod::BOLT11,
            used_by_operation: None,
            version: 0,
        }
    }

    async fn pay(&mut self, at: u64, change: Vec<ProofInfo>, reads: bool) -> Result<(), Failure> {
        let (db, operation) = (&self.db, Uuid::from_u128(u128::from(at) + 1));
        let quote = self.quote(at);
        db.add_melt_quote(quote.clone()).await?;
        db.get_melt_quote(&quote.id).await?;
        db.reserve_melt_quote(&quote.id, &operation).await?;
        let ys = if reads {
            let (mint, unit) = (Some(self.mint.clone()), Some(CurrencyUnit::Sat));
            choose(&db.get_proofs(mint, unit, Some(vec![State::Unspent]), None).await?)
        } else {
            choose(&self.purse)
        };
        self.purse.retain(|info| !ys.contains(&info.y));
        db.reserve_proofs(ys.clone(), &operation).await?;
        let mut saga = self.saga(&quote, operation);
        db.add_saga(saga.clone()).await?;
        let mut inputs = db.get_proofs_by_ys(ys.clone()).await?;
        for info in &mut inputs {
            info.state = State::Pending;
        }
        db.update_proofs(inputs, Vec::new()).await?;
        db.increment_keyset_counter(&self.keyset, 12).await?;
        db.increment_keyset_counter(&self.keyset, 0).await?;
        saga.update_state(WalletSagaState::Melt(MeltSagaState::MeltRequested));
        if !db.update_saga(saga).await? {
            return Err("the saga was changed by somebody else".into());
        }
        let stored = db.get_melt_quote(&quote.id).await?.ok_or("the quote is gone")?;
        db.add_melt_quote(MeltQuote { state: MeltQuoteState::Paid, ..stored }).await?;
        db.update_proofs(change, Vec::new()).await?;
        db.update_proofs_state(ys.clone(), State::Spent).await?;
        db.add_transaction(self.transaction(&quote, ys, operation)?).await?;
        db.release_melt_quote(&operation).await?;
        db.delete_saga(&operation).await?;
        Ok(())
    }

    fn saga(&self, quote: &MeltQuote, operation: Uuid) -> WalletSaga {
        let data = MeltOperationData {
            quote_id: quote.id.clone(),
            amount: quote.amount,
            fee_reserve: quote.fee_reserve,
            counter_start: None,
            counter_end: None,
            change_amount: None,
            metadata: HashMap::new(),
            final_proof_ys: None,
            change_blinded_messages: None,
        };
        let state = WalletSagaState::Melt(MeltSagaState::ProofsReserved);
        let (mint, unit) = (self.mint.clone(), CurrencyUnit::Sat);
        WalletSaga::new(operation, state, quote.amount, mint, unit, OperationData::Melt(data))
    }

    fn transaction(
        &self,
        quote: &MeltQuote,
        ys: Vec<PublicKey>,
        operation: Uuid,
    ) -> Result<Transaction, Failure> {
        Ok(Transaction {
            mint_url: self.mint.clone(),
            direction: TransactionDirection::Outgoing,
            amount: quote.amount,
            fee: Amount::from(1),
            unit: CurrencyUnit::Sat,
            ys,
            timestamp: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
            memo: None,
            metadata: HashMap::new(),
            quote_id: Some(quote.id.clone()),
            payment_request: Some(quote.request.clone()),
            payment_proof: None,
            payment_method: Some(PaymentMethod::BOLT11),
            saga_id: Some(operation),
            status: TransactionStatus::Completed,
        })
    }
}

/// Processor time of this process so far, in seconds.
fn cpu() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Ok(ticks.sum::<Result<u64, _>>()? as f64 / 100.0)
}

async fn theirs(reads: bool) -> Result<Took, Failure> {
    let name = format!("cdk-bench-{}-{reads}.db", std::process::id());
    let path = std::env::temp_dir().join(name);
    let text = path.to_str().ok_or("the temporary folder has a strange name")?;
    let mut peer = Peer::open(text).await?;
    let mut change = Vec::new();
    for at in 0..PAYMENTS {
        let made = (0..3).map(|bit| peer.info(proof(PURSE + at * 3 + bit, 1 << bit, peer.keyset)?));
        change.push(made.collect::<Result<Vec<_>, _>>()?);
    }
    let (start, before) = (Instant::now(), cpu()?);
    for (at, change) in (0..).zip(change) {
        peer.pay(at, change, reads).await?;
    }
    let took = Took { wall: start.elapsed().as_secs_f64(), cpu: cpu()? - before };
    drop(peer);
    for end in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{text}{end}")).ok();
    }
    Ok(took)
}

/// Runs our side in a process of its own, which says what it took.
fn ours(command: &[String]) -> Result<Took, Failure> {
    let (program, args) = command.split_first().ok_or("say what runs our side")?;
    let output = Command::new(program).args(args).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("beside "));
    let line = line.ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let figures: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    match figures[..] {
        [payments, wall, cpu] if payments == PAYMENTS as f64 => Ok(Took { wall, cpu }),
        _ => Err(format!("the two sides do different work: {line}").into()),
    }
}

fn median(mut rounds: Vec<Took>) -> Took {
    let mut middle = |of: fn(&Took) -> f64| {
        rounds.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&rounds[rounds.len() / 2])
    };
    Took { wall: middle(|took| took.wall), cpu: middle(|took| took.cpu) }
}

fn print(name: &str, took: Took) {
    let (wall, cpu) = (PAYMENTS as f64 / took.wall, PAYMENTS as f64 / took.cpu);
    println!("{name:<44} {wall:>8.0} payments/s {cpu:>8.0} payments/CPU s");
}

fn main() -> Result<(), Failure> {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (mut own, mut whole, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(ours(&command)?);
        whole.push(runtime.block_on(theirs(true))?);
        bare.push(runtime.block_on(theirs(false))?);
    }
    let (own, whole, bare) = (median(own), median(whole), median(bare));
    print("unspent-ecash sqlite", own);
    print("cdk-sqlite, purse read as by its wallet", whole);
    print("cdk-sqlite, purse not read", bare);
    for (name, theirs) in [("purse read", whole), ("purse not read", bare)] {
        let (wall, cpu) = (theirs.wall / own.wall, theirs.cpu / own.cpu);
        println!("ours to theirs, {name}: {wall:.2} per second, {cpu:.2} per CPU second");
    }
    Ok(())
}
