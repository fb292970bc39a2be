//! What people ask for through Spark. The key of a payment is the entity's own id, so that it is
//! made once, however often it is asked for.

use std::sync::Arc;

use cashu::{Bolt11Invoice, CurrencyUnit};
use unspent_ecash::{
    AccountKind, EcashAccount, EcashEntity, NewEntity,
    details::{SparkReceiveDetails, SparkSendDetails},
};
use unspent_model::Micros;

use super::{
    EcashWorkError,
    executor::PaymentExecutor,
    invoices, now,
    payments::{InvoiceOrder, PaymentPrice, RequestKey, new_id},
    repeat::{PlannedPayment, RequestedPayment},
};
use crate::spark::{SparkBackend, SparkEstimate};

impl PaymentExecutor {
    fn spark(&self) -> Result<Arc<dyn SparkBackend>, EcashWorkError> {
        let none = || EcashWorkError::Wrong("there is no Spark wallet".into());
        self.backends.spark.clone().ok_or_else(none)
    }

    /// Adds an account for the Spark wallet.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`]; no account is kept then.
    pub fn add_spark_account(&self, name: &str) -> Result<EcashAccount, EcashWorkError> {
        if !self.spark()?.info()?.online {
            return Err(EcashWorkError::Wrong("the Spark wallet is offline".into()));
        }
        let account = EcashAccount {
            id: new_id()?,
            kind: AccountKind::Spark,
            name: name.to_owned(),
            mint_url: None,
            unit: "sat".into(),
            version: 0,
        };
        Ok(self.store.add_account(account, now())?)
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
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        self.pay_by_spark_within(InvoiceOrder { account, invoice, max_fee: None }, key)
    }

    /// The same, within a limit of fees.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`].
    pub fn pay_by_spark_within(
        &self,
        order: InvoiceOrder<'_>,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        let InvoiceOrder { account, invoice, .. } = order;
        self.once(key, RequestedPayment::Pay { account, invoice }, || {
            self.plan_spark_send(order, self.store.account(account)?)
        })
    }

    /// What paying an invoice would cost. Nothing is stored.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`].
    pub fn price_by_spark(&self, order: InvoiceOrder<'_>) -> Result<PaymentPrice, EcashWorkError> {
        let (_, estimate) = self.spark_estimate(order.invoice)?;
        let max_fee = invoices::fee_limit(order.max_fee, estimate.amount, &CurrencyUnit::Sat);
        Ok(PaymentPrice {
            account: self.store.account(order.account)?,
            amount: estimate.amount,
            fee_reserve: estimate.fee,
            input_fee: 0,
            max_fee,
        })
    }

    fn spark_estimate(
        &self,
        invoice: &str,
    ) -> Result<(Bolt11Invoice, SparkEstimate), EcashWorkError> {
        let parsed = invoices::read(invoice)?;
        let estimate = self.spark()?.quote_send(invoice, None)?;
        invoices::refuse_other_price(&parsed, estimate.amount, &CurrencyUnit::Sat)?;
        Ok((parsed, estimate))
    }

    fn plan_spark_send(
        &self,
        order: InvoiceOrder<'_>,
        account: EcashAccount,
    ) -> Result<PlannedPayment, EcashWorkError> {
        let wrong = |what: &str| EcashWorkError::Wrong(what.to_owned());
        let (invoice, spark) = (order.invoice, self.spark()?);
        let (parsed, estimate) = self.spark_estimate(invoice)?;
        let unit = CurrencyUnit::Sat;
        invoices::refuse_dear(estimate.fee, order.max_fee, estimate.amount, &unit)?;
        // To say so at once. What counts is what Spark says when it is asked to pay.
        let spark_balance = spark.info()?.balance;
        let needed = estimate.amount.checked_add(estimate.fee);
        if needed.is_none_or(|needed| spark_balance < needed) {
            return Err(wrong("the Spark balance doesn't suffice"));
        }
        let expires_at = parsed.expires_at().map(|ends| Micros(0).later(ends));
        let send = SparkSendDetails {
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
        Ok(PlannedPayment { new: NewEntity::SparkSend(send), account, expires_at })
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
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        self.once(key, RequestedPayment::Receive { account, amount }, || {
            let account = self.store.account(account)?;
            let (new, expires_at) = self.spark_invoice(amount)?;
            Ok(PlannedPayment { new, account, expires_at })
        })
    }

    /// An invoice of the Spark wallet, as an entity that isn't stored yet, and its end.
    pub(super) fn spark_invoice(
        &self,
        amount: u64,
    ) -> Result<(NewEntity, Option<Micros>), EcashWorkError> {
        let invoice = self.spark()?.create_invoice(amount, None, None)?;
        let ends = Micros::of_seconds(invoice.expires_at);
        let receive = SparkReceiveDetails {
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
