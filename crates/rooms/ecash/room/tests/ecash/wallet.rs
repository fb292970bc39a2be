//! A wallet of the room: one store and the worker that moves its payments; and what must hold
//! after every case, whatever happened in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use cashu::{CheckStateRequest, PublicKey, State};
use unspent_ecash::{EcashAccount, EcashEntity, EcashStore, KeySource, PageRequest};
use unspent_ecash_room::{
    counters_of,
    mint::{MintOptions, check::MintBlocklist},
    spark::SparkBackend,
    watch::ListenerOptions,
    work::{
        ask::PaymentBackends,
        book::MintBook,
        executor::PaymentExecutor,
        payments::RequestKey,
        worker::{PassReport, PaymentWorker, WorkerOptions},
    },
};
use unspent_model::ecash::{EntityKind, EntityState, ProofState, transaction_at_end};
use unspent_sql::{Options, Url};
use unspent_testkit::ecash::MintSettings;

use crate::purse::{PATIENCE, options};

const KINDS: [EntityKind; 6] = [
    EntityKind::CashuSendQuote,
    EntityKind::CashuSendSwap,
    EntityKind::CashuReceiveQuote,
    EntityKind::CashuReceiveSwap,
    EntityKind::SparkSendQuote,
    EntityKind::SparkReceiveQuote,
];
/// More than any case makes.
const ALL: u32 = 10_000;

/// How a wallet is opened.
pub struct Setup {
    /// A database other than the one in the folder.
    pub url: Option<Url>,
    pub mints: MintOptions,
    pub spark: Option<Arc<dyn SparkBackend>>,
    pub fence: bool,
    /// Where it is written how far counters were used; nowhere unless named.
    pub counters: Vec<PathBuf>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { url: None, mints: options(), spark: None, fence: false, counters: Vec::new() }
    }
}

pub struct Wallet {
    url: Url,
    pub executor: Arc<PaymentExecutor>,
    pub worker: PaymentWorker,
}

pub fn plain() -> MintSettings {
    MintSettings { input_fee_ppk: 100, ..Default::default() }
}

pub fn asked() -> RequestKey {
    RequestKey::default()
}

impl Wallet {
    pub fn open(folder: &Path) -> Self {
        Self::with(folder, Setup::default())
    }

    pub fn with(folder: &Path, setup: Setup) -> Self {
        let url = setup.url.unwrap_or_else(|| Url::Sqlite(folder.join("ecash.db")));
        let key = KeySource::KeyFile(vec![7; 32].into());
        let store = EcashStore::open(&url, &key, None, Options::default()).unwrap();
        let backends = PaymentBackends { mints: MintBook::new(setup.mints), spark: setup.spark };
        let counters = counters_of(&store, &setup.counters).unwrap();
        let store = Arc::new(store);
        let executor = PaymentExecutor { store, backends, fence: setup.fence, counters };
        let executor = Arc::new(executor);
        let listener = ListenerOptions { allow_private: true, ..Default::default() };
        let listening = WorkerOptions { listener, ..Default::default() };
        let worker = PaymentWorker::new(executor.clone(), listening).unwrap();
        Self { url, executor, worker }
    }

    pub fn account(&self, mint: &str) -> EcashAccount {
        self.executor.add_account(mint, "sat", "test", &MintBlocklist::default()).unwrap()
    }

    pub fn entity(&self, id: &str) -> EcashEntity {
        self.executor.store.entity(id).unwrap()
    }

    pub fn balance(&self, account: &EcashAccount) -> (u64, u64) {
        let balance = self.executor.store.balance(&account.id).unwrap();
        (balance.unspent, balance.reserved)
    }

    /// What was noted with the last thing that happened to a payment.
    pub fn last_note(&self, id: &str) -> String {
        let journal = self.executor.store.journal_of(id).unwrap();
        journal.last().and_then(|line| line.note.clone()).unwrap_or_default()
    }

    /// Works until a payment is in a state.
    pub fn work_until(&mut self, id: &str, wanted: EntityState) {
        self.work_while(id, |entity| entity.state == wanted);
    }

    /// Works until something holds of a payment.
    pub fn work_while(&mut self, id: &str, holds: impl Fn(&EcashEntity) -> bool) {
        let until = Instant::now() + PATIENCE;
        loop {
            let report = self.worker.step().unwrap();
            let found = self.entity(id);
            if holds(&found) {
                return;
            }
            let journal = self.executor.store.journal_of(id).unwrap();
            assert!(Instant::now() < until, "{found:?}: {report:?}\n{journal:#?}");
            self.worker.rest(Duration::from_millis(200));
        }
    }

    /// Works for a while.
    pub fn work_for(&mut self, time: Duration) -> Vec<PassReport> {
        let until = Instant::now() + time;
        let mut reports = Vec::new();
        while Instant::now() < until {
            reports.push(self.worker.step().unwrap());
            self.worker.rest(Duration::from_millis(200));
        }
        reports
    }

    /// Fresh money out of nowhere: an invoice that the mint's Lightning side pays.
    pub fn earn(&mut self, account: &EcashAccount, amount: u64) {
        let quote = self.executor.receive(&account.id, amount, &RequestKey::default()).unwrap();
        self.work_until(&quote.id, EntityState::Completed);
    }

    /// A token of an account's money, handed over.
    pub fn token(&mut self, account: &EcashAccount, amount: u64) -> (String, cashu::Token) {
        let send = self.executor.send(&account.id, amount, &asked()).unwrap();
        self.work_until(&send.id, EntityState::Pending);
        let token = self.executor.token(&send.id).unwrap();
        (send.id, token)
    }

    /// Checks what must hold after every case.
    pub fn audit(&self, accounts: &[&EcashAccount]) {
        let mut seen = BTreeSet::new();
        for account in accounts {
            self.agrees_with_mint(account, &mut seen);
        }
        self.never_makes_an_output_twice();
        self.entities_agree_with_transactions();
        let damage = unspent_ecash::audit::audit(&self.url, Options::default()).unwrap();
        assert!(damage.is_empty(), "{damage:#?}");
    }

    /// What the mint says of our proofs equals what we say, and no proof is there twice.
    fn agrees_with_mint(&self, account: &EcashAccount, seen: &mut BTreeSet<String>) {
        let client = self.executor.backends.mints.client(account.mint_url.as_ref().unwrap());
        for ours in [ProofState::Unspent, ProofState::Reserved, ProofState::Spent] {
            let proofs =
                self.executor.store.proofs(&account.id, ours, PageRequest::first(ALL)).unwrap();
            let ys: Vec<PublicKey> =
                proofs.iter().map(|proof| PublicKey::from_hex(&proof.y).unwrap()).collect();
            if ys.is_empty() {
                continue;
            }
            let states = client.check_states(&CheckStateRequest { ys }).unwrap().states;
            for (proof, state) in proofs.iter().zip(states) {
                let agrees = match ours {
                    ProofState::Unspent => state.state == State::Unspent,
                    ProofState::Reserved => state.state != State::Spent,
                    ProofState::Spent => state.state == State::Spent,
                };
                assert!(agrees, "the mint says {}: {proof:?}", state.state);
                assert!(seen.insert(proof.y.clone()), "twice: {proof:?}");
            }
        }
    }

    fn entities(&self) -> Vec<EcashEntity> {
        let of = |kind| self.executor.store.entities(kind, PageRequest::first(ALL)).unwrap();
        KINDS.into_iter().flat_map(of).collect()
    }

    /// Ranges of counters overlap nowhere, and no counter stands inside one.
    fn never_makes_an_output_twice(&self) {
        let mut taken: BTreeMap<(String, u32), String> = BTreeMap::new();
        let mut counters = BTreeMap::new();
        for account in self.executor.store.accounts().unwrap() {
            for (keyset, counter) in self.executor.store.keysets(&account.id).unwrap() {
                counters.insert(keyset.keyset_id, counter);
            }
        }
        for entity in self.entities() {
            for range in entity.details.ranges() {
                let end = range.start + u32::try_from(range.amounts.len()).unwrap();
                assert!(end <= counters[&range.keyset_id], "{entity:?}: {range:?}");
                for at in range.start..end {
                    let place = (range.keyset_id.clone(), at);
                    let before = taken.insert(place.clone(), entity.id.clone());
                    assert_eq!(before, None, "{place:?} is of two: {entity:?}");
                }
            }
        }
    }

    /// Entities and transactions tell the same, and versions only grow.
    fn entities_agree_with_transactions(&self) {
        let store = &self.executor.store;
        let transactions = store.transactions(PageRequest::first(ALL)).unwrap().into_iter();
        let states: BTreeMap<_, _> =
            transactions.map(|line| (line.entity_id, line.state)).collect();
        for entity in self.entities() {
            assert_eq!(states[&entity.id], entity.transaction_state, "{entity:?}");
            if entity.kind.is_terminal(entity.state) {
                let expected = transaction_at_end(entity.state);
                assert_eq!(expected, Some(entity.transaction_state), "{entity:?}");
            }
            let journal = store.journal_of(&entity.id).unwrap();
            let grows = journal.windows(2).all(|pair| pair[0].version < pair[1].version);
            assert!(grows && !journal.is_empty(), "{journal:#?}");
        }
    }
}
