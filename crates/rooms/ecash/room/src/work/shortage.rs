//! What an account lacks for a payment, and what comes back to it from payments under way.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use unspent_ecash::{EcashEntity, EcashError, EntityDetails, PageRequest};
use unspent_model::ecash::{EntityState, NotEnough};

use super::{EcashWorkError, executor::PaymentExecutor};

/// Between two looks whether change has come.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Open payments that are read at a time.
const PAGE: u32 = 500;

/// Too little is free now.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{} are needed with fees, {} are there, {coming} more come back from payments under way \
     ({held} are held); nothing was changed",
    lack.needed, lack.available
)]
pub struct MoneyShortage {
    /// What is needed and there.
    pub lack: NotEnough,
    /// What is sure to come back once the payments under way have gone their next step.
    pub coming: u64,
    /// What payments and tokens hold, that which comes back included.
    pub held: u64,
    /// Whose account.
    pub account: String,
}

impl PaymentExecutor {
    /// Says of a payment that can't be made what comes back.
    pub(super) fn told_short(&self, account: &str, error: EcashWorkError) -> EcashWorkError {
        let EcashWorkError::Store(EcashError::NotEnough(lack)) = error else { return error };
        match self.shortage(account, lack) {
            Ok(shortage) => EcashWorkError::Short(shortage),
            // The first error says enough.
            Err(_) => EcashError::NotEnough(lack).into(),
        }
    }

    fn shortage(&self, account: &str, lack: NotEnough) -> Result<MoneyShortage, EcashWorkError> {
        let held = self.store.balance(account)?.reserved;
        let mut coming = 0_u64;
        for entity in self.under_way(account)? {
            // Told to people beside what is lacking, and booked nowhere.
            coming = coming.saturating_add(comes_back(&entity));
        }
        Ok(MoneyShortage { lack, coming, held, account: account.to_owned() })
    }

    /// Open payments of an account that bring something back.
    fn under_way(&self, account: &str) -> Result<Vec<EcashEntity>, EcashWorkError> {
        let mut found: Vec<EcashEntity> = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = PageRequest { after: after.as_deref(), limit: PAGE };
            let page = self.store.open_entities(page)?;
            let is_last = page.len() < PAGE as usize;
            after = page.last().map(|entity| entity.id.clone());
            let own = page.into_iter();
            found.extend(
                own.filter(|entity| entity.account_id == account && comes_back(entity) > 0),
            );
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Asks for something again, as long as only change under way is lacking and `goes_on`;
    /// meanwhile those payments are helped along.
    ///
    /// # Errors
    ///
    /// What is asked for can't be done, whatever is waited for, or not until `end`.
    pub fn with_change<T>(
        &self,
        end: Instant,
        goes_on: &dyn Fn() -> bool,
        mut ask: impl FnMut() -> Result<T, EcashWorkError>,
    ) -> Result<T, EcashWorkError> {
        loop {
            let short = match ask() {
                Err(EcashWorkError::Short(short)) if short.coming > 0 => short,
                done => return done,
            };
            if Instant::now() >= end || !goes_on() {
                return Err(EcashWorkError::Short(short));
            }
            for entity in self.under_way(&short.account)? {
                // One that can't be moved now keeps none of the others from it.
                if let Err(error) = self.advance_while(&entity.id, goes_on) {
                    tracing::debug!(entity = entity.id, %error, "change is still to come");
                }
            }
            sleep(LOOK_AGAIN.min(end.saturating_duration_since(Instant::now())));
        }
    }
}

/// What a payment is sure to bring back to its account.
fn comes_back(entity: &EcashEntity) -> u64 {
    let sum = match (&entity.details, entity.state) {
        (EntityDetails::SendSwap(swap), EntityState::Draft) => swap.change(),
        (EntityDetails::SendQuote(quote), EntityState::Unpaid | EntityState::Pending) => {
            quote.change_bounds().map(|bounds| bounds.least)
        }
        (EntityDetails::ReceiveSwap(swap), EntityState::Pending) => Some(swap.gain()),
        (_, _) => None,
    };
    sum.unwrap_or(0)
}
