//! Which proofs a new payment takes. The rules are `model`'s; here they meet the rows.

use std::collections::BTreeMap;

use cashu::Proofs;
use unspent_model::ecash::{
    NotEnough, ProofOffer, blank_outputs, input_fee, select_proofs, split_amount, with_receive_fee,
};
use unspent_sql::{Arg, Tx};

use crate::{
    create::OutputKeyset,
    details::SendSwapDetails,
    error::EcashError,
    event::{ProofName, RangeAsk},
    proofs::{self, ProofCandidate},
    store::{EcashStore, read_keyset},
};

/// Where the proofs of a payment come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputChoice {
    /// The store chooses among all free ones.
    Select,
    /// Exactly these; all must be free.
    These(Vec<ProofName>),
}

/// Free proofs to choose from: a few of each amount first, the largest if these don't do.
pub(crate) struct ProofPool {
    few: Vec<ProofCandidate>,
    many: Vec<ProofCandidate>,
    is_given: bool,
}

const FEES: &str = "SELECT keyset_id, is_active, fee_ppk FROM account_keysets
    WHERE account_id = $1";

/// What spending a proof of each of these keysets costs, in thousandths.
pub(crate) fn fees_of(
    tx: &mut Tx<'_>,
    account: &str,
    keysets: &[String],
) -> Result<Vec<u64>, EcashError> {
    let known = all_fees(tx, account)?;
    let fee = |id: &String| {
        let missing = || EcashError::NotFound { what: "keyset", name: id.clone() };
        known.get(id).copied().ok_or_else(missing)
    };
    keysets.iter().map(fee).collect()
}

/// The same of each keyset that an account knows.
pub(crate) fn all_fees(
    tx: &mut Tx<'_>,
    account: &str,
) -> Result<BTreeMap<String, u64>, EcashError> {
    let rows = tx.query(FEES, &[Arg::Text(account)])?;
    let fee = |row| Ok(read_keyset(row).map(|keyset| (keyset.keyset_id, keyset.fee_ppk))?);
    rows.iter().map(fee).collect()
}

impl ProofPool {
    /// For a payment of `amount`, fees apart.
    pub(crate) fn of(
        tx: &mut Tx<'_>,
        account: &str,
        inputs: &InputChoice,
        amount: u64,
    ) -> Result<Self, EcashError> {
        match inputs {
            InputChoice::Select => {
                let few = proofs::of_each_amount(tx, account)?;
                // Two queries only where one doesn't do: sixteen of each amount pay for nearly
                // everything.
                let many = match ChosenProofs::some(&few, amount) {
                    Ok(_) => Vec::new(),
                    Err(_) => proofs::largest(tx, account)?,
                };
                Ok(Self { few, many, is_given: false })
            }
            InputChoice::These(names) if names.is_empty() => {
                Err(EcashError::argument("no proofs are given"))
            }
            InputChoice::These(names) => {
                let few = proofs::named(tx, account, names)?;
                // The database may hold no more than was asked for.
                let taken = names.len().saturating_sub(few.len());
                if taken > 0 {
                    return Err(EcashError::ProofsTaken { taken });
                }
                Ok(Self { few, many: Vec::new(), is_given: true })
            }
        }
    }

    /// Proofs that pay `amount` and their own fee.
    fn choose(&self, amount: u64) -> Result<ChosenProofs, NotEnough> {
        if self.is_given {
            return ChosenProofs::all(&self.few, amount);
        }
        match ChosenProofs::some(&self.few, amount) {
            Err(_) if !self.many.is_empty() => ChosenProofs::some(&self.many, amount),
            chosen => chosen,
        }
    }
}

impl EcashStore {
    /// What the mint would take for the inputs of a payment of `amount` with a reserve for its fee.
    /// Nothing is reserved: by the time of the payment others may have taken some of them.
    ///
    /// # Errors
    ///
    /// [`EcashError::NotEnough`], or whatever the database says.
    pub fn melt_fee(
        &self,
        account: &str,
        amount: u64,
        fee_reserve: u64,
    ) -> Result<u64, EcashError> {
        let account = account.to_owned();
        self.door.read(move |tx| {
            let needed = sum([amount, fee_reserve])?;
            let pool = ProofPool::of(tx, &account, &InputChoice::Select, needed)?;
            Ok(choose_for_melt(&pool, amount, fee_reserve)?.input_fee)
        })
    }
}

struct ChosenProofs {
    names: Vec<ProofName>,
    sum: u64,
    fee: u64,
}

impl ChosenProofs {
    fn some(from: &[ProofCandidate], amount: u64) -> Result<Self, NotEnough> {
        let offers: Vec<ProofOffer> = from.iter().map(|candidate| candidate.offer).collect();
        let places = select_proofs(&offers, amount)?;
        Ok(Self::of(places.iter().filter_map(|at| from.get(*at))))
    }

    fn all(from: &[ProofCandidate], amount: u64) -> Result<Self, NotEnough> {
        let chosen = Self::of(from.iter());
        let (available, needed) = (chosen.sum.into(), u128::from(amount) + u128::from(chosen.fee));
        if available < needed { Err(NotEnough { available, needed }) } else { Ok(chosen) }
    }

    fn of<'c>(candidates: impl Iterator<Item = &'c ProofCandidate>) -> Self {
        let chosen: Vec<&ProofCandidate> = candidates.collect();
        Self {
            names: chosen.iter().map(|candidate| candidate.y).collect(),
            sum: chosen.iter().map(|candidate| candidate.offer.amount).sum(),
            fee: input_fee(chosen.iter().map(|candidate| candidate.offer.fee_ppk)),
        }
    }
}

pub(crate) struct MeltChoice {
    pub(crate) names: Vec<ProofName>,
    pub(crate) sum: u64,
    pub(crate) input_fee: u64,
    /// Blank outputs that take any change.
    pub(crate) blanks: u32,
}

pub(crate) fn choose_for_melt(
    pool: &ProofPool,
    amount: u64,
    fee_reserve: u64,
) -> Result<MeltChoice, EcashError> {
    if amount == 0 {
        return Err(EcashError::argument("there is nothing to pay"));
    }
    let chosen = pool.choose(sum([amount, fee_reserve])?)?;
    // A choice pays the reserve too, so that this is never below zero.
    let left = chosen.sum - amount - chosen.fee;
    let blanks = blank_outputs(left);
    Ok(MeltChoice { names: chosen.names, sum: chosen.sum, input_fee: chosen.fee, blanks })
}

/// What proofs are worth together. They may be a stranger's, who writes any amount.
pub(crate) fn value(proofs: &Proofs) -> Result<u64, EcashError> {
    sum(proofs.iter().map(|proof| proof.amount.to_u64()))
}

pub(crate) fn sum(amounts: impl IntoIterator<Item = u64>) -> Result<u64, EcashError> {
    let all = amounts.into_iter().try_fold(0, u64::checked_add);
    all.ok_or_else(|| EcashError::argument("the amount is beyond 2^64"))
}

/// What a token of `amount` is worth when it has to be made by a swap.
pub(crate) fn token_value(amount: u64, keyset: &OutputKeyset) -> Result<u64, EcashError> {
    let bad = || EcashError::argument("the keyset can't make the sum");
    with_receive_fee(amount, keyset.fee_ppk, &keyset.amounts).ok_or_else(bad)
}

/// Proofs of a token: handed over as they are if the sum fits, else swapped first.
pub(crate) fn choose_for_token(
    pool: &ProofPool,
    amount: u64,
    keyset: &OutputKeyset,
) -> Result<(SendSwapDetails, Option<RangeAsk>, Vec<ProofName>), EcashError> {
    if amount == 0 {
        return Err(EcashError::argument("there is nothing to send"));
    }
    // The receiver pays for swapping exactly these, so that a sum with their fee fits.
    let as_they_are = pool.choose(amount)?;
    if as_they_are.sum == amount + as_they_are.fee {
        let ChosenProofs { names, sum, fee } = as_they_are;
        return Ok((plain(amount, fee, sum), None, names));
    }
    let bad = || EcashError::argument("the keyset can't make the sum");
    let to_send = token_value(amount, keyset)?;
    let chosen = pool.choose(to_send)?;
    let change = chosen.sum - to_send - chosen.fee;
    let mut amounts = split_amount(to_send, &keyset.amounts).ok_or_else(bad)?;
    let send_count = amounts.len();
    amounts.extend(split_amount(change, &keyset.amounts).ok_or_else(bad)?);
    let swap = SendSwapDetails {
        receive_fee: to_send - amount,
        to_send,
        send_fee: chosen.fee,
        input_amount: chosen.sum,
        send_count,
        ..plain(amount, 0, 0)
    };
    let ask = RangeAsk { keyset_id: keyset.keyset_id.clone(), amounts, send_count };
    Ok((swap, Some(ask), chosen.names))
}

fn plain(amount: u64, receive_fee: u64, sum: u64) -> SendSwapDetails {
    SendSwapDetails {
        amount,
        receive_fee,
        to_send: sum,
        send_fee: 0,
        input_amount: sum,
        range: None,
        send_count: 0,
        token_hash: None,
        claimed: 0,
    }
}
