//! What people ask for. Each stores an intent and returns; the executor carries it out, now or
//! after the next start.

use cashu::{
    CurrencyUnit, MeltQuoteBolt11Request, MintQuoteBolt11Request, Token, mint_url::MintUrl,
    nut20::derive_quote_locking_key,
};
use unspent_ecash::{AccountKind, EcashAccount, EcashEntity, InputChoice, NewEntity, PaymentEvent};
use unspent_model::{
    Micros,
    ecash::{EntityEvent, EntityKind, EntityState},
};

use super::{
    EcashWorkError,
    book::KnownMint,
    executor::PaymentExecutor,
    invoices, now,
    repeat::{PlannedPayment, RequestedPayment},
};
use crate::mint::check::{
    CheckedMint, MintBlocklist, MintProblem, address, allowed, host_of, look, unit_of,
};

/// What tells a repeated request from a new one, so that asking twice does it once.
#[derive(Clone, Default, Debug)]
pub struct RequestKey {
    /// The caller's key.
    pub idempotency_key: Option<String>,
}

/// An invoice to be paid.
#[derive(Clone, Copy, Debug)]
pub struct InvoiceOrder<'a> {
    /// Whose money.
    pub account: &'a str,
    /// The invoice.
    pub invoice: &'a str,
    /// The most that may be paid in fees; `None` for what is usual ([`invoices`]).
    pub max_fee: Option<u64>,
}

/// What paying an invoice would cost, in the account's unit.
#[derive(Clone, Debug)]
pub struct PaymentPrice {
    /// Whose money.
    pub account: EcashAccount,
    /// What the receiver gets.
    pub amount: u64,
    /// What the payment may cost on top.
    pub fee_reserve: u64,
    /// What the mint takes for the inputs.
    pub input_fee: u64,
    /// A larger reserve is refused.
    pub max_fee: u64,
}

impl PaymentPrice {
    /// The most that can leave the account.
    pub fn most(&self) -> u64 {
        // Shown, not booked: proofs of that sum were found.
        self.amount.saturating_add(self.fee_reserve).saturating_add(self.input_fee)
    }
}

/// What a mint asks for paying an invoice.
pub(super) struct MeltQuote {
    pub(super) id: String,
    /// What the receiver gets.
    pub(super) amount: u64,
    pub(super) fee_reserve: u64,
    /// `None` for never.
    pub(super) expires_at: Option<Micros>,
}

/// Reads a token as people pass it on.
///
/// # Errors
///
/// [`EcashWorkError::Wrong`]; nothing of the text is repeated, since it may be money.
pub fn read_token(text: &str) -> Result<Token, EcashWorkError> {
    let text = text.trim();
    let text = ["web+cashu://", "cashu://", "cashu:"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme))
        .unwrap_or(text);
    text.parse().map_err(|_| EcashWorkError::Wrong("this is no token".into()))
}

/// Refuses a token of a mint that the operator doesn't want, wherever its money is to go.
///
/// # Errors
///
/// [`EcashWorkError::Unfit`]; nobody was asked.
pub fn refuse_blocked(token: &Token, blocklist: &MintBlocklist) -> Result<(), EcashWorkError> {
    let url = mint_of_token(token)?;
    let unit = token.unit().unwrap_or(CurrencyUnit::Sat);
    if blocklist.blocks(&url, &unit) {
        return Err(EcashWorkError::Unfit(vec![MintProblem::Blocked(url)]));
    }
    Ok(())
}

fn mint_of_token(token: &Token) -> Result<MintUrl, EcashWorkError> {
    let several = |_| EcashWorkError::Wrong("the token is of several mints".into());
    let url = token.mint_url().map_err(several)?.to_string();
    address(&url).map_err(|problem| EcashWorkError::Unfit(vec![problem]))
}

impl PaymentExecutor {
    /// An account by its name or id; without one, the only one there is.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError::Wrong`] when there is none, or more than one.
    pub fn find_account(&self, name: Option<&str>) -> Result<EcashAccount, EcashWorkError> {
        let mut accounts = self.store.accounts()?;
        if let Some(name) = name {
            accounts.retain(|account| account.id == name || account.name == name);
        }
        let wrong = |what: String| Err(EcashWorkError::Wrong(what));
        match (accounts.len(), accounts.pop(), name) {
            (1, Some(account), _) => Ok(account),
            (0, _, Some(name)) => wrong(format!("there is no account `{name}`")),
            (0, _, None) => wrong("there is no account yet; add one at a mint".into()),
            (_, _, Some(name)) => {
                wrong(format!("several accounts are called `{name}`; give an id"))
            }
            (_, _, None) => wrong("there are several accounts; say which".into()),
        }
    }

    /// The account at a token's own mint; one is made where there is none, once the mint is found
    /// fit.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`]; a mint that isn't fit leaves no account behind, nor does a key that was
    /// used for another request.
    pub fn account_for(
        &self,
        token: &Token,
        blocklist: &MintBlocklist,
        key: &RequestKey,
    ) -> Result<EcashAccount, EcashWorkError> {
        let url = mint_of_token(token)?;
        let unit = token.unit().unwrap_or(CurrencyUnit::Sat).to_string();
        let known = self
            .store
            .accounts()?
            .into_iter()
            .find(|account| account.mint_url.as_ref() == Some(&url) && account.unit == unit);
        match known {
            Some(account) => Ok(account),
            None => {
                // Before a mint is called and an account kept: a key of another request is to do
                // neither.
                self.begun(key, RequestedPayment::Claim { account: None, token })?;
                let url = url.to_string();
                self.add_account(&url, &unit, host_of(&url), blocklist)
            }
        }
    }

    /// Adds an account at a mint, once the mint is found fit.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError::Unfit`] with everything that the mint lacks; no account is kept then.
    pub fn add_account(
        &self,
        mint: &str,
        unit: &str,
        name: &str,
        blocklist: &MintBlocklist,
    ) -> Result<EcashAccount, EcashWorkError> {
        let currency = unit_of(unit);
        let (fit, known) = self.meet(mint, &currency, blocklist)?;
        let account = EcashAccount {
            id: new_id()?,
            kind: AccountKind::Cashu,
            name: name.to_owned(),
            mint_url: Some(fit.url),
            unit: currency.to_string(),
            version: 0,
        };
        Ok(self.store.add_account_with(account, known.infos(), now())?)
    }

    /// Everything that has to be known of a mint that an account is to be at, within one deadline.
    pub(super) fn meet(
        &self,
        mint: &str,
        unit: &CurrencyUnit,
        blocklist: &MintBlocklist,
    ) -> Result<(CheckedMint, KnownMint), EcashWorkError> {
        let url = allowed(mint, unit, blocklist).map_err(EcashWorkError::Unfit)?;
        let _place = self.place(&url)?;
        let client = self.backends.mints.client(&url);
        let visit = client.visit();
        let fit = look(&visit, unit).map_err(EcashWorkError::Unfit)?;
        let failed = |reason| EcashWorkError::Mint { mint: url.to_string(), reason };
        let keysets = fit.keysets.keysets.clone();
        let known = self.backends.mints.meet(&visit, keysets, unit).map_err(failed)?;
        Ok((fit, known))
    }

    fn mint_of(&self, account: &EcashAccount) -> Result<(MintUrl, KnownMint), EcashWorkError> {
        let none = || EcashWorkError::Wrong(format!("the account {} has no mint", account.name));
        let url = account.mint_url.clone().ok_or_else(none)?;
        let known = self.known(&url, account)?;
        Ok((url, known))
    }

    /// Makes a token worth `amount` to whoever claims it.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`].
    pub fn send(
        &self,
        account: &str,
        amount: u64,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        let name = account;
        let made = self.once(key, RequestedPayment::Send { account, amount }, || {
            let account = self.store.account(account)?;
            let keyset = self.mint_of(&account)?.1.keys.active.clone();
            let new = NewEntity::SendSwap { amount, inputs: InputChoice::Select, keyset };
            Ok(PlannedPayment { new, account, expires_at: None })
        });
        made.map_err(|error| self.told_short(name, error))
    }

    /// The token of a send, once it is made and while nobody has claimed it; what is left of one
    /// of which others have claimed a part.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError::Wrong`] when there is none.
    pub fn token(&self, id: &str) -> Result<Token, EcashWorkError> {
        let open = self.store.open_entity(id)?;
        let is_made = (open.entity.kind, open.entity.state)
            == (EntityKind::CashuSendSwap, EntityState::Pending);
        if !is_made || open.held.is_empty() {
            let state = open.entity.state;
            return Err(EcashWorkError::Wrong(format!("there is no token: {id} is {state}")));
        }
        let account = self.store.account(&open.entity.account_id)?;
        let (url, _) = self.mint_of(&account)?;
        Ok(Token::new(url, open.held, None, unit_of(&account.unit)))
    }

    /// Takes a token back that nobody has claimed yet.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`].
    pub fn reverse(
        &self,
        send_swap: &str,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        self.once(key, RequestedPayment::Reverse { send: send_swap }, || {
            let swap = self.store.entity(send_swap)?;
            let account = self.store.account(&swap.account_id)?;
            let keyset = self.mint_of(&account)?.1.keys.active.clone();
            let new = NewEntity::Reversal { send_swap: send_swap.to_owned(), keyset };
            Ok(PlannedPayment { new, account, expires_at: None })
        })
    }

    /// Gives up the claim of a token at its own mint: it ends once the mint says that its proofs
    /// are unspent and our outputs unsigned. The token can be claimed again.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`]; nothing was changed.
    pub fn cancel(&self, claim: &str) -> Result<EcashEntity, EcashWorkError> {
        if self.store.entity(claim)?.kind != EntityKind::CashuReceiveSwap {
            let what = "only the claim of a token at its own mint can be given up";
            return Err(EcashWorkError::Wrong(what.into()));
        }
        Ok(self.store.apply(claim, PaymentEvent::new(EntityEvent::Cancel), now())?.entity)
    }

    /// Claims a token into an account: by a swap at its own mint, else by having its mint pay an
    /// invoice of the account's mint or of the Spark wallet.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`].
    pub fn claim(
        &self,
        token: &Token,
        account: &str,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        let wanted = RequestedPayment::Claim { account: Some(account), token };
        self.once(key, wanted, || self.plan_claim(token, self.store.account(account)?))
    }

    fn plan_claim(
        &self,
        token: &Token,
        account: EcashAccount,
    ) -> Result<PlannedPayment, EcashWorkError> {
        let wrong = |what: &str| EcashWorkError::Wrong(what.to_owned());
        let url = mint_of_token(token)?;
        let unit = token.unit().unwrap_or(CurrencyUnit::Sat);
        if unit != unit_of(&account.unit) {
            return Err(wrong("the token is in another unit than the account"));
        }
        let (mut source, is_new) = self.at(&url, &unit)?;
        let mut proofs = token.proofs(&source.keysets);
        if proofs.is_err() && !is_new {
            // What was read before may be older than the token, or have been wrong.
            self.backends.mints.forget(&url);
            source = self.at(&url, &unit)?.0;
            proofs = token.proofs(&source.keysets);
        }
        let proofs = proofs.map_err(|_| wrong("the token is of keysets that its mint lacks"))?;
        if account.mint_url.as_ref() == Some(&url) {
            let keyset = self.mint_of(&account)?.1.keys.active.clone();
            let new = NewEntity::ReceiveSwap { proofs, keyset };
            return Ok(PlannedPayment { new, account, expires_at: None });
        }
        self.claim_across(&source, proofs, account)
    }

    /// An invoice whose payment the account's mint issues.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`].
    pub fn receive(
        &self,
        account: &str,
        amount: u64,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        self.once(key, RequestedPayment::Receive { account, amount }, || {
            let account = self.store.account(account)?;
            let (new, expires_at) = self.invoice(&account, amount)?;
            Ok(PlannedPayment { new, account, expires_at })
        })
    }

    /// A quote for minting, locked to a key of ours, as an entity that isn't stored yet.
    pub(super) fn invoice(
        &self,
        account: &EcashAccount,
        amount: u64,
    ) -> Result<(NewEntity, Option<Micros>), EcashWorkError> {
        let (url, _) = self.mint_of(account)?;
        let lock_index = random_index()?;
        let key = derive_quote_locking_key(self.store.seed(), lock_index)
            .map_err(|_| EcashWorkError::Wrong("a key can't be derived".into()))?;
        let request = MintQuoteBolt11Request {
            amount: amount.into(),
            unit: unit_of(&account.unit),
            description: None,
            pubkey: Some(key.public_key()),
        };
        let failed = |reason| EcashWorkError::Mint { mint: url.to_string(), reason };
        let place = self.place(&url)?;
        let quote = self.backends.mints.client(&url).mint_quote(&request).map_err(failed)?;
        drop(place);
        // Without the lock whoever learns the quote's id can have our money issued (NUT-20).
        if quote.pubkey != Some(key.public_key()) {
            return Err(EcashWorkError::Wrong("the mint didn't lock the quote to our key".into()));
        }
        let unit = unit_of(&account.unit);
        let is_another = quote.amount.is_some_and(|said| u64::from(said) != amount)
            || quote.unit.as_ref().is_some_and(|said| *said != unit);
        if is_another {
            return Err(EcashWorkError::Wrong("the mint's quote is over something else".into()));
        }
        invoices::refuse_other_amount(&quote.request, amount, &unit)?;
        // A mint that sets no end writes 0, or nothing.
        let expires_at = quote.expiry.filter(|expiry| *expiry > 0).map(Micros::of_seconds);
        let (quote_id, invoice) = (quote.quote, quote.request);
        let new = NewEntity::ReceiveQuote { quote_id, invoice, amount, lock_index, source: None };
        Ok((new, expires_at))
    }

    /// Pays an invoice out of an account, within the fees that are usual.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`].
    pub fn pay(
        &self,
        account: &str,
        invoice: &str,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        self.pay_within(InvoiceOrder { account, invoice, max_fee: None }, key)
    }

    /// Pays an invoice out of an account.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`]; for fees beyond the limit nothing was reserved.
    pub fn pay_within(
        &self,
        order: InvoiceOrder<'_>,
        key: &RequestKey,
    ) -> Result<EcashEntity, EcashWorkError> {
        let InvoiceOrder { account, invoice, max_fee } = order;
        let name = account;
        let made = self.once(key, RequestedPayment::Pay { account, invoice }, || {
            let account = self.store.account(account)?;
            let (url, known) = self.mint_of(&account)?;
            let unit = unit_of(&account.unit);
            let quote = self.melt_quote(&url, invoice, &unit)?;
            invoices::refuse_dear(quote.fee_reserve, max_fee, quote.amount, &unit)?;
            let new = NewEntity::SendQuote {
                quote_id: quote.id,
                invoice: invoice.to_owned(),
                amount: quote.amount,
                fee_reserve: quote.fee_reserve,
                inputs: InputChoice::Select,
                keyset: known.keys.active.clone(),
            };
            Ok(PlannedPayment { new, account, expires_at: quote.expires_at })
        });
        made.map_err(|error| self.told_short(name, error))
    }

    /// What paying an invoice would cost. Nothing is stored and nothing reserved.
    ///
    /// # Errors
    ///
    /// [`EcashWorkError`], also when the money doesn't suffice.
    pub fn price(&self, order: InvoiceOrder<'_>) -> Result<PaymentPrice, EcashWorkError> {
        let account = self.store.account(order.account)?;
        let (url, _) = self.mint_of(&account)?;
        let unit = unit_of(&account.unit);
        let quote = self.melt_quote(&url, order.invoice, &unit)?;
        let (amount, fee_reserve) = (quote.amount, quote.fee_reserve);
        let input_fee = self.store.melt_fee(&account.id, amount, fee_reserve)?;
        let max_fee = invoices::fee_limit(order.max_fee, amount, &unit);
        Ok(PaymentPrice { account, amount, fee_reserve, input_fee, max_fee })
    }

    pub(super) fn melt_quote(
        &self,
        mint: &MintUrl,
        invoice: &str,
        unit: &CurrencyUnit,
    ) -> Result<MeltQuote, EcashWorkError> {
        let parsed = invoices::read(invoice)?;
        let request = parsed.clone();
        let request = MeltQuoteBolt11Request { request, unit: unit.clone(), options: None };
        let failed = |reason| EcashWorkError::Mint { mint: mint.to_string(), reason };
        let place = self.place(mint)?;
        let quote = self.backends.mints.client(mint).melt_quote(&request).map_err(failed)?;
        let is_other = |said: &String| !said.trim().eq_ignore_ascii_case(invoice.trim());
        if quote.request.as_ref().is_some_and(is_other)
            || quote.unit.as_ref().is_some_and(|said| said != unit)
        {
            return Err(EcashWorkError::Wrong("the mint's quote is for something else".into()));
        }
        invoices::refuse_other_price(&parsed, quote.amount.into(), unit)?;
        drop(place);
        Ok(MeltQuote {
            id: quote.quote,
            amount: u64::from(quote.amount),
            fee_reserve: u64::from(quote.fee_reserve),
            expires_at: (quote.expiry > 0).then(|| Micros::of_seconds(quote.expiry)),
        })
    }
}

/// A name that nobody can guess.
pub(super) fn new_id() -> Result<String, EcashWorkError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| unspent_ecash::EcashError::NoRandomness)?;
    Ok(hex::encode(bytes))
}

/// A key's place in its line, so that mints can't tell that two quotes are of one wallet.
fn random_index() -> Result<u32, EcashWorkError> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|_| unspent_ecash::EcashError::NoRandomness)?;
    // Places from 2^31 on are of another kind.
    Ok(u32::from_be_bytes(bytes) >> 1)
}
