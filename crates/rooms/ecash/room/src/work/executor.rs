//! One payment, moved as far as it goes now.
//!
//! | the flow wants | the executor |
//! |---|---|
//! | a question asked | asks it with no transaction open, and hands the answer back |
//! | an event to happen | applies it in one transaction, and starts a new flow |
//! | to wait | says for what |
//! | nothing more | says so |

use std::sync::Arc;

use cashu::{CurrencyUnit, mint_url::MintUrl};
use unspent_ecash::{
    EcashAccount, EcashEntity, EcashError, EcashStore, EntityDetails,
    flow::{Flow, FlowEnvironment, FlowStep, MintKeys, WaitReason},
    proof_name,
};
use unspent_model::ecash::{EntityEvent, EntityKind, EntityState};

use super::{
    super::{
        mint::check::unit_of,
        watch::{MintWatch, WatchKind},
    },
    EcashWorkError,
    ask::PaymentBackends,
    book::{KnownMint, WaitingPlace},
    counters::CounterFile,
    now,
};

/// Turns of one payment before others get theirs: questions and changes together. The longest
/// course that a payment takes without waiting has about ten.
const MOST_TURNS: usize = 40;

/// Where a payment stands after its turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PaymentStanding {
    /// Nothing is expected any more.
    Over,
    /// Somebody else has to do something.
    Watching,
    /// Something is unclear or under way.
    Unclear(String),
}

/// Moves payments.
pub struct PaymentExecutor {
    /// Where they are kept.
    pub store: Arc<EcashStore>,
    /// Whoever can be asked.
    pub backends: PaymentBackends,
    /// Reserved proofs are swapped to ourselves before a send is called failed.
    pub fence: bool,
    /// How far counters were used, beside the key; `None` where nothing can be written there.
    pub counters: Option<CounterFile>,
}

impl PaymentExecutor {
    /// Moves a payment as far as it goes now.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`]; the payment stands where its last event left it.
    pub fn advance(&self, id: &str) -> Result<PaymentStanding, EcashWorkError> {
        self.advance_while(id, &|| true)
    }

    /// The same, as long as `goes_on`: it is asked before every question and every change.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`]; the payment stands where its last event left it.
    pub fn advance_while(
        &self,
        id: &str,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<PaymentStanding, EcashWorkError> {
        let stopped = || Ok(PaymentStanding::Unclear("the work on it was stopped".into()));
        let mut turns = 0;
        loop {
            if !goes_on() {
                return stopped();
            }
            // Anew each time: a command beside the daemon may have moved the payment meanwhile.
            let open = self.store.open_entity(id)?;
            let environment = match self.environment(&open.entity) {
                Ok(environment) => environment,
                Err(EcashWorkError::Mint { mint, reason }) => {
                    // What is known of it may be what doesn't do: the next turn reads it anew.
                    if let Ok(url) = mint.parse() {
                        self.backends.mints.forget(&url);
                    }
                    return Ok(PaymentStanding::Unclear(format!("{mint}: {reason}")));
                }
                Err(error) => return Err(error),
            };
            if let Some(counters) = &self.counters
                && let Err(error) = counters.cover(&open.entity.details.ranges())
            {
                // Without it a copy of this database could not be told from this one.
                return Ok(PaymentStanding::Unclear(error.to_string()));
            }
            let account = open.entity.account_id.clone();
            let (mints, now) =
                ([environment.mint.clone(), environment.source.clone()], environment.now);
            let (mut flow, mut next) = Flow::start(open, environment)?;
            while let FlowStep::Ask(request) = &next {
                if !goes_on() {
                    return stopped();
                }
                turns += 1;
                tracing::debug!(entity = id, request = request.name(), "asking");
                next = flow.answer(self.backends.ask(request))?;
            }
            turns += 1;
            match next {
                FlowStep::Apply(_) if !goes_on() => return stopped(),
                FlowStep::Apply(event) => {
                    let (what, shows_copy) = (event.what, event.shows_copy);
                    let applied = self.store.apply(id, event, now)?;
                    if what == EntityEvent::Fail {
                        // Fees or keysets that were read before may be why: the next payment reads
                        // them anew.
                        self.forget(&mints);
                    }
                    if shows_copy {
                        self.scan_now(&account, goes_on);
                    }
                    tracing::debug!(entity = id, event = %what, state = %applied.entity.state);
                    // A repetition was stored by somebody else in the meantime: another round
                    // would only meet them again.
                    if applied.is_repeat || turns > MOST_TURNS {
                        return Ok(PaymentStanding::Unclear("its turn is over".into()));
                    }
                }
                FlowStep::Wait(wait) => return Ok(self.waiting(&wait, &mints)),
                FlowStep::Done => return Ok(PaymentStanding::Over),
                // The loop above ends with something else.
                FlowStep::Ask(_) => {}
            }
        }
    }

    fn waiting(&self, wait: &WaitReason, mints: &[Option<Arc<MintKeys>>]) -> PaymentStanding {
        match wait {
            WaitReason::ForChange => PaymentStanding::Watching,
            WaitReason::Retry(why) => PaymentStanding::Unclear(why.clone()),
            WaitReason::ForKeysets => {
                self.forget(mints);
                PaymentStanding::Unclear("the mint's keysets have changed".into())
            }
        }
    }

    fn forget(&self, mints: &[Option<Arc<MintKeys>>]) {
        for mint in mints.iter().flatten() {
            self.backends.mints.forget(&mint.url);
        }
    }

    fn environment(&self, entity: &EcashEntity) -> Result<FlowEnvironment, EcashWorkError> {
        let account = self.store.account(&entity.account_id)?;
        // A keyset that was retired since has keys still, and signatures of before.
        let ranges = entity.details.ranges();
        let needed: Vec<&str> = ranges.iter().map(|range| range.keyset_id.as_str()).collect();
        let mint = match &account.mint_url {
            Some(url) => Some(self.known_with(url, &account, &needed)?.keys),
            None => None,
        };
        let source = match entity.details.source() {
            Some(source) => {
                let bad = |_| EcashError::Corrupt("a token's mint has no valid address".into());
                let url: MintUrl = source.mint_url.parse().map_err(bad)?;
                // Without an account at the token's mint both are of one unit: a claim across
                // units is refused.
                let unit = source.account_id.as_ref().map(|id| self.store.account(id));
                let unit = unit.transpose()?.map_or(account.unit.clone(), |found| found.unit);
                let failed = |reason| EcashWorkError::Mint { mint: url.to_string(), reason };
                let mints = &self.backends.mints;
                let unit = unit_of(&unit);
                let read = mints.mint_with(&url, &unit, &needed).map_err(failed)?;
                self.write_down(&url, &unit, &read)?;
                Some(read.0.keys)
            }
            None => None,
        };
        let (seed, now) = (self.store.seed().clone(), now());
        Ok(FlowEnvironment { seed, mint, source, unit: account.unit, now, fence: self.fence })
    }

    /// What is known of a mint in a unit; the second says whether it was read just now. For those
    /// who wait for it.
    pub(super) fn at(
        &self,
        url: &MintUrl,
        unit: &CurrencyUnit,
    ) -> Result<(KnownMint, bool), EcashWorkError> {
        if let Some(known) = self.backends.mints.known(url, unit) {
            return Ok((known, false));
        }
        let _place = self.place(url)?;
        let failed = |reason| EcashWorkError::Mint { mint: url.to_string(), reason };
        let read = self.backends.mints.mint(url, unit).map_err(failed)?;
        self.write_down(url, unit, &read)?;
        Ok(read)
    }

    /// Keysets that were read just now are those of every account at the mint. Whoever reads them
    /// next finds them known: left out now, older fees would stay in the database.
    fn write_down(
        &self,
        url: &MintUrl,
        unit: &CurrencyUnit,
        (known, is_new): &(KnownMint, bool),
    ) -> Result<(), EcashWorkError> {
        if !is_new {
            return Ok(());
        }
        for account in self.store.accounts()? {
            if account.mint_url.as_ref() == Some(url) && unit_of(&account.unit) == *unit {
                self.store.put_keysets(&account.id, known.infos())?;
            }
        }
        Ok(())
    }

    /// A place among those who wait for a mint.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError::Crowded`].
    pub fn place(&self, url: &MintUrl) -> Result<WaitingPlace<'_>, EcashWorkError> {
        let crowded = || EcashWorkError::Crowded { mint: url.to_string() };
        self.backends.mints.place(url).ok_or_else(crowded)
    }

    /// The mint of an account with the keys of some keysets, for the worker. Keysets that were read
    /// just now are written down.
    pub(super) fn known_with(
        &self,
        url: &MintUrl,
        account: &EcashAccount,
        needed: &[&str],
    ) -> Result<KnownMint, EcashWorkError> {
        let failed = |reason| EcashWorkError::Mint { mint: url.to_string(), reason };
        let unit = unit_of(&account.unit);
        let read = self.backends.mints.mint_with(url, &unit, needed).map_err(failed)?;
        self.write_down(url, &unit, &read)?;
        Ok(read.0)
    }

    /// The mint of an account.
    pub(super) fn known(
        &self,
        url: &MintUrl,
        account: &EcashAccount,
    ) -> Result<KnownMint, EcashWorkError> {
        Ok(self.at(url, &unit_of(&account.unit))?.0)
    }

    /// What a payment wants to be told of, and at which mints.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`].
    pub fn watches(
        &self,
        entity: &EcashEntity,
    ) -> Result<Vec<(MintUrl, MintWatch)>, EcashWorkError> {
        let account = self.store.account(&entity.account_id)?;
        let watch = |kind, filters| MintWatch { subject: entity.id.clone(), kind, filters };
        let mut found = Vec::new();
        match (&entity.details, account.mint_url) {
            // Of change a mint gives no notice.
            (EntityDetails::SendQuote(quote), Some(mint)) if entity.state != EntityState::Paid => {
                found.push((mint, watch(WatchKind::MeltQuote, vec![quote.quote_id.clone()])));
            }
            (EntityDetails::ReceiveQuote(quote), Some(mint)) => {
                found.push((mint, watch(WatchKind::MintQuote, vec![quote.quote_id.clone()])));
            }
            (EntityDetails::SendSwap(_), Some(mint)) if entity.state == EntityState::Pending => {
                let held = self.store.open_entity(&entity.id)?.held;
                let names = held.iter().map(|proof| proof_name(proof).map(hex::encode));
                let names = names.collect::<Result<_, _>>()?;
                found.push((mint, watch(WatchKind::Proofs, names)));
            }
            _ => {}
        }
        if let Some(source) = entity.details.source()
            && let Ok(mint) = source.mint_url.parse()
        {
            let quote = source.melt_quote_id.clone();
            found.push((mint, watch(WatchKind::MeltQuote, vec![quote])));
        }
        Ok(found)
    }
}

/// Whether a payment is one of Spark's.
pub(super) fn is_spark(entity: &EcashEntity) -> bool {
    matches!(entity.kind, EntityKind::SparkSendQuote | EntityKind::SparkReceiveQuote)
}
