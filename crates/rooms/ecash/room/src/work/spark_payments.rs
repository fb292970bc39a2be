//! What people ask for through Spark. The key of a payment is the entity's own id, so that it is
//! made once, however often it is asked for.

use std::sync::Arc;

use cashu::Bolt11Invoice;
use unspent_ecash::{
    Account, AccountKind, Entity, NewEntity,
    details::{SparkReceive, SparkSend},
};
use unspent_engine::clock;

use super::{
    EcashWorkError,
    executor::Executor,
    payments::{Asked, new_id},
    repeat::Wanted,
};
use crate::spark::SparkBackend;

impl Executor {
    fn spark(&self) -> Result<Arc<dyn SparkBackend>, EcashWorkError> {
        let none = || EcashWorkError::Wrong("there is no Spark wallet".into());
        self.counterparts.spark.clone().ok_or_else(none)
    }

    /// Adds an account for the Spark wallet.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`]; no account is kept then.
    pub fn add_spark_account(&self, name: &str) -> Result<Account, EcashWorkError> {
        if !self.spark()?.info()?.online {
            return Err(EcashWorkError::Wrong("the Spark wallet is offline".into()));
        }
        let account = Account {
            id: new_id()?,
            kind: AccountKind::Spark,
            name: name.to_owned(),
            mint_url: None,
            unit: "sat".into(),
            version: 0,
        };
        Ok(self.store.add_account(account, clock::now())?)
    }

    /// Pays an invoice that names its amount.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`].
    pub fn pay_by_spark(
        &self,
        account: &str,
        invoice: &str,
        asked: &Asked,
    ) -> Result<Entity, EcashWorkError> {
        let wanted = Wanted::Pay { account, invoice };
        if let Some(begun) = self.begun(asked, wanted)? {
            return Ok(begun);
        }
        let wrong = |what: &str| EcashWorkError::Wrong(what.to_owned());
        let account = self.store.account(account)?;
        let parsed: Bolt11Invoice =
            invoice.trim().parse().map_err(|_| wrong("this is no invoice"))?;
        if parsed.amount_milli_satoshis().is_none() {
            return Err(wrong("the invoice names no amount"));
        }
        let spark = self.spark()?;
        let estimate = spark.quote_send(invoice, None)?;
        let spark_balance = spark.info()?.balance;
        let needed = estimate.amount.checked_add(estimate.fee);
        if needed.is_none_or(|needed| spark_balance < needed) {
            return Err(wrong("the Spark balance doesn't suffice"));
        }
        let ends = parsed.expires_at().map(|ends| ends.as_micros());
        let ends = ends.map(|ends| i64::try_from(ends).unwrap_or(i64::MAX));
        let send = SparkSend {
            invoice: invoice.trim().to_owned(),
            payment_hash: parsed.payment_hash().to_string(),
            amount: estimate.amount,
            is_amountless: false,
            max_fee: estimate.fee,
            fee: None,
            request_id: None,
            transfer_id: None,
            preimage: None,
        };
        self.create(NewEntity::SparkSend(send), &account, (asked, wanted), ends)
    }

    /// An invoice of the Spark wallet.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`].
    pub fn receive_by_spark(
        &self,
        account: &str,
        amount: u64,
        asked: &Asked,
    ) -> Result<Entity, EcashWorkError> {
        let wanted = Wanted::Receive { account, amount };
        if let Some(begun) = self.begun(asked, wanted)? {
            return Ok(begun);
        }
        let account = self.store.account(account)?;
        let (new, ends) = self.spark_invoice(amount)?;
        self.create(new, &account, (asked, wanted), ends)
    }

    /// An invoice of the Spark wallet, as an entity that isn't stored yet, and its end.
    pub(super) fn spark_invoice(
        &self,
        amount: u64,
    ) -> Result<(NewEntity, Option<i64>), EcashWorkError> {
        let invoice = self.spark()?.create_invoice(amount, None, None)?;
        // A time that saturates is the end of time.
        let ends = i64::try_from(invoice.expires_at).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        let receive = SparkReceive {
            request_id: invoice.request_id,
            invoice: invoice.invoice,
            payment_hash: invoice.payment_hash,
            amount,
            transfer_id: None,
            preimage: None,
            source: None,
        };
        Ok((NewEntity::SparkReceive(receive, None), Some(ends)))
    }
}
