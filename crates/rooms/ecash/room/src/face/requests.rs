//! What can be asked for, whichever way it came: one type for the command and its route.
//!
//! Each writes down what is wanted and returns; the worker of the daemon, or the command that
//! waits, carries it out.

use std::str::FromStr;

use clap::Args;
use serde::{Deserialize, Deserializer, de::Error as _};
use unspent_ecash::{AccountKind, EcashAccount, EcashEntity, EcashError};
use unspent_server::api::error::ApiError;
use utoipa::ToSchema;

use crate::{
    mint::check::{MintBlocklist, host_of},
    work::{
        EcashWorkError, check_name,
        executor::PaymentExecutor,
        payments::{InvoiceOrder, PaymentPrice, RequestKey, read_token, refuse_blocked},
    },
};

/// A request of somebody who may see one account only.
pub(super) trait OfAccount {
    /// Keeps to that account: another one is as if it weren't there.
    fn keep_to(&mut self, own: &EcashAccount, at: RequestTarget<'_>) -> Result<(), ApiError>;
}

/// What is said of an account that isn't there, or that the one who asks may not see.
pub(super) fn no_account(name: &str) -> ApiError {
    ApiError::not_found(format!("there is no account `{name}`"))
}

/// The account that is named, or the only one that there is to name.
fn keep_name(named: &mut Option<String>, own: &EcashAccount) -> Result<(), ApiError> {
    if let Some(name) = named.as_ref().filter(|name| **name != own.id && **name != own.name) {
        return Err(no_account(name));
    }
    *named = Some(own.id.clone());
    Ok(())
}

/// Whom a request is made to.
#[derive(Clone, Copy)]
pub(super) struct RequestTarget<'a> {
    pub(super) executor: &'a PaymentExecutor,
    pub(super) blocklist: &'a MintBlocklist,
}

/// A whole number of the account's unit, at least 1. In JSON a text; a number is read too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EcashAmount(u64);

/// The same, where 0 is meant too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FeeLimit(u64);

fn whole(text: &str, least: u64) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && (least..1 << 53).contains(number))
}

impl FromStr for EcashAmount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "an amount is a whole number of the account's unit, at least 1".to_owned();
        whole(text, 1).map(Self).ok_or_else(wrong)
    }
}

impl FromStr for FeeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a fee is a whole number of the account's unit".to_owned();
        whole(text, 0).map(Self).ok_or_else(wrong)
    }
}

fn read_number<'de, D: Deserializer<'de>, T: FromStr<Err = String>>(
    from: D,
) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Number(u64),
    }
    let text = match Written::deserialize(from)? {
        Written::Text(text) => text,
        Written::Number(number) => number.to_string(),
    };
    text.parse().map_err(D::Error::custom)
}

impl<'de> Deserialize<'de> for EcashAmount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read_number(from)
    }
}

impl<'de> Deserialize<'de> for FeeLimit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read_number(from)
    }
}

/// An account to be opened.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddAccount {
    /// The mint's address; leave it out for the Spark wallet
    #[arg(required_unless_present = "spark")]
    #[serde(default)]
    #[schema(max_length = 400)]
    mint: Option<String>,
    /// sat, usd, …
    #[arg(long, default_value = "sat")]
    #[serde(default = "sat")]
    #[schema(default = "sat", max_length = 20)]
    unit: String,
    /// For people; the mint's host by default
    #[arg(long)]
    #[serde(default)]
    #[schema(max_length = 100)]
    name: Option<String>,
    /// An account for the Spark wallet instead
    #[arg(long, conflicts_with = "mint")]
    #[serde(default)]
    spark: bool,
}

fn sat() -> String {
    "sat".into()
}

impl AddAccount {
    pub(super) fn run(&self, at: RequestTarget<'_>) -> Result<EcashAccount, EcashWorkError> {
        let wrong = |what: &str| EcashWorkError::Wrong(what.into());
        self.name.as_deref().map_or(Ok(()), check_name)?;
        match (&self.mint, self.spark) {
            (Some(mint), false) => {
                let name = self.name.as_deref().unwrap_or_else(|| host_of(mint));
                at.executor.add_account(mint, &self.unit, name, at.blocklist)
            }
            (None, true) => at.executor.add_spark_account(self.name.as_deref().unwrap_or("spark")),
            _ => Err(wrong("name a mint, or the Spark wallet")),
        }
    }
}

/// An account to be changed.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeAccount {
    /// Another name
    #[arg(long)]
    #[serde(default)]
    #[schema(max_length = 100)]
    pub(super) name: Option<String>,
    /// The address that its mint has moved to; it has to show that it is the same mint
    #[arg(long)]
    #[serde(default)]
    #[schema(max_length = 400)]
    pub(super) mint: Option<String>,
}

impl ChangeAccount {
    pub(super) fn run(
        &self,
        account: &EcashAccount,
        at: RequestTarget<'_>,
    ) -> Result<EcashAccount, EcashWorkError> {
        let id = &account.id;
        match (&self.name, &self.mint) {
            (Some(name), None) => at.executor.rename_account(id, name),
            (None, Some(mint)) => at.executor.move_account(id, mint, at.blocklist),
            // One at a time: a refusal of the second would leave the first done.
            _ => Err(EcashWorkError::Wrong("name one thing to change: name or mint".into())),
        }
    }
}

/// Money to come in.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReceiveAmount {
    /// In the account's unit
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,15}$")]
    amount: EcashAmount,
    /// The account, by its name or id; not needed when there is only one
    #[arg(long)]
    #[serde(default)]
    account: Option<String>,
}

impl ReceiveAmount {
    pub(super) fn run(
        &self,
        at: RequestTarget<'_>,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        let account = at.executor.find_account(self.account.as_deref())?;
        let EcashAmount(amount) = self.amount;
        match account.kind {
            AccountKind::Cashu => at.executor.receive(&account.id, amount, key),
            AccountKind::Spark => at.executor.receive_by_spark(&account.id, amount, key),
        }
    }
}

impl OfAccount for ReceiveAmount {
    fn keep_to(&mut self, own: &EcashAccount, _: RequestTarget<'_>) -> Result<(), ApiError> {
        keep_name(&mut self.account, own)
    }
}

/// An invoice to be paid.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PayInvoice {
    /// The Lightning invoice
    #[arg(help = "The Lightning invoice; `-` reads it from standard input, `@FILE` from a file")]
    #[schema(max_length = 8000)]
    pub(super) invoice: String,
    /// The account, by its name or id; not needed when there is only one
    #[arg(long)]
    #[serde(default)]
    pub(super) account: Option<String>,
    /// The most that may be paid in fees; a twentieth of the amount, and at least 10, if left out
    #[arg(long, value_name = "AMOUNT")]
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^[0-9]{1,16}$")]
    pub(super) max_fee: Option<FeeLimit>,
    /// Only say what it would cost
    #[arg(long)]
    #[serde(default)]
    pub(super) dry_run: bool,
}

impl PayInvoice {
    pub(super) fn run(
        &self,
        at: RequestTarget<'_>,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        let account = at.executor.find_account(self.account.as_deref())?;
        let order = self.order(&account);
        match account.kind {
            AccountKind::Cashu => at.executor.pay_within(order, key),
            AccountKind::Spark => at.executor.pay_by_spark_within(order, key),
        }
    }

    /// What it would cost; nothing is stored and nothing reserved.
    pub(super) fn price(&self, at: RequestTarget<'_>) -> Result<PaymentPrice, EcashWorkError> {
        let account = at.executor.find_account(self.account.as_deref())?;
        let order = self.order(&account);
        match account.kind {
            AccountKind::Cashu => at.executor.price(order),
            AccountKind::Spark => at.executor.price_by_spark(order),
        }
    }

    fn order<'a>(&'a self, account: &'a EcashAccount) -> InvoiceOrder<'a> {
        let max_fee = self.max_fee.map(|limit| limit.0);
        InvoiceOrder { account: &account.id, invoice: self.invoice.trim(), max_fee }
    }
}

impl OfAccount for PayInvoice {
    fn keep_to(&mut self, own: &EcashAccount, _: RequestTarget<'_>) -> Result<(), ApiError> {
        keep_name(&mut self.account, own)
    }
}

/// A token to be made.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendAmount {
    /// What whoever claims it gets, in the account's unit
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,15}$")]
    amount: EcashAmount,
    /// The account, by its name or id; not needed when there is only one
    #[arg(long)]
    #[serde(default)]
    account: Option<String>,
}

impl SendAmount {
    pub(super) fn run(
        &self,
        at: RequestTarget<'_>,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        let account = at.executor.find_account(self.account.as_deref())?;
        at.executor.send(&account.id, self.amount.0, key)
    }
}

impl OfAccount for SendAmount {
    fn keep_to(&mut self, own: &EcashAccount, _: RequestTarget<'_>) -> Result<(), ApiError> {
        keep_name(&mut self.account, own)
    }
}

/// A token to be claimed.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimToken {
    /// The token
    #[arg(help = "The token; `-` reads it from standard input, `@FILE` from a file")]
    #[schema(max_length = 500_000)]
    pub(super) token: String,
    /// Into this account; by default into the one at the token's mint, which is made if need be
    #[arg(long, value_name = "ACCOUNT")]
    #[serde(default)]
    pub(super) to: Option<String>,
}

impl ClaimToken {
    pub(super) fn run(
        &self,
        at: RequestTarget<'_>,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        let token = read_token(&self.token)?;
        refuse_blocked(&token, at.blocklist)?;
        let account = match &self.to {
            Some(name) => at.executor.find_account(Some(name))?,
            None => at.executor.account_for(&token, at.blocklist, key)?,
        };
        at.executor.claim(&token, &account.id, key)
    }
}

impl OfAccount for ClaimToken {
    fn keep_to(&mut self, own: &EcashAccount, _: RequestTarget<'_>) -> Result<(), ApiError> {
        keep_name(&mut self.to, own)
    }
}

/// A token to be taken back.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReverseSend {
    /// Id of the send
    #[schema(max_length = 100)]
    id: String,
}

impl ReverseSend {
    pub(super) fn run(
        &self,
        at: RequestTarget<'_>,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        at.executor.reverse(&self.id, key)
    }
}

impl OfAccount for ReverseSend {
    fn keep_to(&mut self, own: &EcashAccount, at: RequestTarget<'_>) -> Result<(), ApiError> {
        Ok(own_payment(at.executor, Some(own), &self.id)?)
    }
}

/// A claim to be given up.
#[derive(Args, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelClaim {
    /// Id of the claim
    #[schema(max_length = 100)]
    id: String,
}

impl CancelClaim {
    /// The key isn't asked: giving up twice is giving up once.
    pub(super) fn run(
        &self,
        at: RequestTarget<'_>,
        _: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        at.executor.cancel(&self.id)
    }
}

impl OfAccount for CancelClaim {
    fn keep_to(&mut self, own: &EcashAccount, at: RequestTarget<'_>) -> Result<(), ApiError> {
        Ok(own_payment(at.executor, Some(own), &self.id)?)
    }
}

/// Another account's payment is as if it weren't there.
pub(super) fn own_payment(
    executor: &PaymentExecutor,
    own: Option<&EcashAccount>,
    id: &str,
) -> Result<(), EcashError> {
    let payment = executor.store.entity(id)?;
    if own.is_some_and(|own| own.id != payment.account_id) {
        return Err(EcashError::NotFound { what: "entity", name: id.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_whole_and_at_least_one() {
        assert_eq!("21".parse(), Ok(EcashAmount(21)));
        for wrong in ["", "0", "-1", "+1", "1.5", "1e3", " 1", "9007199254740992"] {
            assert!(wrong.parse::<EcashAmount>().is_err(), "{wrong}");
        }
        let read = |json: &str| serde_json::from_str::<EcashAmount>(json).ok();
        assert_eq!((read("21"), read("\"21\"")), (Some(EcashAmount(21)), Some(EcashAmount(21))));
        assert_eq!((read("1.0"), read("null"), read("0")), (None, None, None));
        let fee = |json: &str| serde_json::from_str::<FeeLimit>(json).ok();
        assert_eq!(
            (fee("0"), fee("\"7\""), fee("-1")),
            (Some(FeeLimit(0)), Some(FeeLimit(7)), None)
        );
    }

    #[test]
    fn requests_know_their_fields_alone() {
        assert!(serde_json::from_str::<SendAmount>(r#"{"amount":"5"}"#).is_ok());
        assert!(serde_json::from_str::<SendAmount>(r#"{"amount":"5","acount":"a"}"#).is_err());
        assert!(serde_json::from_str::<AddAccount>(r#"{"mint":"https://a.example"}"#).is_ok());
    }
}
