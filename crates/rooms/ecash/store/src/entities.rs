//! Rows of entities, their transactions and the journal.

use unspent_model::{
    Micros,
    ecash::{
        EntityEvent, EntityFacts, EntityKind, EntityState, EntityVariant, PaymentDirection,
        TransactionEvent, TransactionKind, TransactionState,
    },
};
use unspent_sql::{Arg, Row, Tx};

use crate::{
    details::EntityDetails, error::EcashError, event::PaymentEvent, seal::SecretSealer,
    store::sql_int,
};

/// An entity as it is stored, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EcashEntity {
    /// Its id.
    pub id: String,
    /// Of what kind.
    pub kind: EntityKind,
    /// How it was born.
    pub variant: EntityVariant,
    /// Where it stands.
    pub state: EntityState,
    /// Raised with every real change; a reader ignores what is older than what it has.
    pub version: u64,
    /// Whose money.
    pub account_id: String,
    /// What people see of it.
    pub transaction_id: String,
    /// Where that stands.
    pub transaction_state: TransactionState,
    /// A melt was asked for or seen.
    pub melt_initiated: bool,
    /// Something happened that people must know.
    pub alarm: bool,
    /// The send swap whose token it takes back.
    pub reverses: Option<String>,
    /// When it began.
    pub created_at: Micros,
    /// When it last changed.
    pub updated_at: Micros,
    /// `None` for never.
    pub expires_at: Option<Micros>,
    /// What it knows.
    pub details: EntityDetails,
    pub(crate) transaction_kind: TransactionKind,
    pub(crate) direction: PaymentDirection,
}

macro_rules! entity {
    ($rest:literal) => {
        concat!(
            "SELECT e.id AS id, e.kind AS kind, e.variant AS variant, e.state AS state,
                e.version AS version, e.account_id AS account_id,
                e.transaction_id AS transaction_id,
                e.melt_initiated AS melt_initiated, e.alarm AS alarm, e.reverses AS reverses,
                e.created_at AS created_at, e.updated_at AS updated_at,
                e.expires_at AS expires_at, e.sealed_details AS sealed_details, t.state AS tx_state,
                t.kind AS tx_kind, t.direction AS tx_direction
            FROM entities e CROSS JOIN transactions t ",
            $rest
        )
    };
}

pub(crate) const ENTITY: &str = entity!("WHERE e.id = $1 AND t.id = e.transaction_id");
pub(crate) const ENTITY_LOCKED: &str =
    entity!("WHERE e.id = $1 AND t.id = e.transaction_id FOR UPDATE");
pub(crate) const BY_KEY: &str = entity!("WHERE e.idempotency_key = $1 AND t.id = e.transaction_id");
pub(crate) const BY_CLAIM: &str =
    entity!("WHERE e.kind = $1 AND e.account_id = $2 AND e.claim = $3 AND t.id = e.transaction_id");
pub(crate) const OPEN: &str =
    entity!("WHERE e.is_open AND e.id > $1 AND t.id = e.transaction_id ORDER BY e.id LIMIT $2");
pub(crate) const BY_KIND: &str = entity!(
    "WHERE e.kind = $1 AND (e.created_at, e.id) < ($2, $3) AND t.id = e.transaction_id
    ORDER BY e.created_at DESC, e.id DESC LIMIT $4"
);
/// By the index of claims, which leads to an account's own alone: however many others there are.
pub(crate) const OF_ACCOUNT: &str = entity!(
    "WHERE e.kind = $1 AND e.account_id = $5 AND (e.created_at, e.id) < ($2, $3)
        AND t.id = e.transaction_id ORDER BY e.created_at DESC, e.id DESC LIMIT $4"
);
const SET_AMOUNT: &str = "UPDATE transactions SET amount = $2 WHERE id = $1";
const OPEN_REVERSAL: &str = "SELECT id FROM entities WHERE reverses = $1 AND is_open LIMIT 1";
const UPDATE: &str = "UPDATE entities SET state = $3, version = version + 1, is_open = $4,
    melt_initiated = $5, alarm = $6, updated_at = $7, outputs = $8, sealed_details = $9
    WHERE id = $1 AND version = $2";
const UPDATE_TX: &str = "UPDATE transactions SET state = $2, version = version + 1,
    pending_at = COALESCE($3, pending_at), completed_at = COALESCE($4, completed_at),
    failed_at = COALESCE($5, failed_at), reversed_at = COALESCE($6, reversed_at) WHERE id = $1";
pub(crate) const RAISE_ACCOUNT: &str = "UPDATE accounts SET version = version + 1 WHERE id = $1";
const NEXT_LINE: &str = "UPDATE store SET journal_number = journal_number + 1 WHERE one = 1
    RETURNING journal_number";
const WRITE_LINE: &str = "INSERT INTO journal (number, entity_id, kind, event, from_state,
    to_state, version, account_id, transaction_state, at, note)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

pub(crate) fn read_entity(row: &Row, sealer: &SecretSealer) -> Result<EcashEntity, EcashError> {
    let kind: EntityKind = row.text("kind")?.parse()?;
    let id = row.text("id")?;
    let details = EntityDetails::open(kind, &id, &row.blob("sealed_details")?, sealer)?;
    Ok(EcashEntity {
        id,
        kind,
        variant: row.text("variant")?.parse()?,
        state: row.text("state")?.parse()?,
        version: row.natural("version")?,
        account_id: row.text("account_id")?,
        transaction_id: row.text("transaction_id")?,
        transaction_state: row.text("tx_state")?.parse()?,
        melt_initiated: row.flag("melt_initiated")?,
        alarm: row.flag("alarm")?,
        reverses: row.opt_text("reverses")?,
        created_at: Micros(row.int("created_at")?),
        updated_at: Micros(row.int("updated_at")?),
        expires_at: row.opt_int("expires_at")?.map(Micros),
        details,
        transaction_kind: row.text("tx_kind")?.parse()?,
        direction: row.text("tx_direction")?.parse()?,
    })
}

pub(crate) fn load(
    tx: &mut Tx<'_>,
    id: &str,
    how: &'static str,
    sealer: &SecretSealer,
) -> Result<EcashEntity, EcashError> {
    let missing = || EcashError::NotFound { what: "entity", name: id.to_owned() };
    read_entity(&tx.maybe(how, &[Arg::Text(id)])?.ok_or_else(missing)?, sealer)
}

impl EcashEntity {
    /// Whether something is still expected of it: its end, or change that isn't there yet.
    pub fn is_open(&self) -> bool {
        let has_succeeded = matches!(self.state, EntityState::Completed | EntityState::Paid);
        !self.kind.is_terminal(self.state) || (has_succeeded && self.awaits_change())
    }

    /// What others have claimed of the token that is sent or claimed, and what all of it is worth.
    pub fn token_figures(&self) -> Option<(u64, u64)> {
        let (claimed, whole) = self.details.token_figures()?;
        let is_claimed =
            (self.kind, self.state) == (EntityKind::CashuSendSwap, EntityState::Completed);
        // Sends of before the figure was kept say it by their state alone.
        Some((if is_claimed { whole } else { claimed }, whole))
    }

    /// What the melt of a token leaves over isn't there yet, or change of a payment is owed.
    pub fn awaits_change(&self) -> bool {
        if let EntityDetails::SendQuote(quote) = &self.details {
            return quote.owed.as_ref().is_some_and(|owed| !owed.is_closed);
        }
        let source = self.details.source();
        source.is_some_and(|source| source.range.is_some() && !source.change_stored)
    }

    /// What its machine asks about.
    pub(crate) fn facts(
        &self,
        tx: &mut Tx<'_>,
        event: &PaymentEvent,
        now: Micros,
    ) -> Result<EntityFacts, EcashError> {
        // The events that need a further query: while we take a token back, spent proofs don't
        // tell whether its receiver claimed it or we did.
        let asks_for_reversal = self.kind == EntityKind::CashuSendSwap
            && matches!(event.what, EntityEvent::Complete | EntityEvent::ClaimedInPart);
        let is_being_reversed = asks_for_reversal && self.open_reversal(tx)?.is_some();
        let known_to_spark =
            matches!(&self.details, EntityDetails::SparkSend(send) if send.request_id.is_some());
        let fenced =
            matches!(&self.details, EntityDetails::SendQuote(quote) if quote.fence.is_some());
        Ok(EntityFacts {
            variant: self.variant,
            is_past_expiry: self.expires_at.is_some_and(|expiry| now >= expiry),
            melt_initiated: self.melt_initiated,
            reverses: self.reverses.is_some(),
            is_being_reversed,
            has_spark_ids: known_to_spark || event.spark.is_some(),
            fence_taken: fenced,
            alarmed: self.alarm,
            change_open: self.awaits_change(),
            is_known: self.knows(tx, event)?,
            is_cancelled: matches!(&self.details,
                EntityDetails::ReceiveSwap(swap) if swap.progress.cancelled_at.is_some()),
        })
    }

    /// Whether an event about parts of a token tells nothing new.
    fn knows(&self, tx: &mut Tx<'_>, event: &PaymentEvent) -> Result<bool, EcashError> {
        match (&self.details, event.what) {
            (
                EntityDetails::SendSwap(_),
                EntityEvent::ClaimedInPart | EntityEvent::ReversalShort,
            ) => {
                let held = crate::proofs::held_names(tx, &self.id)?;
                Ok(event.spent.iter().all(|name| !held.contains(name)))
            }
            (EntityDetails::ReceiveSwap(swap), EntityEvent::TakeRest | EntityEvent::StoreBatch) => {
                Ok(event.rest.as_ref().is_some_and(|rest| swap.knows(&event.spent, rest)))
            }
            (_, _) => Ok(false),
        }
    }

    /// Who is taking the token back.
    pub(crate) fn open_reversal(&self, tx: &mut Tx<'_>) -> Result<Option<String>, EcashError> {
        let row = tx.maybe(OPEN_REVERSAL, &[Arg::Text(&self.id)])?;
        Ok(row.map(|row| row.text("id")).transpose()?)
    }

    /// What the receiver gets has changed.
    pub(crate) fn set_amount(&self, tx: &mut Tx<'_>, amount: u64) -> Result<(), EcashError> {
        tx.execute(SET_AMOUNT, &[Arg::Text(&self.transaction_id), Arg::Int(sql_int(amount)?)])?;
        Ok(())
    }

    pub(crate) fn move_transaction(
        &mut self,
        tx: &mut Tx<'_>,
        on: TransactionEvent,
        now: Micros,
    ) -> Result<(), EcashError> {
        let next = self.transaction_state.after(on, self.transaction_kind, self.direction)?;
        let at = |wanted: bool| Arg::OptInt(wanted.then_some(now.get()));
        let args = [
            Arg::Text(&self.transaction_id),
            Arg::Text(next.name()),
            at(next == TransactionState::Pending),
            at(next == TransactionState::Completed),
            at(next == TransactionState::Failed),
            at(next == TransactionState::Reversed),
        ];
        tx.execute(UPDATE_TX, &args)?;
        self.transaction_state = next;
        Ok(())
    }

    /// Writes the row anew, one version higher.
    pub(crate) fn update(
        &mut self,
        tx: &mut Tx<'_>,
        sealer: &SecretSealer,
        now: Micros,
    ) -> Result<(), EcashError> {
        let (outputs, details) = (self.details.outputs()?, self.details.seal(&self.id, sealer)?);
        let args = [
            Arg::Text(&self.id),
            Arg::Int(sql_int(self.version)?),
            Arg::Text(self.state.name()),
            Arg::Flag(self.is_open()),
            Arg::Flag(self.melt_initiated),
            Arg::Flag(self.alarm),
            Arg::Int(now.get()),
            Arg::Text(&outputs),
            Arg::Blob(&details),
        ];
        // The row is locked. Another version means that somebody wrote without the lock.
        if tx.execute(UPDATE, &args)? != 1 {
            return Err(EcashError::Bug(format!("entity {} changed under its lock", self.id)));
        }
        (self.version, self.updated_at) = (self.version + 1, now);
        Ok(())
    }

    /// Adds a line to the journal about what has just happened.
    pub(crate) fn write_line(
        &self,
        tx: &mut Tx<'_>,
        event: &str,
        from: Option<EntityState>,
        note: Option<&str>,
    ) -> Result<(), EcashError> {
        // One counter for all, and no sequence: a rolled back transaction would leave a gap, and
        // readers that go by number could pass a line that is committed after theirs.
        let number = tx.one(NEXT_LINE, &[])?.int("journal_number")?;
        let args = [
            Arg::Int(number),
            Arg::Text(&self.id),
            Arg::Text(self.kind.name()),
            Arg::Text(event),
            Arg::OptText(from.map(EntityState::name)),
            Arg::Text(self.state.name()),
            Arg::Int(sql_int(self.version)?),
            Arg::Text(&self.account_id),
            Arg::Text(self.transaction_state.name()),
            Arg::Int(self.updated_at.get()),
            Arg::OptText(note),
        ];
        tx.execute(WRITE_LINE, &args)?;
        Ok(())
    }
}
