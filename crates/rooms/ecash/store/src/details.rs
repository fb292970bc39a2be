//! What an entity knows besides its state. It is stored sealed: see [`crate::seal`] for why.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use unspent_model::{Micros, ecash::EntityKind};

use zeroize::Zeroizing;

use crate::{error::EcashError, event::ProofName, seal::SecretSealer};

/// Outputs reserved on a keyset: they derive from the seed, the keyset and the counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRange {
    /// The keyset, in hexadecimal.
    pub keyset_id: String,
    /// Counter of the first output.
    pub start: u32,
    /// Amount of each output; 0 for a blank one.
    pub amounts: Vec<u64>,
}

/// What a melt left over, as long as it isn't all there; kept afterwards if a part was never given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedChange {
    /// When the melt was seen paid, in microseconds since 1970.
    pub since: i64,
    /// Which of the blank outputs have come, by their places in the range.
    pub taken: Vec<u32>,
    /// What those are worth.
    pub came: u64,
    /// No more is waited for.
    pub is_closed: bool,
    /// What the mint kept in the end, where that is known to be too much or may be.
    pub kept: Option<u64>,
}

impl OwedChange {
    /// When the melt was seen paid.
    pub fn since(&self) -> Micros {
        Micros(self.since)
    }

    pub(crate) fn from(now: Micros) -> Self {
        Self { since: now.get(), taken: Vec::new(), came: 0, is_closed: false, kept: None }
    }

    pub(crate) fn take(&mut self, places: &[u32], worth: u64) {
        self.taken.extend(places);
        // Told and compared, not booked: what is booked are the proofs.
        self.came = self.came.saturating_add(worth);
    }

    pub(crate) fn close(&mut self, kept: Option<u64>) {
        (self.is_closed, self.kept) = (true, kept);
    }
}

/// Change of a melt, as NUT-08 has it: what isn't needed comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeBounds {
    /// So much is due, whatever the payment cost.
    pub least: u64,
    /// So much comes back if the payment cost nothing.
    pub most: u64,
}

impl ChangeBounds {
    fn of(inputs: u64, needed: [u64; 2], fee_reserve: u64) -> Option<Self> {
        let [amount, input_fee] = needed;
        let most = inputs.checked_sub(amount)?.checked_sub(input_fee)?;
        // A mint that was given less than its reserve owes nothing for sure.
        Some(Self { least: most.saturating_sub(fee_reserve), most })
    }
}

/// Pays an invoice by a melt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendQuoteDetails {
    /// The mint's id of the melt quote.
    pub quote_id: String,
    /// The invoice.
    pub invoice: String,
    /// What the receiver gets.
    pub amount: u64,
    /// What the payment may cost on top.
    pub fee_reserve: u64,
    /// What the mint takes for the inputs.
    pub input_fee: u64,
    /// Sum of the inputs.
    pub reserved: u64,
    /// Blank outputs for change; `None` when nothing can be left over.
    pub range: Option<OutputRange>,
    /// Outputs of the fence.
    pub fence: Option<OutputRange>,
    /// Proof of the payment, where the mint gave it.
    pub preimage: Option<String>,
    /// What left the account in the end.
    pub spent: Option<u64>,
    /// The hash in the invoice, in hexadecimal; `None` in payments of before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_hash: Option<String>,
    /// Change that could not be read when the payment was seen paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed: Option<OwedChange>,
}

/// Makes a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendSwapDetails {
    /// What the receiver gets after paying for its own swap.
    pub amount: u64,
    /// What that swap costs.
    pub receive_fee: u64,
    /// Value of the token.
    pub to_send: u64,
    /// What our swap costs; 0 without one.
    pub send_fee: u64,
    /// Sum of the inputs.
    pub input_amount: u64,
    /// Outputs: the token's first, then change. `None` where the sum fitted.
    pub range: Option<OutputRange>,
    /// How many of the outputs are the token's.
    pub send_count: usize,
    /// SHA-256 of the token's proofs, in hexadecimal, once it is made.
    pub token_hash: Option<String>,
    /// What others have claimed of the token, by the mint's word on each proof.
    #[serde(default)]
    pub claimed: u64,
}

/// A token of another account that pays a receive quote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSource {
    /// Mint of the token.
    pub mint_url: String,
    /// The melt quote there.
    pub melt_quote_id: String,
    /// Value of the token.
    pub token_amount: u64,
    /// What the mint takes for the inputs.
    pub input_fee: u64,
    /// What the payment may cost on top.
    pub fee_reserve: u64,
    /// Our account at that mint, if there is one: change goes there.
    pub account_id: Option<String>,
    /// Blank outputs for change.
    pub range: Option<OutputRange>,
    /// Change was stored, or there was none.
    pub change_stored: bool,
    /// What the melt pays; `None` in payments of before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub melt_amount: Option<u64>,
    /// Change that could not be read when the melt was seen paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed: Option<OwedChange>,
}

impl TokenSource {
    /// What may come back of the token, whose melt pays an invoice over `amount`; `None` where it
    /// doesn't cover that.
    pub fn change_bounds(&self, amount: u64) -> Option<ChangeBounds> {
        let amount = self.melt_amount.unwrap_or(amount);
        ChangeBounds::of(self.token_amount, [amount, self.input_fee], self.fee_reserve)
    }
}

/// Is paid by an invoice of a mint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveQuoteDetails {
    /// The mint's id of the mint quote.
    pub quote_id: String,
    /// The invoice.
    pub invoice: String,
    /// What is issued.
    pub amount: u64,
    /// Index of the key that the quote is locked to (NUT-20).
    pub lock_index: u32,
    /// Outputs, once it is paid.
    pub range: Option<OutputRange>,
    /// The token that pays, if one does.
    pub source: Option<TokenSource>,
}

/// Claims a token at its own mint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveSwapDetails {
    /// SHA-256 of the token's proofs, in hexadecimal.
    pub token_hash: String,
    /// What the swap under way takes: the token, or the part of it that is claimed now.
    pub input_amount: u64,
    /// What the mint takes for the swap.
    pub fee: u64,
    /// Outputs.
    pub range: OutputRange,
    /// What became of the rest of the token.
    #[serde(default)]
    pub progress: ClaimProgress,
}

/// How a claim goes on that isn't one swap of its whole token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimProgress {
    /// Value of the whole token; 0 as long as all of it is swapped at once.
    pub whole: u64,
    /// Names of the proofs that others have spent, in hexadecimal.
    pub lost: Vec<String>,
    /// What those are worth.
    pub lost_amount: u64,
    /// Names of the proofs that were swapped before, in hexadecimal.
    pub done: Vec<String>,
    /// What those were worth.
    pub done_amount: u64,
    /// What came in for them.
    pub got: u64,
    /// Proofs that are swapped at a time; `None` for all.
    pub batch: Option<usize>,
    /// When people gave the claim up, in microseconds.
    pub cancelled_at: Option<i64>,
}

/// What is left of a token, and what the next swap takes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRest {
    /// Value of the whole token.
    pub whole: u64,
    /// Value of the proofs that the event calls spent.
    pub spent_amount: u64,
    /// What the next swap takes; 0 where there is none.
    pub input_amount: u64,
    /// What the mint takes for it.
    pub fee: u64,
    /// Proofs that are swapped at a time; `None` for all.
    pub batch: Option<usize>,
}

/// Pays an invoice through Spark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparkSendDetails {
    /// The invoice.
    pub invoice: String,
    /// Its hash, in hexadecimal.
    pub payment_hash: String,
    /// What the receiver gets, in satoshis.
    pub amount: u64,
    /// The invoice names no amount.
    pub is_amountless: bool,
    /// What was confirmed as the most it may cost.
    pub max_fee: u64,
    /// What it costs.
    pub fee: Option<u64>,
    /// Spark's id of the request.
    pub request_id: Option<String>,
    /// Spark's id of the transfer.
    pub transfer_id: Option<String>,
    /// Proof of the payment.
    pub preimage: Option<String>,
}

/// Is paid through Spark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparkReceiveDetails {
    /// Spark's id of the request.
    pub request_id: String,
    /// The invoice.
    pub invoice: String,
    /// Its hash, in hexadecimal.
    pub payment_hash: String,
    /// What comes in, in satoshis.
    pub amount: u64,
    /// Spark's id of the transfer, once paid.
    pub transfer_id: Option<String>,
    /// Preimage of the invoice, once paid.
    pub preimage: Option<String>,
    /// The token that pays, if one does.
    pub source: Option<TokenSource>,
}

fn owed_of(source: &TokenSource, amount: u64) -> Option<(&OwedChange, ChangeBounds)> {
    Some((source.owed.as_ref()?, source.change_bounds(amount)?))
}

fn purpose(entity: &str) -> String {
    format!("details:{entity}")
}

/// What an entity knows, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityDetails {
    /// See [`SendQuoteDetails`].
    SendQuote(SendQuoteDetails),
    /// See [`SendSwapDetails`].
    SendSwap(SendSwapDetails),
    /// See [`ReceiveQuoteDetails`].
    ReceiveQuote(ReceiveQuoteDetails),
    /// See [`ReceiveSwapDetails`].
    ReceiveSwap(ReceiveSwapDetails),
    /// See [`SparkSendDetails`].
    SparkSend(SparkSendDetails),
    /// See [`SparkReceiveDetails`].
    SparkReceive(SparkReceiveDetails),
}

/// The payment hash in an invoice, in hexadecimal; `None` for what isn't one.
pub fn payment_hash(invoice: &str) -> Option<String> {
    let invoice: cashu::Bolt11Invoice = invoice.trim().parse().ok()?;
    Some(invoice.payment_hash().to_string())
}

/// Whether a preimage hashes to a payment hash; both in hexadecimal.
pub(crate) fn proves(preimage: &str, hash: &str) -> bool {
    let Ok(preimage) = hex::decode(preimage) else { return false };
    hex::encode(Sha256::digest(preimage)) == hash
}

impl SendQuoteDetails {
    /// What may come back as change; `None` where the inputs don't cover the payment.
    pub fn change_bounds(&self) -> Option<ChangeBounds> {
        ChangeBounds::of(self.reserved, [self.amount, self.input_fee], self.fee_reserve)
    }

    /// Whether a preimage is proof of the payment: it hashes to what the invoice names.
    pub fn is_proof(&self, preimage: &str) -> bool {
        let hash = self.payment_hash.clone().or_else(|| payment_hash(&self.invoice));
        hash.is_some_and(|hash| proves(preimage, &hash))
    }

    /// The preimage, where it is proof. Versions before stored whatever a mint said.
    pub fn proof(&self) -> Option<&str> {
        self.preimage.as_deref().filter(|preimage| self.is_proof(preimage))
    }

    /// What the inputs are worth after the mint's fee; `None` where they don't cover it.
    pub fn worth(&self) -> Option<u64> {
        self.reserved.checked_sub(self.input_fee)
    }
}

impl SendSwapDetails {
    /// What comes back to the account; `None` where the inputs don't cover the token.
    pub fn change(&self) -> Option<u64> {
        self.worth()?.checked_sub(self.to_send)
    }

    /// What all outputs are worth together; `None` where the inputs don't cover the fee.
    pub fn worth(&self) -> Option<u64> {
        self.input_amount.checked_sub(self.send_fee)
    }
}

fn added(sum: u64, more: u64) -> Result<u64, EcashError> {
    let large = || EcashError::Corrupt("the parts of a token add up to no amount".into());
    sum.checked_add(more).ok_or_else(large)
}

impl ReceiveSwapDetails {
    /// What the swap under way brings; `None` where its inputs don't cover the fee.
    pub fn worth(&self) -> Option<u64> {
        self.input_amount.checked_sub(self.fee)
    }

    /// Value of the whole token.
    pub fn token_worth(&self) -> u64 {
        self.progress.whole.max(self.input_amount)
    }

    /// What the account gets in all. Shown, not booked: of swaps still to come no fee is known.
    pub fn gain(&self) -> u64 {
        let ClaimProgress { lost_amount, done_amount, got, .. } = self.progress;
        let gone = lost_amount.checked_add(done_amount);
        let open =
            gone.and_then(|gone| self.token_worth().checked_sub(gone)?.checked_sub(self.fee));
        // A rest that isn't worth its fee brings nothing.
        open.and_then(|open| open.checked_add(got)).unwrap_or(got)
    }

    /// Whether a proof is out of the claim: spent by others, or swapped before.
    pub(crate) fn is_out(&self, name: &ProofName) -> bool {
        let name = hex::encode(name);
        self.progress.lost.contains(&name) || self.progress.done.contains(&name)
    }

    /// Whether all of this was written down before.
    pub(crate) fn knows(&self, spent: &[ProofName], rest: &TokenRest) -> bool {
        self.progress.batch == rest.batch && spent.iter().all(|name| self.is_out(name))
    }

    /// Others have spent these: the claim goes on without them.
    pub(crate) fn lose(&mut self, spent: &[ProofName], rest: &TokenRest) -> Result<(), EcashError> {
        self.progress.lost.extend(spent.iter().map(hex::encode));
        self.progress.lost_amount = added(self.progress.lost_amount, rest.spent_amount)?;
        self.go_on(rest);
        Ok(())
    }

    /// These are swapped: the claim goes on with the next ones.
    pub(crate) fn settle(
        &mut self,
        spent: &[ProofName],
        rest: &TokenRest,
    ) -> Result<(), EcashError> {
        let came = self.worth().unwrap_or(0);
        self.progress.done.extend(spent.iter().map(hex::encode));
        self.progress.done_amount = added(self.progress.done_amount, self.input_amount)?;
        self.progress.got = added(self.progress.got, came)?;
        self.go_on(rest);
        Ok(())
    }

    fn go_on(&mut self, rest: &TokenRest) {
        (self.progress.whole, self.progress.batch) = (rest.whole, rest.batch);
        (self.input_amount, self.fee) = (rest.input_amount, rest.fee);
    }
}

impl EntityDetails {
    /// Of which kind the entity is.
    pub fn kind(&self) -> EntityKind {
        match self {
            Self::SendQuote(_) => EntityKind::CashuSendQuote,
            Self::SendSwap(_) => EntityKind::CashuSendSwap,
            Self::ReceiveQuote(_) => EntityKind::CashuReceiveQuote,
            Self::ReceiveSwap(_) => EntityKind::CashuReceiveSwap,
            Self::SparkSend(_) => EntityKind::SparkSendQuote,
            Self::SparkReceive(_) => EntityKind::SparkReceiveQuote,
        }
    }

    /// As it is stored for an entity.
    pub(crate) fn seal(&self, entity: &str, sealer: &SecretSealer) -> Result<Vec<u8>, EcashError> {
        let plain = match self {
            Self::SendQuote(details) => serde_json::to_vec(details),
            Self::SendSwap(details) => serde_json::to_vec(details),
            Self::ReceiveQuote(details) => serde_json::to_vec(details),
            Self::ReceiveSwap(details) => serde_json::to_vec(details),
            Self::SparkSend(details) => serde_json::to_vec(details),
            Self::SparkReceive(details) => serde_json::to_vec(details),
        };
        let bug = |error| EcashError::Bug(format!("details can't be written: {error}"));
        let plain = Zeroizing::new(plain.map_err(bug)?);
        sealer.seal(&purpose(entity), &plain)
    }

    /// What was stored for an entity of that kind.
    pub(crate) fn open(
        kind: EntityKind,
        entity: &str,
        sealed: &[u8],
        sealer: &SecretSealer,
    ) -> Result<Self, EcashError> {
        let plain = sealer.open(&purpose(entity), sealed)?;
        let details = match kind {
            EntityKind::CashuSendQuote => serde_json::from_slice(&plain).map(Self::SendQuote),
            EntityKind::CashuSendSwap => serde_json::from_slice(&plain).map(Self::SendSwap),
            EntityKind::CashuReceiveQuote => serde_json::from_slice(&plain).map(Self::ReceiveQuote),
            EntityKind::CashuReceiveSwap => serde_json::from_slice(&plain).map(Self::ReceiveSwap),
            EntityKind::SparkSendQuote => serde_json::from_slice(&plain).map(Self::SparkSend),
            EntityKind::SparkReceiveQuote => serde_json::from_slice(&plain).map(Self::SparkReceive),
        };
        details.map_err(|error| EcashError::Corrupt(format!("details of a {kind}: {error}")))
    }

    /// Change that could not be read when a melt was seen paid, with what may come of it.
    pub fn owed_change(&self) -> Option<(&OwedChange, ChangeBounds)> {
        match self {
            Self::SendQuote(quote) => Some((quote.owed.as_ref()?, quote.change_bounds()?)),
            Self::ReceiveQuote(details) => owed_of(details.source.as_ref()?, details.amount),
            Self::SparkReceive(details) => owed_of(details.source.as_ref()?, details.amount),
            Self::SendSwap(_) | Self::ReceiveSwap(_) | Self::SparkSend(_) => None,
        }
    }

    /// How much of a token others have claimed, for people; `None` where that is nothing or all.
    pub fn claimed_figure(&self) -> Option<String> {
        let (claimed, whole) = self.token_figures()?;
        (claimed > 0 && claimed < whole).then(|| format!("{claimed} of {whole} claimed"))
    }

    /// What others have claimed of the token that is sent or claimed, and what all of it is worth.
    pub fn token_figures(&self) -> Option<(u64, u64)> {
        match self {
            Self::SendSwap(swap) => Some((swap.claimed, swap.to_send)),
            Self::ReceiveSwap(swap) => Some((swap.progress.lost_amount, swap.token_worth())),
            Self::SendQuote(_)
            | Self::ReceiveQuote(_)
            | Self::SparkSend(_)
            | Self::SparkReceive(_) => None,
        }
    }

    /// All outputs reserved, whatever for.
    pub fn ranges(&self) -> Vec<&OutputRange> {
        let fence = if let Self::SendQuote(quote) = self { quote.fence.as_ref() } else { None };
        let change = self.source().and_then(|source| source.range.as_ref());
        [self.range(), fence, change].into_iter().flatten().collect()
    }

    /// These as they are stored beside the sealed details.
    pub(crate) fn outputs(&self) -> Result<String, EcashError> {
        let bug = |error| EcashError::Bug(format!("outputs can't be written: {error}"));
        serde_json::to_string(&self.ranges()).map_err(bug)
    }

    /// The outputs reserved for its own account.
    pub fn range(&self) -> Option<&OutputRange> {
        match self {
            Self::SendQuote(details) => details.range.as_ref(),
            Self::SendSwap(details) => details.range.as_ref(),
            Self::ReceiveQuote(details) => details.range.as_ref(),
            Self::ReceiveSwap(details) => Some(&details.range),
            Self::SparkSend(_) | Self::SparkReceive(_) => None,
        }
    }

    pub(crate) fn set_range(&mut self, range: OutputRange) {
        match self {
            Self::SendQuote(details) => details.range = Some(range),
            Self::SendSwap(details) => details.range = Some(range),
            Self::ReceiveQuote(details) => details.range = Some(range),
            Self::ReceiveSwap(details) => details.range = range,
            Self::SparkSend(_) | Self::SparkReceive(_) => {}
        }
    }

    /// The token that pays it, if one does.
    pub fn source(&self) -> Option<&TokenSource> {
        match self {
            Self::ReceiveQuote(details) => details.source.as_ref(),
            Self::SparkReceive(details) => details.source.as_ref(),
            Self::SendQuote(_) | Self::SendSwap(_) | Self::ReceiveSwap(_) | Self::SparkSend(_) => {
                None
            }
        }
    }

    pub(crate) fn source_mut(&mut self) -> Option<&mut TokenSource> {
        match self {
            Self::ReceiveQuote(details) => details.source.as_mut(),
            Self::SparkReceive(details) => details.source.as_mut(),
            Self::SendQuote(_) | Self::SendSwap(_) | Self::ReceiveSwap(_) | Self::SparkSend(_) => {
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As versions wrote it that knew nothing of owed change; what needs none is still written so.
    #[test]
    fn details_of_before_are_read_and_written_as_they_were() {
        let sent = concat!(
            r#"{"quote_id":"q","invoice":"lnbc1","amount":5,"fee_reserve":2,"input_fee":1,"#,
            r#""reserved":8,"range":{"keyset_id":"00","start":3,"amounts":[0]},"fence":null,"#,
            r#""preimage":"ab","spent":6}"#
        );
        let read: SendQuoteDetails = serde_json::from_str(sent).unwrap();
        assert_eq!((read.payment_hash.as_ref(), read.owed.as_ref()), (None, None));
        assert_eq!(serde_json::to_string(&read).unwrap(), sent);
        let source = concat!(
            r#"{"mint_url":"http://m","melt_quote_id":"q","token_amount":8,"input_fee":1,"#,
            r#""fee_reserve":2,"account_id":null,"range":null,"change_stored":true}"#
        );
        let read: TokenSource = serde_json::from_str(source).unwrap();
        assert_eq!(read.change_bounds(5), Some(ChangeBounds { least: 0, most: 2 }));
        assert_eq!(serde_json::to_string(&read).unwrap(), source);
    }

    #[test]
    fn only_a_preimage_of_the_invoices_hash_is_proof() {
        let hash = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925";
        assert!(proves(&"00".repeat(32), hash));
        for wrong in [String::new(), "01".repeat(32), "zz".repeat(32), "00".repeat(31)] {
            assert!(!proves(&wrong, hash), "{wrong}");
        }
    }

    #[test]
    fn details_written_before_tokens_had_parts_are_read() {
        let range = r#"{"keyset_id":"k","start":0,"amounts":[4,2,1]}"#;
        let claim = format!(r#"{{"token_hash":"h","input_amount":8,"fee":1,"range":{range}}}"#);
        let claim: ReceiveSwapDetails = serde_json::from_str(&claim).unwrap();
        assert_eq!((claim.token_worth(), claim.gain()), (8, 7));
        assert_eq!(claim.progress, ClaimProgress::default());
        let send = r#"{"amount":7,"receive_fee":1,"to_send":8,"send_fee":0,"input_amount":8,
            "range":null,"send_count":0,"token_hash":null}"#;
        let send: SendSwapDetails = serde_json::from_str(send).unwrap();
        assert_eq!(send.claimed, 0);
    }
}
