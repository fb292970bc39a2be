//! A store in a fresh database beside mints in memory, with short words for what happens.

use std::{
    cell::{OnceCell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cashu::{Proofs, State};
use unspent_ecash::{
    AccountKind, AppliedChange, EcashAccount, EcashEntity, EcashError, EcashStore, InputChoice,
    KeySource, NewEntity, NewTerms, PageRequest, PaymentEvent, ScannedBatch,
    audit::audit,
    flow::{
        Flow, FlowAnswer, FlowEnvironment, FlowRequest, FlowStep, MintFault, ScanOutputs,
        WaitReason,
        scan::{SCAN_GAP, ask_found, with_word},
    },
    schema::SCHEMA,
};
use unspent_model::{
    Micros,
    ecash::{EntityEvent, EntityKind, EntityState, ProofState, transaction_at_end},
};
use unspent_sql::{Door, Options, Row, SqlError, Url};
use unspent_testkit::wallet::postgres;

use crate::{
    ledger::{Ledger, Outcome},
    mint::Mint,
};

pub const HOUR: Duration = Duration::from_secs(3_600);
/// Over 50 sat; [`crate::mint::PREIMAGE`] is its preimage.
pub const INVOICE: &str = "lnbc500n1pj48ugq9qypqqqdqqxqrrsssp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3\
    zyg3zyg3zyg3zygspp5v68ynuj55vnds5za5u8elvke5awxtfymrej8dksf3dq4q24w6xaq0h68tqays6um78y8j2u03\
    mtazljssu4pzq0a3ua6h80fezwy02ljxs0zzy27g2e8g8rasw689jdwhs2x5cefarpx546tem3jtketj7cqpemes5";
pub const WORDS: &str = "orchard velvet thunder";

pub fn key() -> KeySource {
    KeySource::Passphrase(WORDS.to_owned().into())
}

pub fn open(url: &Url, options: Options) -> EcashStore {
    EcashStore::open(url, &key(), Some([9; 64].into()), options).unwrap()
}

/// What happens to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Luck {
    Good,
    /// The mint never sees it.
    RequestLost,
    /// The mint does it, and nobody hears of it.
    AnswerLost,
    /// It arrives twice; the second answer comes back.
    Doubled,
}

pub struct StoreFixture {
    pub store: EcashStore,
    pub url: Url,
    pub mint: RefCell<Mint>,
    pub other: RefCell<Mint>,
    pub now: AtomicU64,
    pub fence: bool,
    /// A second opinion on everything that happens, where one is wanted.
    pub ledger: Option<RefCell<Ledger>>,
    next_id: AtomicU64,
    /// Looks at the rows.
    door: OnceCell<Door>,
    folder: Option<tempfile::TempDir>,
}

/// Runs a test on SQLite and, where it is there, on PostgreSQL.
pub fn on_both(test: impl Fn(StoreFixture)) {
    test(StoreFixture::sqlite());
    if let Some(fixture) = StoreFixture::postgres() {
        test(fixture);
    }
}

impl StoreFixture {
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("ecash.db").display());
        Self::open(url.parse().unwrap(), Some(folder))
    }

    pub fn postgres() -> Option<Self> {
        Some(Self::open(postgres::database()?.parse().unwrap(), None))
    }

    fn open(url: Url, folder: Option<tempfile::TempDir>) -> Self {
        let fixture = Self {
            store: open(&url, Options::default()),
            url,
            mint: RefCell::new(Mint::new(1, 100, true)),
            other: RefCell::new(Mint::new(2, 0, false)),
            now: AtomicU64::new(1_000_000),
            fence: false,
            ledger: None,
            next_id: AtomicU64::new(1),
            door: OnceCell::new(),
            folder,
        };
        fixture.add("home", &fixture.mint.borrow());
        fixture.add("away", &fixture.other.borrow());
        fixture
    }

    /// Scans everything that is due, as the worker does.
    pub fn scan(&self) {
        while let Some(due) = self.store.due_scans().unwrap().first() {
            let mint = if due.account_id == "away" { &self.other } else { &self.mint };
            let keys = mint.borrow().keys();
            let outputs = ScanOutputs::of(self.store.seed(), &due.keyset_id, due.from).unwrap();
            let ask = |request| match mint.borrow_mut().ask(&request) {
                FlowAnswer::Restored(found) => outputs.found(&found, &keys.keys).unwrap(),
                other => panic!("{other:?}"),
            };
            let url = || keys.url.clone();
            let found = ask(FlowRequest::Restore { mint: url(), request: outputs.request() });
            let states = if found.is_empty() {
                Vec::new()
            } else {
                let request = ask_found(&found).unwrap();
                match mint.borrow_mut().ask(&FlowRequest::CheckState { mint: url(), request }) {
                    FlowAnswer::States(states) => states,
                    other => panic!("{other:?}"),
                }
            };
            // A proof under way leaves the scan where it is.
            let Some(found) = with_word(found, &states) else { return };
            let is_last = found.is_empty() && outputs.end() >= due.counter + SCAN_GAP;
            let n = self.next_id.fetch_add(1, Ordering::Relaxed);
            let (scan_id, end) = (format!("s{n:04}"), outputs.end());
            let batch = ScannedBatch { scan_id, end, found, is_last };
            self.store.keep_scanned(due, batch, self.now()).unwrap();
        }
    }

    pub fn folder(&self) -> Option<&std::path::Path> {
        self.folder.as_ref().map(tempfile::TempDir::path)
    }

    fn add(&self, id: &str, mint: &Mint) {
        let account = EcashAccount {
            id: id.to_owned(),
            kind: AccountKind::Cashu,
            name: id.to_owned(),
            mint_url: Some(mint.url.clone()),
            unit: "sat".into(),
            version: 0,
        };
        self.store.add_account(account, Micros(1)).unwrap();
        self.store.put_keysets(id, mint.infos()).unwrap();
    }

    /// An account for the Spark wallet, called `spark`.
    pub fn add_spark(&self) {
        let account = EcashAccount {
            id: "spark".into(),
            kind: AccountKind::Spark,
            name: "Spark".into(),
            mint_url: None,
            unit: "sat".into(),
            version: 0,
        };
        self.store.add_account(account, Micros(1)).unwrap();
    }

    pub fn now(&self) -> Micros {
        Micros(self.now.load(Ordering::Relaxed) as i64)
    }

    pub fn wait_hours(&self, hours: u32) {
        self.now.fetch_add((HOUR * hours).as_micros() as u64, Ordering::Relaxed);
    }

    pub fn terms(&self, account: &str) -> NewTerms {
        let n = self.next_id.fetch_add(1, Ordering::Relaxed);
        NewTerms {
            id: format!("e{n:04}"),
            transaction_id: format!("t{n:04}"),
            idempotency_key: None,
            account_id: account.to_owned(),
            now: self.now(),
            expires_at: None,
        }
    }

    pub fn create(&self, new: NewEntity) -> EcashEntity {
        self.begin(new, self.terms("home")).unwrap().entity
    }

    pub fn apply(&self, id: &str, event: PaymentEvent) -> AppliedChange {
        self.tell(id, event).unwrap()
    }

    pub fn state(&self, id: &str) -> EntityState {
        self.store.entity(id).unwrap().state
    }

    pub fn free(&self, account: &str) -> u64 {
        self.store.balance(account).unwrap().unspent
    }

    pub fn held(&self, account: &str) -> u64 {
        self.store.balance(account).unwrap().reserved
    }

    /// Money from nowhere: an invoice that somebody pays.
    pub fn fund(&self, amount: u64) {
        let id = self.invoice("home", amount, None);
        self.pay_invoice("home", &id);
        assert_eq!(self.run(&id), FlowStep::Done);
    }

    /// A receive quote at a mint.
    pub fn invoice(&self, account: &str, amount: u64, expires_at: Option<Micros>) -> String {
        let terms = NewTerms { expires_at, ..self.terms(account) };
        let quote_id = format!("mint-{}", terms.id);
        let mint = if account == "home" { &self.mint } else { &self.other };
        let unpaid = cashu::MintQuoteState::Unpaid;
        mint.borrow_mut().quotes.insert(quote_id.clone(), (amount, unpaid));
        let new = NewEntity::ReceiveQuote {
            quote_id,
            invoice: INVOICE.into(),
            amount,
            lock_index: 3,
            source: None,
        };
        self.begin(new, terms).unwrap().entity.id
    }

    pub fn pay_invoice(&self, account: &str, id: &str) {
        let mint = if account == "home" { &self.mint } else { &self.other };
        let quote = mint.borrow().quotes[&format!("mint-{id}")];
        let paid = (quote.0, cashu::MintQuoteState::Paid);
        mint.borrow_mut().quotes.insert(format!("mint-{id}"), paid);
    }

    pub fn melt(&self, amount: u64, expires_at: Option<Micros>) -> EcashEntity {
        self.try_melt(amount, expires_at, InputChoice::Select).unwrap()
    }

    pub fn try_melt(
        &self,
        amount: u64,
        expires_at: Option<Micros>,
        inputs: InputChoice,
    ) -> Result<EcashEntity, EcashError> {
        let terms = NewTerms { expires_at, ..self.terms("home") };
        let quote_id = format!("melt-{}", terms.id);
        self.mint.borrow_mut().offer_melt(&quote_id, amount);
        let new = NewEntity::SendQuote {
            quote_id,
            invoice: INVOICE.into(),
            amount,
            fee_reserve: 5,
            inputs,
            keyset: self.mint.borrow().output_keyset(),
        };
        Ok(self.begin(new, terms)?.entity)
    }

    pub fn token(&self, amount: u64) -> EcashEntity {
        self.try_token(amount).unwrap()
    }

    pub fn try_token(&self, amount: u64) -> Result<EcashEntity, EcashError> {
        let keyset = self.mint.borrow().output_keyset();
        let new = NewEntity::SendSwap { amount, inputs: InputChoice::Select, keyset };
        Ok(self.begin(new, self.terms("home"))?.entity)
    }

    /// The proofs of a token that was made.
    pub fn token_of(&self, id: &str) -> Proofs {
        self.store.open_entity(id).unwrap().held
    }

    /// Somebody else claims a token.
    pub fn claim_by_other(&self, token: &Proofs) {
        let names: Vec<_> = token.iter().map(|proof| proof.y().unwrap()).collect();
        self.mint.borrow_mut().spent.extend(names);
    }

    /// A new flow with everything it needs.
    pub fn flow(&self, id: &str) -> (Flow, FlowStep) {
        let open = self.store.open_entity(id).unwrap();
        let keys = |mint: &RefCell<Mint>| Some(Arc::new(mint.borrow().keys()));
        let is_home = open.entity.account_id != "away";
        let environment = FlowEnvironment {
            seed: self.store.seed().clone(),
            mint: if is_home { keys(&self.mint) } else { keys(&self.other) },
            source: keys(&self.mint),
            unit: "sat".into(),
            now: self.now(),
            fence: self.fence,
        };
        Flow::start(open, environment).unwrap()
    }

    pub fn ask(&self, request: &FlowRequest, luck: Luck) -> FlowAnswer {
        let is_home = request.mint() == Some(&self.mint.borrow().url);
        let mint = if is_home { &self.mint } else { &self.other };
        let lost = || FlowAnswer::Fault(MintFault::Unknown("no answer".into()));
        match luck {
            Luck::Good => mint.borrow_mut().ask(request),
            Luck::RequestLost => lost(),
            Luck::AnswerLost => {
                mint.borrow_mut().ask(request);
                lost()
            }
            Luck::Doubled => {
                mint.borrow_mut().ask(request);
                mint.borrow_mut().ask(request)
            }
        }
    }

    /// Runs an entity until it waits or is over.
    pub fn run(&self, id: &str) -> FlowStep {
        self.run_with(id, |_| Luck::Good)
    }

    pub fn run_with(&self, id: &str, mut luck: impl FnMut(&FlowRequest) -> Luck) -> FlowStep {
        for _ in 0..40 {
            let (mut flow, mut next) = self.flow(id);
            loop {
                match next {
                    FlowStep::Ask(request) => {
                        let answer = self.ask(&request, luck(&request));
                        next = flow.answer(answer).unwrap();
                    }
                    FlowStep::Apply(event) => {
                        match self.tell(id, event) {
                            Ok(_) => break,
                            Err(EcashError::Refused(_)) => {
                                return FlowStep::Wait(WaitReason::ForChange);
                            }
                            Err(error) => panic!("{id}: {error}"),
                        };
                    }
                    FlowStep::Wait(_) | FlowStep::Done => return next,
                }
            }
        }
        panic!("{id} goes round in circles: {:?}", self.store.entity(id));
    }

    /// Runs with one answer of a kind lost, then without trouble.
    pub fn run_with_lost(&self, id: &str, what: &str, how: Luck) -> FlowStep {
        let mut is_lost = false;
        self.run_with(id, |request| {
            let hit = !is_lost && request.name() == what;
            is_lost |= hit;
            if hit { how } else { Luck::Good }
        });
        assert!(is_lost, "no {what} was asked");
        self.run(id)
    }

    /// What must hold whenever nothing is under way: our view is the mint's, and each entity that
    /// is over agrees with its transaction.
    pub fn check(&self) {
        for account in ["home", "away"] {
            let mint = if account == "home" { &self.mint } else { &self.other };
            let mint = mint.borrow();
            let of = |state| self.store.proofs(account, state, PageRequest::first(10_000)).unwrap();
            let view = |y: &str| mint.state(&cashu::PublicKey::from_hex(y).unwrap());
            for proof in of(ProofState::Unspent) {
                assert_eq!(view(&proof.y), State::Unspent, "{account}: {proof:?}");
            }
            for proof in of(ProofState::Spent) {
                assert_eq!(view(&proof.y), State::Spent, "{account}: {proof:?}");
            }
        }
        for (kind, _) in unspent_model::ecash::ENTITY_KINDS {
            for entity in self.store.entities(kind, PageRequest::first(10_000)).unwrap() {
                self.check_entity(kind, &entity);
            }
        }
        assert_eq!(audit(&self.url, Options::default()).unwrap(), Vec::<String>::new());
    }

    fn check_entity(&self, kind: EntityKind, entity: &EcashEntity) {
        if kind.is_terminal(entity.state) {
            let end = transaction_at_end(entity.state);
            assert_eq!(Some(entity.transaction_state), end, "{entity:?}");
            assert!(self.token_of(&entity.id).is_empty(), "{} still holds proofs", entity.id);
        }
        let journal = self.store.journal_of(&entity.id).unwrap();
        assert_eq!(journal.len() as u64, entity.version + 1, "{journal:?}");
        assert_eq!(journal.last().unwrap().to, entity.state.name());
        for (at, line) in journal.iter().enumerate() {
            assert_eq!(line.version, at as u64);
        }
    }

    pub fn own_door(&self) -> Door {
        Door::open(&self.url, &SCHEMA, Options::default()).unwrap()
    }

    pub fn rows(&self, sql: &'static str) -> Vec<Row> {
        self.own_door().read(move |tx| -> Result<_, SqlError> { tx.query(sql, &[]) }).unwrap()
    }
}

impl StoreFixture {
    /// Runs everything of which something is still expected.
    pub fn run_open(&self) {
        for entity in self.store.open_entities(PageRequest::first(10_000)).unwrap() {
            self.run(&entity.id);
        }
    }
}

/// Everything that a [`Ledger`] knows too.
const SNAPSHOT: [&str; 5] = [
    "SELECT e.id AS id, e.state AS state, e.version AS version, e.is_open AS is_open,
        e.melt_initiated AS melt, e.alarm AS alarm, t.state AS tx, t.version AS tx_version
    FROM entities e JOIN transactions t ON t.id = e.transaction_id",
    "SELECT account_id, y, amount, keyset_id, state, version, held_by FROM proofs",
    "SELECT id, version FROM accounts",
    "SELECT k.account_id AS account_id, k.keyset_id AS keyset_id, c.counter AS counter
    FROM account_keysets k JOIN counters c ON c.keyset_id = k.keyset_id",
    "SELECT COUNT(*) AS lines, MAX(number) AS last FROM journal",
];

impl StoreFixture {
    /// Lets a ledger watch from now on; nothing has happened yet.
    pub fn watch(&mut self) {
        self.ledger = Some(RefCell::default());
        self.put_keysets();
    }

    /// Tells the store what the mints' keysets are.
    pub fn put_keysets(&self) {
        for (account, mint) in [("home", &self.mint), ("away", &self.other)] {
            let infos = mint.borrow().infos();
            if let Some(ledger) = &self.ledger {
                for info in &infos {
                    ledger.borrow_mut().add_keyset(account, &info.keyset_id, info.fee_ppk);
                }
            }
            self.store.put_keysets(account, infos).unwrap();
        }
    }

    /// As after a crash: nothing is left but what is on the disk.
    pub fn reopen(&mut self) {
        self.store = open(&self.url, Options::default());
    }

    pub fn begin(&self, new: NewEntity, terms: NewTerms) -> Result<AppliedChange, EcashError> {
        let Some(ledger) = &self.ledger else { return self.store.create(new, terms) };
        let token = match &new {
            NewEntity::Reversal { send_swap, .. } => self.token_of(send_swap),
            _ => Proofs::new(),
        };
        let done = self.store.create(new.clone(), terms.clone());
        let held = match &done {
            Ok(done) if !done.is_repeat => self.token_of(&done.entity.id),
            _ => Proofs::new(),
        };
        let held: Vec<_> = held.iter().map(|p| unspent_ecash::proof_name(p).unwrap()).collect();
        ledger.borrow_mut().born((&new, &terms), &token, &done, &held);
        done
    }

    pub fn tell(&self, id: &str, event: PaymentEvent) -> Result<AppliedChange, EcashError> {
        let now = self.now();
        let Some(ledger) = &self.ledger else { return self.store.apply(id, event, now) };
        let mut ledger = ledger.borrow_mut();
        let expected = ledger.judge(id, &event, now);
        let done = self.store.apply(id, event.clone(), now);
        let seen = match &done {
            Ok(done) if done.is_repeat => Outcome::Repeat,
            Ok(_) => Outcome::Change,
            Err(EcashError::Refused(_)) => Outcome::Refused,
            Err(EcashError::Argument(_) | EcashError::Sql(SqlError::Constraint(_))) => Outcome::Bad,
            Err(error) => panic!("{id} {event:?}: {error}"),
        };
        assert_eq!(seen, expected, "{event:?} on {:?}", ledger.things[id]);
        if seen == Outcome::Change {
            let next = event.range.as_ref().map(|range| ledger.keysets[&range.keyset_id].next);
            ledger.change(id, &event);
            let entity = &done.as_ref().unwrap().entity;
            let is_fence = event.what == EntityEvent::TakeFenceRange;
            if let (Some(next), Some(range), false) = (next, entity.details.range(), is_fence) {
                assert_eq!(range.start, next, "{entity:?} takes outputs that are not the next");
            }
        }
        done
    }

    /// Everything that is stored, in the words of [`Ledger::snapshot`].
    pub fn snapshot(&self) -> Vec<String> {
        let door = self.door.get_or_init(|| self.own_door());
        let [entities, proofs, accounts, keysets, journal] = SNAPSHOT
            .map(|sql| door.read(move |tx| -> Result<_, SqlError> { tx.query(sql, &[]) }).unwrap());
        let text = |row: &Row, name: &str| row.text(name).unwrap();
        let number = |row: &Row, name: &str| row.int(name).unwrap();
        let flag = |row: &Row, name: &str| row.flag(name).unwrap();
        let mut all: Vec<String> = Vec::new();
        all.extend(entities.iter().map(|row| {
            let (id, state, tx) = (text(row, "id"), text(row, "state"), text(row, "tx"));
            let (version, tx_version) = (number(row, "version"), number(row, "tx_version"));
            let [open, melt, alarm] = ["is_open", "melt", "alarm"].map(|name| flag(row, name));
            format!("entity {id} {state} {version} {open} {melt} {alarm} {tx} {tx_version}")
        }));
        all.extend(proofs.iter().map(|row| {
            let [account, keyset, state] =
                ["account_id", "keyset_id", "state"].map(|name| text(row, name));
            let (name, amount) = (hex::encode(row.blob("y").unwrap()), number(row, "amount"));
            let holder = row.opt_text("held_by").unwrap().unwrap_or_else(|| "nobody".into());
            let version = number(row, "version");
            format!("proof {account} {name} {amount} {keyset} {state} {version} {holder}")
        }));
        all.extend(
            accounts
                .iter()
                .map(|row| format!("account {} {}", text(row, "id"), number(row, "version"))),
        );
        all.extend(keysets.iter().map(|row| {
            let (account, id) = (text(row, "account_id"), text(row, "keyset_id"));
            format!("counter {account} {id} {}", number(row, "counter"))
        }));
        let last = journal[0].opt_int("last").unwrap().unwrap_or(0);
        assert_eq!(number(&journal[0], "lines"), last, "the journal has gaps");
        all.push(format!("journal {last}"));
        all.sort();
        all
    }

    /// The store holds what the second opinion says, to the last row.
    pub fn compare(&self) {
        let ledger = self.ledger.as_ref().unwrap().borrow();
        let (ours, theirs) = (self.snapshot(), ledger.snapshot());
        let only = |a: &[String], b: &[String]| -> Vec<String> {
            a.iter().filter(|line| !b.contains(line)).cloned().collect()
        };
        let (ours_only, theirs_only) = (only(&ours, &theirs), only(&theirs, &ours));
        let backend = self.url.backend();
        assert_eq!(ours_only, theirs_only, "{backend:?}: stored, and what should be");
        assert_eq!(ours.len(), theirs.len());
        for account in ledger.accounts.keys() {
            ledger.check_sums(account, self.store.balance(account).unwrap());
        }
    }
}
