//! Reading: balances, lists, one entity with its journal, and what a flow needs.

use std::{collections::BTreeMap, fmt};

use cashu::Proofs;
use unspent_model::{
    Micros,
    ecash::{
        EntityKind, EntityState, PaymentDirection, ProofState, TransactionKind, TransactionState,
    },
};
use unspent_sql::{Arg, Backend, Row, SQLITE_BYTES, SqlError, Tx};

use crate::{
    create::open_token,
    entities::{BY_KEY, BY_KIND, ENTITY, EcashEntity, OF_ACCOUNT, OPEN, load, read_entity},
    error::EcashError,
    event::{ProofName, open_proof},
    inputs::all_fees,
    proofs::name_of,
    seal::SecretSealer,
    store::{EcashStore, sql_int},
};

const BALANCE: &str = "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS total FROM proofs
    WHERE account_id = $1 AND state = $2";
const HELD: &str = "SELECT y, sealed FROM proofs WHERE held_by = $1 AND state = $2";
const LET_GO: &str = "SELECT y FROM proofs WHERE held_by = $1 AND state = $2 ORDER BY y";
const LIST_PROOFS: &str = "SELECT y, keyset_id, amount, state, version, added_by, held_by
    FROM proofs WHERE account_id = $1 AND state = $2 AND y > $3 ORDER BY y LIMIT $4";
const SEALED: &str = "SELECT sealed FROM entities WHERE id = $1";
const BY_STATE: &str = "SELECT kind, state, COUNT(*) AS many FROM entities
    GROUP BY kind, state ORDER BY kind, state";
const POSTGRES_BYTES: &str = "SELECT CAST(pg_total_relation_size('proofs')
    + pg_total_relation_size('entities') + pg_total_relation_size('transactions')
    + pg_total_relation_size('journal') AS BIGINT) AS bytes";
const JOURNAL_OF: &str = "SELECT number, entity_id, kind, event, from_state, to_state, version,
    account_id, transaction_state, at, note FROM journal WHERE entity_id = $1 ORDER BY number";
const JOURNAL: &str = "SELECT number, entity_id, kind, event, from_state, to_state, version,
    account_id, transaction_state, at, note FROM journal WHERE number > $1
    ORDER BY number LIMIT $2";
const TRANSACTIONS: &str = "SELECT id, entity_id, account_id, kind, direction, state, version,
    amount, created_at FROM transactions WHERE (created_at, id) < ($1, $2)
    ORDER BY created_at DESC, id DESC LIMIT $3";

const TRANSACTIONS_OF: &str = "SELECT t.id AS id, t.entity_id AS entity_id,
        t.account_id AS account_id, t.kind AS kind, t.direction AS direction, t.state AS state,
        t.version AS version, t.amount AS amount, t.created_at AS created_at
    FROM entities e /*by idx_entities_claims*/ CROSS JOIN transactions t
    WHERE e.kind = $1 AND e.account_id = $5 AND t.id = e.transaction_id
        AND (t.created_at, t.id) < ($2, $3)
    ORDER BY t.created_at DESC, t.id DESC LIMIT $4";

/// A part of a list: what comes after a place in it, and how many at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest<P> {
    /// The last one of the page before; `None` for the list's beginning.
    pub after: Option<P>,
    /// Rows at most.
    pub limit: u32,
}

/// A place in a list that has the newest first. The id tells apart what began at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimePlace {
    /// When it began.
    pub at: Micros,
    /// Its id.
    pub id: String,
}

impl<P> PageRequest<P> {
    /// The first page.
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }
}

impl PageRequest<TimePlace> {
    /// Time, id and limit as the statements take them.
    fn newest_first(&self) -> (Arg<'_>, Arg<'_>, Arg<'_>) {
        // No row is of the end of time, so that all are older.
        let (at, id) = match &self.after {
            Some(place) => (place.at.get(), place.id.as_str()),
            None => (i64::MAX, ""),
        };
        (Arg::Int(at), Arg::Text(id), Arg::Int(self.limit.into()))
    }
}

/// Money of an account, by what it can be used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcashBalance {
    /// Free to spend.
    pub unspent: u64,
    /// Held by payments under way and tokens not yet claimed.
    pub reserved: u64,
}

/// A proof without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofLine {
    /// Its public name, in hexadecimal.
    pub y: String,
    /// Its keyset.
    pub keyset_id: String,
    /// What it is worth.
    pub amount: u64,
    /// Where it stands.
    pub state: ProofState,
    /// Raised with every change.
    pub version: u64,
    /// The entity that brought it.
    pub added_by: String,
    /// The entity that reserved it last.
    pub held_by: Option<String>,
}

/// One real change of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EcashJournalLine {
    /// Of all lines, without gaps.
    pub number: u64,
    /// Whose.
    pub entity_id: String,
    /// Of what kind.
    pub kind: EntityKind,
    /// What happened; `create` for the first line.
    pub event: String,
    /// Where it stood; `None` for the first line.
    pub from: Option<String>,
    /// Where it stands.
    pub to: String,
    /// The entity's version then.
    pub version: u64,
    /// Whose money.
    pub account_id: String,
    /// Where the transaction stood then.
    pub transaction_state: TransactionState,
    /// When.
    pub at: Micros,
    /// Why, for people.
    pub note: Option<String>,
}

/// A transaction as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionLine {
    /// Its id.
    pub id: String,
    /// What moves it.
    pub entity_id: String,
    /// Whose money.
    pub account_id: String,
    /// What it is about.
    pub kind: TransactionKind,
    /// Which way.
    pub direction: PaymentDirection,
    /// Where it stands.
    pub state: TransactionState,
    /// Raised with every change.
    pub version: u64,
    /// What the receiver gets.
    pub amount: u64,
    /// When it began.
    pub created_at: Micros,
}

/// An entity with the secrets that its flow needs. `Debug` shows none.
#[derive(Clone)]
pub struct OpenEntity {
    /// The entity.
    pub entity: EcashEntity,
    /// Proofs that it holds: inputs of a payment, or the token it made.
    pub held: Proofs,
    /// Proofs that it held and let go, and that nobody has used since.
    pub let_go: Vec<ProofName>,
    /// Proofs of the token it claims or melts.
    pub token: Proofs,
    /// What spending one of those costs, in thousandths, by keyset; for claims at a token's mint.
    pub fees: BTreeMap<String, u64>,
}

impl fmt::Debug for OpenEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, token) = (self.held.len(), self.token.len());
        write!(f, "OpenEntity({:?}, holds {held}, token of {token})", self.entity)
    }
}

pub(crate) fn held_proofs(
    tx: &mut Tx<'_>,
    entity: &str,
    sealer: &SecretSealer,
) -> Result<Proofs, EcashError> {
    let args = [Arg::Text(entity), Arg::Text(ProofState::Reserved.name())];
    let mut found: Vec<([u8; 33], cashu::Proof)> = tx
        .query(HELD, &args)?
        .iter()
        .map(|row| {
            let y = name_of(row)?;
            Ok((y, open_proof(&y, &row.blob("sealed")?, sealer)?))
        })
        .collect::<Result<_, EcashError>>()?;
    // The same order every time, so that a request is the same after a crash.
    found.sort_by_key(|(y, _)| *y);
    Ok(found.into_iter().map(|(_, proof)| proof).collect())
}

fn read_line(row: &Row) -> Result<EcashJournalLine, EcashError> {
    Ok(EcashJournalLine {
        number: row.natural("number")?,
        entity_id: row.text("entity_id")?,
        kind: row.text("kind")?.parse()?,
        event: row.text("event")?,
        from: row.opt_text("from_state")?,
        to: row.text("to_state")?,
        version: row.natural("version")?,
        account_id: row.text("account_id")?,
        transaction_state: row.text("transaction_state")?.parse()?,
        at: Micros(row.int("at")?),
        note: row.opt_text("note")?,
    })
}

fn read_transaction(row: &Row) -> Result<TransactionLine, EcashError> {
    Ok(TransactionLine {
        id: row.text("id")?,
        entity_id: row.text("entity_id")?,
        account_id: row.text("account_id")?,
        kind: row.text("kind")?.parse()?,
        direction: row.text("direction")?.parse()?,
        state: row.text("state")?.parse()?,
        version: row.natural("version")?,
        amount: row.natural("amount")?,
        created_at: Micros(row.int("created_at")?),
    })
}

fn read_proof(row: &Row) -> Result<ProofLine, EcashError> {
    Ok(ProofLine {
        y: hex::encode(name_of(row)?),
        keyset_id: row.text("keyset_id")?,
        amount: row.natural("amount")?,
        state: row.text("state")?.parse()?,
        version: row.natural("version")?,
        added_by: row.text("added_by")?,
        held_by: row.opt_text("held_by")?,
    })
}

impl EcashStore {
    /// What an account holds.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn balance(&self, account: &str) -> Result<EcashBalance, EcashError> {
        let account = account.to_owned();
        self.door.read(move |tx| {
            let mut total = |state: ProofState| -> Result<u64, SqlError> {
                let args = [Arg::Text(&account), Arg::Text(state.name())];
                tx.one(BALANCE, &args)?.natural("total")
            };
            let (unspent, reserved) = (total(ProofState::Unspent)?, total(ProofState::Reserved)?);
            Ok(EcashBalance { unspent, reserved })
        })
    }

    /// Proofs of an account in one state, in the order of their names, after one of them.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn proofs(
        &self,
        account: &str,
        state: ProofState,
        page: PageRequest<&str>,
    ) -> Result<Vec<ProofLine>, EcashError> {
        let bad = |_| EcashError::argument("a proof's name is hexadecimal");
        let after = hex::decode(page.after.unwrap_or_default()).map_err(bad)?;
        let (account, limit) = (account.to_owned(), page.limit);
        self.door.read(move |tx| {
            let (account, state) = (Arg::Text(&account), Arg::Text(state.name()));
            let args = [account, state, Arg::Blob(&after), Arg::Int(limit.into())];
            tx.query(LIST_PROOFS, &args)?.iter().map(read_proof).collect()
        })
    }

    /// One entity.
    ///
    /// # Errors
    ///
    /// [`EcashError::NotFound`].
    pub fn entity(&self, id: &str) -> Result<EcashEntity, EcashError> {
        let id = id.to_owned();
        let sealer = std::sync::Arc::clone(&self.sealer);
        self.door.read(move |tx| load(tx, &id, ENTITY, &sealer))
    }

    /// One entity with the secrets that its flow needs.
    ///
    /// # Errors
    ///
    /// [`EcashError::NotFound`], or [`EcashError::Corrupt`] for secrets that don't open.
    pub fn open_entity(&self, id: &str) -> Result<OpenEntity, EcashError> {
        let (id, sealer) = (id.to_owned(), std::sync::Arc::clone(&self.sealer));
        self.door.read(move |tx| {
            let entity = load(tx, &id, ENTITY, &sealer)?;
            let held = held_proofs(tx, &id, &sealer)?;
            let token = match tx.one(SEALED, &[Arg::Text(&id)])?.opt_blob("sealed")? {
                Some(sealed) => open_token(&sealer, &id, &sealed)?,
                None => Proofs::new(),
            };
            let args = [Arg::Text(&id), Arg::Text(ProofState::Unspent.name())];
            let rows = tx.query(LET_GO, &args)?;
            let let_go = rows.iter().map(name_of).collect::<Result<_, _>>()?;
            let fees = match entity.kind {
                EntityKind::CashuReceiveSwap => all_fees(tx, &entity.account_id)?,
                EntityKind::CashuSendQuote
                | EntityKind::CashuSendSwap
                | EntityKind::CashuReceiveQuote
                | EntityKind::SparkSendQuote
                | EntityKind::SparkReceiveQuote => BTreeMap::new(),
            };
            Ok(OpenEntity { entity, held, let_go, token, fees })
        })
    }

    /// Entities of which something is still expected, in the order of their ids, after one.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn open_entities(&self, page: PageRequest<&str>) -> Result<Vec<EcashEntity>, EcashError> {
        let after = page.after.unwrap_or_default().to_owned();
        let (limit, sealer) = (page.limit, std::sync::Arc::clone(&self.sealer));
        self.door.read(move |tx| {
            let args = [Arg::Text(&after), Arg::Int(limit.into())];
            let rows = tx.query(OPEN, &args)?;
            rows.iter().map(|row| read_entity(row, &sealer)).collect()
        })
    }

    /// Entities of a kind, the newest first, older than one if that is given.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn entities(
        &self,
        kind: EntityKind,
        page: PageRequest<TimePlace>,
    ) -> Result<Vec<EcashEntity>, EcashError> {
        let sealer = std::sync::Arc::clone(&self.sealer);
        self.door.read(move |tx| {
            let (at, id, limit) = page.newest_first();
            let args = [Arg::Text(kind.name()), at, id, limit];
            let rows = tx.query(BY_KIND, &args)?;
            rows.iter().map(|row| read_entity(row, &sealer)).collect()
        })
    }

    /// The same of one account.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn entities_of(
        &self,
        account: &str,
        kind: EntityKind,
        page: PageRequest<TimePlace>,
    ) -> Result<Vec<EcashEntity>, EcashError> {
        let (account, sealer) = (account.to_owned(), std::sync::Arc::clone(&self.sealer));
        self.door.read(move |tx| {
            let (at, id, limit) = page.newest_first();
            let args = [Arg::Text(kind.name()), at, id, limit, Arg::Text(&account)];
            let rows = tx.query(OF_ACCOUNT, &args)?;
            rows.iter().map(|row| read_entity(row, &sealer)).collect()
        })
    }

    /// What a request with this key has begun.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn entity_by_key(&self, key: &str) -> Result<Option<EcashEntity>, EcashError> {
        let (key, sealer) = (key.to_owned(), std::sync::Arc::clone(&self.sealer));
        self.door.read(move |tx| {
            let row = tx.maybe(BY_KEY, &[Arg::Text(&key)])?;
            row.as_ref().map(|row| read_entity(row, &sealer)).transpose()
        })
    }

    /// How many entities of each kind are in each state. Reads every row of an index.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn entities_by_state(&self) -> Result<Vec<(EntityKind, EntityState, u64)>, EcashError> {
        self.door.read(|tx| {
            let rows = tx.query(BY_STATE, &[])?;
            rows.iter()
                .map(|row| {
                    let (kind, state) = (row.text("kind")?.parse()?, row.text("state")?.parse()?);
                    Ok((kind, state, row.natural("many")?))
                })
                .collect()
        })
    }

    /// Bytes on disk that are in use.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn bytes(&self) -> Result<u64, EcashError> {
        let statement = match self.backend() {
            Backend::Sqlite => SQLITE_BYTES,
            Backend::Postgres => POSTGRES_BYTES,
        };
        self.door.read(move |tx| Ok(tx.one(statement, &[])?.natural("bytes")?))
    }

    /// Everything that happened to an entity.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn journal_of(&self, id: &str) -> Result<Vec<EcashJournalLine>, EcashError> {
        let id = id.to_owned();
        self.door.read(move |tx| {
            tx.query(JOURNAL_OF, &[Arg::Text(&id)])?.iter().map(read_line).collect()
        })
    }

    /// Everything that happened after a line of the journal: for those who write events of it.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn journal(&self, page: PageRequest<u64>) -> Result<Vec<EcashJournalLine>, EcashError> {
        // Lines are numbered from 1.
        let after = sql_int(page.after.unwrap_or(0))?;
        self.door.read(move |tx| {
            let args = [Arg::Int(after), Arg::Int(page.limit.into())];
            tx.query(JOURNAL, &args)?.iter().map(read_line).collect()
        })
    }

    /// Transactions, the newest first, older than one if that is given.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn transactions(
        &self,
        page: PageRequest<TimePlace>,
    ) -> Result<Vec<TransactionLine>, EcashError> {
        self.door.read(move |tx| {
            let (at, id, limit) = page.newest_first();
            tx.query(TRANSACTIONS, &[at, id, limit])?.iter().map(read_transaction).collect()
        })
    }

    /// The same of one account's payments of a kind.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn transactions_of(
        &self,
        account: &str,
        kind: EntityKind,
        page: PageRequest<TimePlace>,
    ) -> Result<Vec<TransactionLine>, EcashError> {
        let account = account.to_owned();
        self.door.read(move |tx| {
            let (at, id, limit) = page.newest_first();
            let args = [Arg::Text(kind.name()), at, id, limit, Arg::Text(&account)];
            tx.query(TRANSACTIONS_OF, &args)?.iter().map(read_transaction).collect()
        })
    }
}
