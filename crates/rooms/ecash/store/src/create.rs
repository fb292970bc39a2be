//! New entities: proofs reserved, outputs taken, transaction begun, all in one step.
//!
//! The account's row is locked first, so that of several who want the same money each sees what the
//! one before has left.

use cashu::Proofs;
use unspent_model::{
    Micros,
    ecash::{EntityBirth, EntityEvent, EntityKind, EntityState, EntityVariant, input_fee},
};
use unspent_sql::{Arg, Tx};
use zeroize::Zeroizing;

use crate::{
    apply::{AppliedChange, token_hash, writer_key},
    details::{
        ClaimProgress, EntityDetails, ReceiveQuoteDetails, ReceiveSwapDetails, SendQuoteDetails,
        SparkReceiveDetails, SparkSendDetails, TokenSource, payment_hash,
    },
    entities::{BY_CLAIM, BY_KEY, ENTITY_LOCKED, EcashEntity, RAISE_ACCOUNT, load, read_entity},
    error::EcashError,
    event::{ProofName, RangeAsk, proof_name},
    inputs::{InputChoice, ProofPool, choose_for_melt, choose_for_token, sum, token_value, value},
    proofs,
    seal::SecretSealer,
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
        inputs: InputChoice,
        /// For change.
        keyset: OutputKeyset,
    },
    /// Make a token.
    SendSwap {
        /// What the receiver gets after paying for its own swap.
        amount: u64,
        /// Which proofs pay.
        inputs: InputChoice,
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
    SparkSend(SparkSendDetails),
    /// Be paid through Spark, by an invoice or by the melt of a token.
    SparkReceive(SparkReceiveDetails, Option<NewSource>),
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
    /// When it begins.
    pub now: Micros,
    /// `None` for never.
    pub expires_at: Option<Micros>,
}

struct EntityDraft {
    details: EntityDetails,
    variant: EntityVariant,
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
    pub fn create(&self, new: NewEntity, terms: NewTerms) -> Result<AppliedChange, EcashError> {
        // Only where we pay: an invoice of ours may be paid after its end, and is looked after.
        if terms.expires_at.is_some_and(|expiry| expiry <= terms.now) && new.is_payment() {
            return Err(EcashError::argument("its time has passed already"));
        }
        // Outside the transaction, which holds a lock and may be run twice.
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
fn seal_token(sealer: &SecretSealer, id: &str, proofs: &Proofs) -> Result<Vec<u8>, EcashError> {
    let bug = |_| EcashError::Bug("a token can't be written".into());
    let plain = Zeroizing::new(serde_json::to_vec(proofs).map_err(bug)?);
    sealer.seal(&format!("token:{id}"), &plain)
}

pub(crate) fn open_token(
    sealer: &SecretSealer,
    id: &str,
    sealed: &[u8],
) -> Result<Proofs, EcashError> {
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
    sealer: &SecretSealer,
) -> Result<AppliedChange, EcashError> {
    // Before the account: whoever moves a send swap takes its row first.
    let swap = if let NewEntity::Reversal { send_swap, .. } = new {
        Some(load(tx, send_swap, ENTITY_LOCKED, sealer)?)
    } else {
        None
    };
    one_account(tx, &terms.account_id, ACCOUNT_LOCKED)?;
    // Under the account's lock, so that of two requests with one key the second sees the first.
    if let Some(key) = &terms.idempotency_key
        && let Some(row) = tx.maybe(BY_KEY, &[Arg::Text(key)])?
    {
        return Ok(AppliedChange { entity: read_entity(&row, sealer)?, is_repeat: true });
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
    Ok(AppliedChange { entity, is_repeat: false })
}

fn plan(tx: &mut Tx<'_>, new: &NewEntity, terms: &NewTerms) -> Result<EntityDraft, EcashError> {
    match new {
        NewEntity::SendQuote { .. } => melt(tx, new, terms),
        NewEntity::SendSwap { amount, inputs, keyset } => token(tx, *amount, inputs, keyset, terms),
        NewEntity::ReceiveQuote { quote_id, invoice, amount, lock_index, source } => {
            let details = EntityDetails::ReceiveQuote(ReceiveQuoteDetails {
                quote_id: quote_id.clone(),
                invoice: invoice.clone(),
                amount: *amount,
                lock_index: *lock_index,
                range: None,
                source: take_source(tx, source.as_ref())?,
            });
            Ok(EntityDraft::new(details, by_source(source.as_ref()), quote_id, *amount))
        }
        NewEntity::ReceiveSwap { proofs, keyset } => claim(tx, proofs, keyset, terms),
        NewEntity::Reversal { .. } => Err(EcashError::Bug("a reversal has its own plan".into())),
        NewEntity::SparkSend(send) => {
            let details = EntityDetails::SparkSend(send.clone());
            Ok(EntityDraft::new(details, EntityVariant::Plain, &send.payment_hash, send.amount))
        }
        NewEntity::SparkReceive(receive, source) => {
            let (id, amount) = (receive.request_id.clone(), receive.amount);
            let source_details = take_source(tx, source.as_ref())?;
            let receive = SparkReceiveDetails { source: source_details, ..receive.clone() };
            let variant = by_source(source.as_ref());
            Ok(EntityDraft::new(EntityDetails::SparkReceive(receive), variant, &id, amount))
        }
    }
}

fn melt(tx: &mut Tx<'_>, new: &NewEntity, terms: &NewTerms) -> Result<EntityDraft, EcashError> {
    let NewEntity::SendQuote { quote_id, invoice, amount, fee_reserve, inputs, keyset } = new
    else {
        return Err(EcashError::Bug("only a send quote is planned as one".into()));
    };
    let needed = sum([*amount, *fee_reserve])?;
    let pool = ProofPool::of(tx, &terms.account_id, inputs, needed)?;
    let choice = choose_for_melt(&pool, *amount, *fee_reserve)?;
    let range = take_blanks(tx, &terms.account_id, keyset, choice.blanks)?;
    let details = EntityDetails::SendQuote(SendQuoteDetails {
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
        payment_hash: payment_hash(invoice),
        owed: None,
    });
    Ok(EntityDraft::new(details, EntityVariant::Plain, quote_id, *amount).holding(choice.names))
}

fn token(
    tx: &mut Tx<'_>,
    amount: u64,
    inputs: &InputChoice,
    keyset: &OutputKeyset,
    terms: &NewTerms,
) -> Result<EntityDraft, EcashError> {
    let (id, account) = (&terms.id, &terms.account_id);
    let value = token_value(amount, keyset)?;
    let pool = ProofPool::of(tx, account, inputs, value)?;
    let (mut swap, ask, names) = choose_for_token(&pool, amount, keyset)?;
    let variant = if ask.is_some() { EntityVariant::NeedsSwap } else { EntityVariant::Exact };
    if let Some(ask) = ask {
        swap.range = Some(proofs::take_range(tx, account, &ask)?);
    } else {
        swap.token_hash = Some(token_hash(names.iter().copied()));
    }
    Ok(EntityDraft::new(EntityDetails::SendSwap(swap), variant, id, amount).holding(names))
}

fn by_source(source: Option<&NewSource>) -> EntityVariant {
    if source.is_some() { EntityVariant::CashuToken } else { EntityVariant::Lightning }
}

impl EntityDraft {
    fn new(details: EntityDetails, variant: EntityVariant, claim: &str, amount: u64) -> Self {
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
    // NUT-08: the mint fills the amounts in, once it knows what the payment has cost.
    let amounts = vec![0; usize::try_from(count).unwrap_or_default()];
    let ask = RangeAsk { keyset_id: keyset.keyset_id.clone(), amounts, send_count: 0 };
    proofs::take_range(tx, account, &ask).map(Some)
}

/// Change of a token's melt goes to our account at its mint, where there is one.
fn take_source(
    tx: &mut Tx<'_>,
    source: Option<&NewSource>,
) -> Result<Option<TokenSource>, EcashError> {
    let Some(source) = source else { return Ok(None) };
    let token_amount = value(&source.proofs)?;
    if token_amount < sum([source.amount, source.fee_reserve, source.input_fee])? {
        return Err(EcashError::argument("the token doesn't pay the melt and its fees"));
    }
    let left = token_amount - source.amount - source.input_fee;
    let blanks = unspent_model::ecash::blank_outputs(left);
    let range = match &source.account {
        Some((account, keyset)) => {
            // Its counter moves though the money goes to another account: whoever watches it must
            // see that.
            tx.execute(RAISE_ACCOUNT, &[Arg::Text(account)])?;
            take_blanks(tx, account, keyset, blanks)?
        }
        None => None,
    };
    Ok(Some(TokenSource {
        mint_url: source.mint_url.clone(),
        melt_quote_id: source.melt_quote_id.clone(),
        token_amount,
        input_fee: source.input_fee,
        fee_reserve: source.fee_reserve,
        account_id: source.account.as_ref().map(|(account, _)| account.clone()),
        change_stored: range.is_none(),
        range,
        melt_amount: Some(source.amount),
        owed: None,
    }))
}

fn claim(
    tx: &mut Tx<'_>,
    token: &Proofs,
    keyset: &OutputKeyset,
    terms: &NewTerms,
) -> Result<EntityDraft, EcashError> {
    let names: Vec<ProofName> = token.iter().map(proof_name).collect::<Result<_, _>>()?;
    let hash = token_hash(names);
    let input_amount = value(token)?;
    let ids: Vec<String> = token.iter().map(|proof| proof.keyset_id.to_string()).collect();
    // By the mint's list and not by the token: a stranger wrote that.
    let fee = input_fee(crate::inputs::fees_of(tx, &terms.account_id, &ids)?);
    let amount = input_amount.checked_sub(fee).filter(|amount| *amount > 0);
    let amount = amount.ok_or_else(|| EcashError::argument("the token doesn't pay its own fee"))?;
    let amounts = unspent_model::ecash::split_amount(amount, &keyset.amounts);
    let amounts = amounts.ok_or_else(|| EcashError::argument("the keyset can't make the sum"))?;
    let ask = RangeAsk { keyset_id: keyset.keyset_id.clone(), amounts, send_count: 0 };
    let range = proofs::take_range(tx, &terms.account_id, &ask)?;
    let (token_hash, progress) = (hash.clone(), ClaimProgress::default());
    let swap = ReceiveSwapDetails { token_hash, input_amount, fee, range, progress };
    Ok(EntityDraft::new(EntityDetails::ReceiveSwap(swap), EntityVariant::Plain, &hash, amount))
}

/// The token of a send swap, under the swap's lock.
fn token_to_take_back(
    tx: &mut Tx<'_>,
    swap: &EcashEntity,
    sealer: &SecretSealer,
) -> Result<Proofs, EcashError> {
    if swap.kind != EntityKind::CashuSendSwap || swap.state != EntityState::Pending {
        let (kind, from) = (swap.kind, swap.state);
        let why = unspent_model::ecash::RefusalReason::WrongState;
        let on = EntityEvent::ReversalWon;
        return Err(unspent_model::ecash::EntityRefusal { kind, from, on, why }.into());
    }
    // Not by the token's hash: what is left of it may have another one by now.
    if let Some(entity) = swap.open_reversal(tx)? {
        let (what, state) = (used_once(EntityKind::CashuReceiveSwap), EntityState::Pending);
        return Err(EcashError::InUse { what, entity, state: state.to_string() });
    }
    crate::query::held_proofs(tx, &swap.id, sealer)
}

fn reversal(
    tx: &mut Tx<'_>,
    swap: &EcashEntity,
    token: &Proofs,
    keyset: &OutputKeyset,
    terms: &NewTerms,
) -> Result<EntityDraft, EcashError> {
    if swap.account_id != terms.account_id {
        return Err(EcashError::argument("a token goes back to the account it came from"));
    }
    Ok(EntityDraft { reverses: Some(swap.id.clone()), ..claim(tx, token, keyset, terms)? })
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
    draft: &EntityDraft,
    account: &str,
    sealer: &SecretSealer,
) -> Result<(), EcashError> {
    let (kind, claim) = (draft.details.kind(), sealer.name(CLAIM, &draft.claim)?);
    let args = [Arg::Text(kind.name()), Arg::Text(account), Arg::Text(&claim)];
    // No unique index does this: whether another may follow hangs on how the one before has ended.
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
    draft: &EntityDraft,
    terms: &NewTerms,
    sealed: Option<&[u8]>,
    sealer: &SecretSealer,
) -> Result<EcashEntity, EcashError> {
    let kind = draft.details.kind();
    let birth = EntityBirth::of(kind, draft.variant)
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
        Arg::Int(terms.now.get()),
        Arg::OptInt(terms.expires_at.map(Micros::get)),
        Arg::Text(&outputs),
        Arg::Blob(&details),
        Arg::OptBlob(sealed),
    ];
    tx.execute(INSERT, &args)?;
    insert_transaction(tx, birth, draft.amount, terms)?;
    if !draft.reserve.is_empty() || draft.details.range().is_some() {
        tx.execute(RAISE_ACCOUNT, &[Arg::Text(&terms.account_id)])?;
    }
    // Read back, so that what is answered is what a crash would leave.
    let entity = load(tx, &terms.id, ENTITY_LOCKED, sealer)?;
    entity.write_line(tx, "create", None, None)?;
    Ok(entity)
}

fn insert_transaction(
    tx: &mut Tx<'_>,
    birth: &EntityBirth,
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
        Arg::Int(terms.now.get()),
        Arg::OptInt(is_pending.then_some(terms.now.get())),
    ];
    tx.execute(INSERT_TX, &args)?;
    Ok(())
}
