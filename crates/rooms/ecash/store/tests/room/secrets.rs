//! No secret reaches the disk, a log, an error or a debug print.
//!
//! Searched for, as they are, in hexadecimal and in base64: the seed, the passphrase, secrets of
//! proofs, tokens in flight; on the disk also quote ids, invoices and preimages. Searched: the
//! files of SQLite with their write-ahead log, every row on PostgreSQL, log lines of all levels,
//! `Debug` and `Display` of what the room hands out, and the journal.

use std::{
    collections::BTreeSet,
    io::Write,
    sync::{Arc, Mutex},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use cashu::{CurrencyUnit, Proofs, Token};
use unspent_ecash::{
    EcashError, EcashStore, InputChoice, KeySource, NewEntity, NewSource, NewTerms, PaymentEvent,
    flow::{Flow, FlowStep},
};
use unspent_model::ecash::EntityEvent;
use unspent_sql::{Options, SqlError};

use crate::{fixture::*, mint::PREIMAGE};

/// Shorter ones would be found by chance.
const SHORTEST: usize = 8;

/// Something that must not be found, with a word for it.
struct Hidden {
    what: &'static str,
    forms: Vec<Vec<u8>>,
}

impl Hidden {
    /// A text that may itself be hexadecimal.
    fn new(what: &'static str, text: &str) -> Self {
        let mut forms = written(text.as_bytes());
        if let Ok(raw) = hex::decode(text) {
            forms.extend(written(&raw));
        }
        forms.retain(|form| form.len() >= SHORTEST);
        assert!(!forms.is_empty(), "{what} `{text}` is too short to be looked for");
        Self { what, forms }
    }

    fn is_in(&self, place: &[u8]) -> bool {
        self.is_in_text(&letters(place))
    }

    fn is_in_text(&self, place: &str) -> bool {
        self.forms.iter().any(|form| place.contains(&letters(form)))
    }
}

/// Each byte as the letter of its number: text is searched much faster than bytes.
fn letters(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Bytes in every form in which they could be written down.
fn written(bytes: &[u8]) -> Vec<Vec<u8>> {
    let hex = hex::encode(bytes);
    let mut forms =
        vec![bytes.to_vec(), hex.to_uppercase().into_bytes(), hex.into_bytes(), debug(bytes)];
    // In base64 three bytes make four characters, so that what stands before shifts the text.
    for shift in 0..3 {
        let shifted = [&vec![0; shift], bytes].concat();
        for coder in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let text = coder.encode(&shifted).into_bytes();
            let end = text.len() - usize::from(shifted.len() % 3 != 0);
            forms.push(text[(shift * 8).div_ceil(6)..end].to_vec());
        }
    }
    forms
}

/// As `{:?}` shows bytes.
fn debug(bytes: &[u8]) -> Vec<u8> {
    format!("{bytes:?}").trim_matches(['[', ']']).as_bytes().to_vec()
}

fn search(place: &str, bytes: &[u8], hidden: &[Hidden]) {
    let text = letters(bytes);
    for secret in hidden {
        assert!(!secret.is_in_text(&text), "{place} shows {}", secret.what);
    }
}

/// All log lines of this process.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn listen() -> Lines {
    let lines = Lines::default();
    let writer = lines.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .init();
    lines
}

/// A store in which a lot has happened, and what of it must not be seen.
struct Busy {
    d: StoreFixture,
    /// Never to be seen anywhere.
    secrets: Vec<Hidden>,
    /// Not to be read on the disk.
    sealed: Vec<Hidden>,
    known: BTreeSet<String>,
    /// Everything that the room handed out, as text.
    shown: String,
}

fn token_text(d: &StoreFixture, proofs: &Proofs) -> String {
    Token::new(d.mint.borrow().url.clone(), proofs.clone(), None, CurrencyUnit::Sat).to_string()
}

impl Busy {
    fn new(d: StoreFixture) -> Self {
        let secrets = vec![
            Hidden::new("the seed", &hex::encode([9_u8; 64])),
            Hidden::new("the passphrase", WORDS),
        ];
        let (known, shown) = (BTreeSet::new(), String::new());
        let mut busy = Self { d, secrets, sealed: Vec::new(), known, shown };
        busy.d.fund(1_000);
        busy.work();
        busy.stumble();
        busy
    }

    fn show(&mut self, what: &impl std::fmt::Debug) {
        self.shown += &format!("{what:?} {what:#?}\n");
    }

    fn fail(&mut self, error: &EcashError) {
        self.shown += &format!("{error} {error:?} {error:#?}\n");
    }

    fn hide(&mut self, proofs: &Proofs) {
        let mut texts: Vec<(&'static str, String)> =
            proofs.iter().map(|proof| ("a proof's secret", proof.secret.to_string())).collect();
        if !proofs.is_empty() {
            texts.push(("a token", token_text(&self.d, proofs)));
        }
        for (what, text) in texts {
            // The search is long enough without looking twice.
            if self.known.insert(text.clone()) {
                self.secrets.push(Hidden::new(what, &text));
            }
        }
    }

    /// Steps of an entity, each shown.
    fn run(&mut self, id: &str) {
        for _ in 0..20 {
            let open = self.d.store.open_entity(id).unwrap();
            self.hide(&open.held.clone());
            self.hide(&open.token.clone());
            self.show(&open);
            let (flow, next) = self.d.flow(id);
            let Some(event) = self.answer(flow, next) else { return };
            let fresh = event.proofs.iter().chain(&event.to_send);
            self.hide(&fresh.map(|fresh| fresh.proof.clone()).collect());
            let done = self.d.tell(id, event).unwrap();
            self.show(&done);
        }
    }

    fn answer(&mut self, mut flow: Flow, mut next: FlowStep) -> Option<PaymentEvent> {
        loop {
            self.show(&flow);
            self.show(&next);
            match next {
                FlowStep::Ask(request) => {
                    let answer = self.d.ask(&request, Luck::Good);
                    self.show(&answer);
                    next = flow.answer(answer).unwrap();
                }
                FlowStep::Apply(event) => return Some(event),
                FlowStep::Wait(_) | FlowStep::Done => return None,
            }
        }
    }

    /// A token made, one claimed, one in flight to another mint, a payment made, one under way.
    fn work(&mut self) {
        let swap = self.d.token(100);
        self.run(&swap.id);
        let token = self.d.token_of(&swap.id);
        let keyset = self.d.mint.borrow().output_keyset();
        let claim = NewEntity::ReceiveSwap { proofs: token.clone(), keyset: keyset.clone() };
        self.show(&claim);
        let claim = self.d.create(claim);
        let other = self.d.token(60);
        self.run(&other.id);
        let proofs = self.d.token_of(&other.id);
        let (cross, terms) = self.cross(proofs);
        self.show(&cross);
        self.show(&terms);
        self.d.begin(cross, terms).unwrap();
        let paid = self.d.melt(50, None);
        self.run(&paid.id);
        let held = self.d.melt(50, None);
        let open = self.d.store.open_entity(&held.id).unwrap();
        self.hide(&open.held.clone());
        self.show(&open);
        self.run(&claim.id);
        for id in [&swap.id, &claim.id, &paid.id, &held.id] {
            let journal = self.d.store.journal_of(id).unwrap();
            self.show(&journal);
        }
        let quotes = [format!("melt-{}", paid.id), format!("melt-{}", held.id)];
        let quotes = quotes.iter().map(|quote| Hidden::new("a quote id", quote));
        self.sealed.extend(quotes);
        self.sealed.push(Hidden::new("a quote id", "mint-e0001"));
        self.sealed.push(Hidden::new("a quote id of a token's melt", "melt-elsewhere"));
        self.sealed.push(Hidden::new("a preimage", PREIMAGE));
        self.sealed.push(Hidden::new("an invoice", INVOICE));
    }

    fn cross(&self, proofs: Proofs) -> (NewEntity, NewTerms) {
        let source = NewSource {
            mint_url: self.d.mint.borrow().url.to_string(),
            melt_quote_id: "melt-elsewhere".into(),
            proofs,
            input_fee: 1,
            amount: 40,
            fee_reserve: 5,
            account: None,
        };
        let (quote_id, invoice) = ("cross-quote".to_owned(), INVOICE.to_owned());
        let source = Some(source);
        let new = NewEntity::ReceiveQuote { quote_id, invoice, amount: 40, lock_index: 1, source };
        (new, self.d.terms("away"))
    }

    /// Everything that can go wrong with secrets at hand.
    fn stumble(&mut self) {
        let swap = self.d.token(30);
        self.run(&swap.id);
        let token = self.d.token_of(&swap.id);
        self.hide(&token);
        let keyset = self.d.mint.borrow().output_keyset();
        let claim = |proofs: Proofs| NewEntity::ReceiveSwap { proofs, keyset: keyset.clone() };
        self.d.create(claim(token.clone()));
        let mut errors = vec![self.d.begin(claim(token.clone()), self.d.terms("home"))];
        errors.push(self.d.begin(claim(token.clone()), self.d.terms("away")));
        errors.push(self.d.begin(claim(token.clone()), self.d.terms("nowhere")));
        errors.push(self.d.begin(claim(Proofs::new()), self.d.terms("home")));
        let id = self.d.invoice("home", 31, None);
        self.d.pay_invoice("home", &id);
        let fresh = || token.iter().cloned().map(Into::into);
        let complete = PaymentEvent::new(EntityEvent::Complete).with_proofs(fresh());
        self.show(&complete);
        errors.push(self.d.tell(&id, complete.clone()));
        self.d.run_with(&id, |request| match request.name() {
            "mint_quote" => Luck::Good,
            _ => Luck::RequestLost,
        });
        // Proofs that are there already, and proofs that are worth too little.
        errors.push(self.d.tell(&id, complete));
        let short = PaymentEvent::new(EntityEvent::Complete).with_proofs(fresh().take(1));
        errors.push(self.d.tell(&id, short));
        errors.push(self.d.tell("e9999", PaymentEvent::new(EntityEvent::Fail)));
        let names = InputChoice::These(vec![[2; 33]]);
        errors.push(self.d.try_melt(5, None, names).map(|_| panic!("nobody has that proof")));
        for error in errors {
            self.fail(&error.expect_err("all of them are refused"));
        }
        let wrong = KeySource::Passphrase("something else".to_owned().into());
        let refused = EcashStore::open(&self.d.url, &wrong, None, Options::default()).unwrap_err();
        self.fail(&refused);
        let shown = format!("{:?} {:?} {wrong:?}", self.d.store, key());
        self.shown += &shown;
    }
}

/// A row as the server writes it, bytes in hexadecimal.
const ROWS: [&str; 10] = [
    "SELECT CAST(r AS text) AS line FROM store r",
    "SELECT CAST(r AS text) AS line FROM accounts r",
    "SELECT CAST(r AS text) AS line FROM counters r",
    "SELECT CAST(r AS text) AS line FROM account_keysets r",
    "SELECT CAST(r AS text) AS line FROM scans r",
    "SELECT CAST(r AS text) AS line FROM proofs r",
    "SELECT CAST(r AS text) AS line FROM entities r",
    "SELECT CAST(r AS text) AS line FROM transactions r",
    "SELECT CAST(r AS text) AS line FROM journal r",
    "SELECT CAST(r AS text) AS line FROM lease r",
];

fn everything_on_disk(d: &StoreFixture) -> Vec<u8> {
    if let Some(folder) = d.folder() {
        let files: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        let has_log = files.iter().any(|file| file.to_string_lossy().ends_with("-wal"));
        assert!(has_log, "the write-ahead log is searched too: {files:?}");
        return files.iter().flat_map(|file| std::fs::read(file).unwrap()).collect();
    }
    let door = d.own_door();
    let read = |sql| door.read(move |tx| -> Result<_, SqlError> { tx.query(sql, &[]) }).unwrap();
    let rows = ROWS.into_iter().flat_map(read);
    rows.flat_map(|row| row.text("line").unwrap().into_bytes()).collect()
}

#[test]
fn no_secret_is_written_logged_or_shown() {
    let lines = listen();
    on_both(|d| {
        let busy = Busy::new(d);
        let disk = everything_on_disk(&busy.d);
        assert!(busy.secrets.len() > 20, "only {} secrets", busy.secrets.len());
        assert!(disk.len() > 20_000, "only {} bytes were searched", disk.len());
        search("the disk", &disk, &busy.secrets);
        search("the disk", &disk, &busy.sealed);
        search("what is shown", busy.shown.as_bytes(), &busy.secrets);
        let logged = lines.0.lock().unwrap().clone();
        search("the log", &logged, &busy.secrets);
        // The search finds what is there to be found.
        let plain = Hidden::new("a kind", "CASHU_SEND_QUOTE");
        assert!(plain.is_in(&disk), "the disk was not searched");
        assert!(Hidden::new("a type", "OpenEntity(").is_in(busy.shown.as_bytes()));
    });
    tracing::trace!("the log is listened to");
    let logged = lines.0.lock().unwrap().clone();
    assert!(Hidden::new("a line", "the log is listened to").is_in(&logged));
}

/// The search would find a secret in each of its forms.
#[test]
fn secrets_are_found_in_every_form() {
    let text = "8f2b39e8e594a4056eb1e6dbb4b0c38e";
    let hidden = Hidden::new("it", text);
    let raw = hex::decode(text).unwrap();
    for before in 0..4 {
        let place = [&vec![b'x'; before], raw.as_slice(), b"after"].concat();
        assert!(hidden.is_in(&place));
        assert!(hidden.is_in(STANDARD_NO_PAD.encode(&place).as_bytes()), "{before}");
        assert!(hidden.is_in(URL_SAFE_NO_PAD.encode(&place).as_bytes()), "{before}");
        assert!(hidden.is_in(format!("{place:?}").as_bytes()), "{before}");
        assert!(hidden.is_in(hex::encode_upper(&place).as_bytes()), "{before}");
    }
    assert!(hidden.is_in(format!("secret={text};").as_bytes()));
    assert!(!hidden.is_in(b"8f2b39e8e594a4056eb1e6dbb4b0c38"));
}

#[test]
fn another_key_opens_nothing() {
    on_both(|d| {
        d.fund(10);
        let wrong = KeySource::Passphrase("orchard velvet thunde".to_owned().into());
        let refused = EcashStore::open(&d.url, &wrong, None, Options::default());
        assert!(matches!(refused, Err(EcashError::WrongKey)), "{refused:?}");
        // The right one finds the seed that the store was made with, whatever it is given.
        let again =
            EcashStore::open(&d.url, &key(), Some([1; 64].into()), Options::default()).unwrap();
        assert_eq!(**again.seed(), [9; 64]);
    });
}
