//! New entities: proofs reserved, outputs taken, transaction begun, all in one step.
//!
//! The account's row is locked first, so that of several who want the same money each sees what the
//! one before has left.

use cashu::Proofs;
use unspent_model::ecash::{Birth, EntityEvent, EntityKind, EntityState, Variant, input_fee};
use unspent_sql::{Arg, Tx};
use zeroize::Zeroizing;

use crate::{
    apply::{Applied, token_hash, writer_key},
    details::{Details, ReceiveQuote, ReceiveSwap, SendQuote, Source, SparkReceive, SparkSend},
    entities::{BY_CLAIM, BY_KEY, ENTITY_LOCKED, Entity, RAISE_ACCOUNT, load, read_entity},
    error::EcashError,
    event::{ProofName, RangeAsk, proof_name},
    inputs::{Inputs, Purse, choose_for_melt, choose_for_token, sum, token_value, value},
    proofs,
    seal::Sealer,
    store::{ACCOUNT_LOCKED, EcashStore, one_account, sql_int},
};

/// The keyset on which outputs are made: the active one of the account's mint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputKeyset {
    /// Its id, in hexadecimal.
    pub keyset_id: String,
    /// What spending one of its proofs costs, in thousandths.
    pub fee_ppk: u64,
    /// The amounts it signs.
    pub amounts: Vec<u64>,
}

/// What is to begin.
// One is made per payment; a box would only be in the way.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum NewEntity {
    /// Pay an invoice by a melt.
    SendQuote {
        /// The mint's id of the melt quote.
        quote_id: String,
        /// The invoice.
        invoice: String,
        /// What the receiver gets.
        amount: u64,
        /// What the payment may cost on top.
        fee_reserve: u64,
        /// Which proofs pay.
        inputs: Inputs,
        /// For change.
        keyset: OutputKeyset,
    },
    /// Make a token.
    SendSwap {
        /// What the receiver gets after paying for its own swap.
        amount: u64,
        /// Which proofs pay.
        inputs: Inputs,
        /// For the token and for change.
        keyset: OutputKeyset,
    },
    /// Be paid by an invoice of a mint, or by the melt of a token.
    ReceiveQuote {
        /// The mint's id of the mint quote.
        quote_id: String,
        /// The invoice.
        invoice: String,
        /// What is issued.
        amount: u64,
        /// Index of the key that the quote is locked to (NUT-20).
        lock_index: u32,
        /// The token that pays, if one does.
        source: Option<NewSource>,
    },
    /// Claim a token at its own mint.
    ReceiveSwap {
        /// Proofs of the token.
        proofs: Proofs,
        /// For what it is swapped to.
        keyset: OutputKeyset,
    },
    /// Take back a token that we made.
    Reversal {
        /// The send swap.
        send_swap: String,
        /// For what it is swapped to.
        keyset: OutputKeyset,
    },
    /// Pay an invoice through Spark.
    SparkSend(SparkSend),
    /// Be paid through Spark, by an invoice or by the melt of a token.
    SparkReceive(SparkReceive, Option<NewSource>),
}

/// A token of another account that is to pay.
#[derive(Clone, Debug)]
pub struct NewSource {
    /// Mint of the token.
    pub mint_url: String,
    /// The melt quote there.
    pub melt_quote_id: String,
    /// Proofs of the token.
    pub proofs: Proofs,
    /// What the mint takes for the inputs.
    pub input_fee: u64,
    /// What the melt pays.
    pub amount: u64,
    /// What the payment may cost on top.
    pub fee_reserve: u64,
    /// Our account at that mint with its active keyset, if there is one: change goes there.
    pub account: Option<(String, OutputKeyset)>,
}

/// Names and times of a new entity.
#[derive(Clone, Debug)]
pub struct NewTerms {
    /// Its id, new and unguessable.
    pub id: String,
    /// Id of its transaction.
    pub transaction_id: String,
    /// The same key again answers with the entity that is there.
    pub idempotency_key: Option<String>,
    /// Whose money. For a reversal it must be the account of the token.
    pub account_id: String,
    /// Microseconds.
    pub now: i64,
    /// Microseconds; `None` for never.
    pub expires_at: Option<i64>,
}

/// An entity about to be written.
struct Draft {
    details: Details,
    variant: Variant,
    claim: String,
    amount: u64,
    reverses: Option<String>,
    reserve: Vec<ProofName>,
}

/// Purpose of the keyed hash by which what may be used once is found.
const CLAIM: &str = "claim";
const INSERT: &str = "INSERT INTO entities (id, kind, variant, state, version, account_id,
    transaction_id, claim, idempotency_key, is_open, melt_initiated, alarm, reverses, created_at,
    updated_at, expires_at, outputs, sealed_details, sealed)
    VALUES ($1, $2, $3, $4, 0, $5, $6, $7, $8, $9, $10, $10, $11, $12, $12, $13, $14, $15,
        $16)";
const INSERT_TX: &str = "INSERT INTO transactions (id, entity_id, account_id, kind, direction,
    state, version, amount, created_at, pending_at)
    VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9)";

impl EcashStore {
    /// Begins an entity.
    ///
    /// # Errors
    ///
    /// [`EcashError::NotEnough`], [`EcashError::ProofsTaken`] for chosen proofs that are not free,
    /// [`EcashError::InUse`], [`EcashError::Argument`]. Nothing is changed then.
    pub fn create(&self, new: NewEntity, terms: NewTerms) -> Result<Applied, EcashError> {
        if terms.expires_at.is_some_and(|expiry| expiry <= terms.now) && new.is_payment() {
            return Err(EcashError::argument("its time has passed already"));
        }
        let sealed = self.seal_token(&new, &terms)?;
        let key = writer_key(&terms.account_id);
        let sealer = std::sync::Arc::clone(&self.sealer);
        self.door.write_for(key, move |tx| begin(tx, &new, &terms, sealed.as_deref(), &sealer))
    }

    fn seal_token(&self, new: &NewEntity, terms: &NewTerms) -> Result<Option<Vec<u8>>, EcashError> {
        let Some(proofs) = new.token() else { return Ok(None) };
        if proofs.is_empty() {
            return Err(EcashError::argument("the token holds no proofs"));
        }
        seal_token(&self.sealer, &terms.id, proofs).map(Some)
    }
}

/// Proofs of a token in flight, sealed for its entity.
fn seal_token(sealer: &Sealer, id: &str, proofs: &Proofs) -> Result<Vec<u8>, EcashError> {
    let bug = |_| EcashError::Bug("a token can't be written".into());
    let plain = Zeroizing::new(serde_json::to_vec(proofs).map_err(bug)?);
    sealer.seal(&format!("token:{id}"), &plain)
}

pub(crate) fn open_token(sealer: &Sealer, id: &str, sealed: &[u8]) -> Result<Proofs, EcashError> {
    let plain = sealer.open(&format!("token:{id}"), sealed)?;
    serde_json::from_slice(&plain).map_err(|_| EcashError::Corrupt("a token can't be read".into()))
}

impl NewEntity {
    fn is_payment(&self) -> bool {
        matches!(self, Self::SendQuote { .. } | Self::SparkSend(_))
    }

    fn token(&self) -> Option<&Proofs> {
        match self {
            Self::ReceiveSwap { proofs, .. } => Some(proofs),
            Self::ReceiveQuote { source, .. } | Self::SparkReceive(_, source) => {
                source.as_ref().map(|source| &source.proofs)
            }
            Self::SendQuote { .. }
            | Self::SendSwap { .. }
            | Self::Reversal { .. }
            | Self::SparkSend(_) => None,
        }
    }
}

fn begin(
    tx: &mut Tx<'_>,
    new: &NewEntity,
    terms: &NewTerms,
    sealed: Option<&[u8]>,
    sealer: &Sealer,
) -> Result<Applied, EcashError> {
    // Before the account: whoever moves a send swap takes its row first.
    let swap = if let NewEntity::Reversal { send_swap, .. } = new {
        Some(load(tx, send_swap, ENTITY_LOCKED, sealer)?)
    } else {
        None
    };
    one_account(tx, &terms.account_id, ACCOUNT_LOCKED)?;
    if let Some(key) = &terms.idempotency_key
        && let Some(row) = tx.maybe(BY_KEY, &[Arg::Text(key)])?
    {
        return Ok(Applied { entity: read_entity(&row, sealer)?, is_repeat: true });
    }
    let (draft, resealed) = match (&swap, new) {
        (Some(swap), NewEntity::Reversal { keyset, .. }) => {
            let proofs = token_to_take_back(tx, swap, sealer)?;
            let draft = reversal(tx, swap, &proofs, keyset, terms)?;
            (draft, Some(seal_token(sealer, &terms.id, &proofs)?))
        }
        _ => (plan(tx, new, terms)?, None),
    };
    refuse_second(tx, &draft, &terms.account_id, sealer)?;
    proofs::reserve(tx, &terms.account_id, &terms.id, &draft.reserve, terms.now)?;
    let entity = insert(tx, &draft, terms, resealed.as_deref().or(sealed), sealer)?;
    Ok(Applied { entity, is_repeat: false })
}

fn plan(tx: &mut Tx<'_>, new: &NewEntity, terms: &NewTerms) -> Result<Draft, EcashError> {
    match new {
        NewEntity::SendQuote { .. } => melt(tx, new, terms),
        NewEntity::SendSwap { amount, inputs, keyset } => token(tx, *amount, inputs, keyset, terms),
        NewEntity::ReceiveQuote { quote_id, invoice, amount, lock_index, source } => {
            let details = Details::ReceiveQuote(ReceiveQuote {
                quote_id: quote_id.clone(),
                invoice: invoice.clone(),
                amount: *amount,
                lock_index: *lock_index,
                range: None,
                source: take_source(tx, source.as_ref())?,
            });
            Ok(Draft::new(details, by_source(source.as_ref()), quote_id, *amount))
        }
        NewEntity::ReceiveSwap { proofs, keyset } => claim(tx, proofs, keyset, terms),
        NewEntity::Reversal { .. } => Err(EcashError::Bug("a reversal has its own plan".into())),
        NewEntity::SparkSend(send) => {
            let details = Details::SparkSend(send.clone());
            Ok(Draft::new(details, Variant::Plain, &send.payment_hash, send.amount))
        }
        NewEntity::SparkReceive(receive, source) => {
            let (id, amount) = (receive.request_id.clone(), receive.amount);
            let source_details = take_source(tx, source.as_ref())?;
            let receive = SparkReceive { source: source_details, ..receive.clone() };
            let variant = by_source(source.as_ref());
            Ok(Draft::new(Details::SparkReceive(receive), variant, &id, amount))
        }
    }
}

fn melt(tx: &mut Tx<'_>, new: &NewEntity, terms: &NewTerms) -> Result<Draft, EcashError> {
    let NewEntity::SendQuote { quote_id, invoice, amount, fee_reserve, inputs, keyset } = new
    else {
        return Err(EcashError::Bug("only a send quote is planned as one".into()));
    };
    let needed = sum([*amount, *fee_reserve])?;
    let purse = Purse::of(tx, &terms.account_id, inputs, needed)?;
    let choice = choose_for_melt(&purse, *amount, *fee_reserve)?;
    let range = take_blanks(tx, &terms.account_id, keyset, choice.blanks)?;
    let details = Details::SendQuote(SendQuote {
        quote_id: quote_id.clone(),
        invoice: invoice.clone(),
        amount: *amount,
        fee_reserve: *fee_reserve,
        input_fee: choice.input_fee,
        reserved: choice.sum,
        range,
        fence: None,
        preimage: None,
        spent: None,
    });
    Ok(Draft::new(details, Variant::Plain, quote_id, *amount).holding(choice.names))
}

fn token(
    tx: &mut Tx<'_>,
    amount: u64,
    inputs: &Inputs,
    keyset: &OutputKeyset,
    terms: &NewTerms,
) -> Result<Draft, EcashError> {
    let (id, account) = (&terms.id, &terms.account_id);
    let value = token_value(amount, keyset)?;
    let purse = Purse::of(tx, account, inputs, value)?;
    let (mut swap, ask, names) = choose_for_token(&purse, amount, keyset)?;
    let variant = if ask.is_some() { Variant::NeedsSwap } else { Variant::Exact };
    if let Some(ask) = ask {
        swap.range = Some(proofs::take_range(tx, account, &ask)?);
    } else {
        swap.token_hash = Some(token_hash(names.iter().copied()));
    }
    Ok(Draft::new(Details::SendSwap(swap), variant, id, amount).holding(names))
}

fn by_source(source: Option<&NewSource>) -> Variant {
    if source.is_some() { Variant::CashuToken } else { Variant::Lightning }
}

impl Draft {
    fn new(details: Details, variant: Variant, claim: &str, amount: u64) -> Self {
        let claim = claim.to_owned();
        Self { details, variant, claim, amount, reverses: None, reserve: Vec::new() }
    }

    fn holding(self, reserve: Vec<ProofName>) -> Self {
        Self { reserve, ..self }
    }
}

fn take_blanks(
    tx: &mut Tx<'_>,
    account: &str,
    keyset: &OutputKeyset,
    count: u32,
) -> Result<Option<crate::details::OutputRange>, EcashError> {
    if count == 0 {
        return Ok(None);
    }
    let amounts = vec![0; usize::try_from(count).unwrap_or_default()];
    let ask = RangeAsk { keyset_id: keyset.keyset_id.clone(), amounts, send_count: 0 };
    proofs::take_range(tx, account, &ask).map(Some)
}

/// Change of a token's melt goes to our account at its mint, where there is one.
fn take_source(tx: &mut Tx<'_>, source: Option<&NewSource>) -> Result<Option<Source>, EcashError> {
    let Some(source) = source else { return Ok(None) };
    let token_amount = value(&source.proofs)?;
    if token_amount < sum([source.amount, source.fee_reserve, source.input_fee])? {
        return Err(EcashError::argument("the token doesn't pay the melt and its fees"));
    }
    let left = token_amount - source.amount - source.input_fee;
    let blanks = unspent_model::ecash::blank_outputs(left);
    let range = match &source.account {
        Some((account, keyset)) => {
            tx.execute(RAISE_ACCOUNT, &[Arg::Text(account)])?;
            take_blanks(tx, account, keyset, blanks)?
        }
        None => None,
    };
    Ok(Some(Source {
        mint_url: source.mint_url.clone(),
        melt_quote_id: source.melt_quote_id.clone(),
        token_amount,
        input_fee: source.input_fee,
        fee_reserve: source.fee_reserve,
        account_id: source.account.as_ref().map(|(account, _)| account.clone()),
        change_stored: range.is_none(),
        range,
    }))
}

fn claim(
    tx: &mut Tx<'_>,
    token: &Proofs,
    keyset: &OutputKeyset,
    terms: &NewTerms,
) -> Result<Draft, EcashError> {
    let names: Vec<ProofName> = token.iter().map(proof_name).collect::<Result<_, _>>()?;
    let hash = token_hash(names);
    let input_amount = value(token)?;
    let ids: Vec<String> = token.iter().map(|proof| proof.keyset_id.to_string()).collect();
    let fee = input_fee(crate::inputs::fees_of(tx, &terms.account_id, &ids)?);
    let amount = input_amount.checked_sub(fee).filter(|amount| *amount > 0);
    let amount = amount.ok_or_else(|| EcashError::argument("the token doesn't pay its own fee"))?;
    let amounts = unspent_model::ecash::split_amount(amount, &keyset.amounts);
    let amounts = amounts.ok_or_else(|| EcashError::argument("the keyset can't make the sum"))?;
    let ask = RangeAsk { keyset_id: keyset.keyset_id.clone(), amounts, send_count: 0 };
    let range = proofs::take_range(tx, &terms.account_id, &ask)?;
    let swap = ReceiveSwap { token_hash: hash.clone(), input_amount, fee, range };
    Ok(Draft::new(Details::ReceiveSwap(swap), Variant::Plain, &hash, amount))
}

/// The token of a send swap, under the swap's lock.
fn token_to_take_back(
    tx: &mut Tx<'_>,
    swap: &Entity,
    sealer: &Sealer,
) -> Result<Proofs, EcashError> {
    if swap.kind != EntityKind::CashuSendSwap || swap.state != EntityState::Pending {
        let (kind, from) = (swap.kind, swap.state);
        let why = unspent_model::ecash::Why::WrongState;
        let on = EntityEvent::ReversalWon;
        return Err(unspent_model::ecash::EntityRefusal { kind, from, on, why }.into());
    }
    crate::query::held_proofs(tx, &swap.id, sealer)
}

fn reversal(
    tx: &mut Tx<'_>,
    swap: &Entity,
    token: &Proofs,
    keyset: &OutputKeyset,
    terms: &NewTerms,
) -> Result<Draft, EcashError> {
    if swap.account_id != terms.account_id {
        return Err(EcashError::argument("a token goes back to the account it came from"));
    }
    Ok(Draft { reverses: Some(swap.id.clone()), ..claim(tx, token, keyset, terms)? })
}

/// What an entity of a kind uses and no other may, in an error.
fn used_once(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::CashuSendQuote => "melt quote",
        EntityKind::CashuSendSwap => "send",
        EntityKind::CashuReceiveQuote => "mint quote",
        EntityKind::CashuReceiveSwap => "token",
        EntityKind::SparkSendQuote | EntityKind::SparkReceiveQuote => "invoice",
    }
}

/// A quote, token or payment is used once, but for attempts that failed.
fn refuse_second(
    tx: &mut Tx<'_>,
    draft: &Draft,
    account: &str,
    sealer: &Sealer,
) -> Result<(), EcashError> {
    let (kind, claim) = (draft.details.kind(), sealer.name(CLAIM, &draft.claim)?);
    let args = [Arg::Text(kind.name()), Arg::Text(account), Arg::Text(&claim)];
    for row in tx.query(BY_CLAIM, &args)? {
        let other = read_entity(&row, sealer)?;
        if kind.blocks_another(other.state) {
            let state = other.state.to_string();
            return Err(EcashError::InUse { what: used_once(kind), entity: other.id, state });
        }
    }
    Ok(())
}

fn insert(
    tx: &mut Tx<'_>,
    draft: &Draft,
    terms: &NewTerms,
    sealed: Option<&[u8]>,
    sealer: &Sealer,
) -> Result<Entity, EcashError> {
    let kind = draft.details.kind();
    let birth = Birth::of(kind, draft.variant)
        .ok_or_else(|| EcashError::Bug(format!("no {kind} begins as {}", draft.variant)))?;
    let (outputs, details) = (draft.details.outputs()?, draft.details.seal(&terms.id, sealer)?);
    let claim = sealer.name(CLAIM, &draft.claim)?;
    let args = [
        Arg::Text(&terms.id),
        Arg::Text(kind.name()),
        Arg::Text(draft.variant.name()),
        Arg::Text(birth.state.name()),
        Arg::Text(&terms.account_id),
        Arg::Text(&terms.transaction_id),
        Arg::Text(&claim),
        Arg::OptText(terms.idempotency_key.as_deref()),
        Arg::Flag(!kind.is_terminal(birth.state)),
        Arg::Flag(false),
        Arg::OptText(draft.reverses.as_deref()),
        Arg::Int(terms.now),
        Arg::OptInt(terms.expires_at),
        Arg::Text(&outputs),
        Arg::Blob(&details),
        Arg::OptBlob(sealed),
    ];
    tx.execute(INSERT, &args)?;
    insert_transaction(tx, birth, draft.amount, terms)?;
    if !draft.reserve.is_empty() || draft.details.range().is_some() {
        tx.execute(RAISE_ACCOUNT, &[Arg::Text(&terms.account_id)])?;
    }
    let entity = load(tx, &terms.id, ENTITY_LOCKED, sealer)?;
    entity.write_line(tx, "create", None, None)?;
    Ok(entity)
}

fn insert_transaction(
    tx: &mut Tx<'_>,
    birth: &Birth,
    amount: u64,
    terms: &NewTerms,
) -> Result<(), EcashError> {
    let is_pending = birth.transaction == unspent_model::ecash::TransactionState::Pending;
    let args = [
        Arg::Text(&terms.transaction_id),
        Arg::Text(&terms.id),
        Arg::Text(&terms.account_id),
        Arg::Text(birth.transaction_kind.name()),
        Arg::Text(birth.direction.name()),
        Arg::Text(birth.transaction.name()),
        Arg::Int(sql_int(amount)?),
        Arg::Int(terms.now),
        Arg::OptInt(is_pending.then_some(terms.now)),
    ];
    tx.execute(INSERT_TX, &args)?;
    Ok(())
}
