//! Weighing a payment, choosing its coins and putting it together.

use bitcoin::{
    Amount, Psbt, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Weight, Witness,
    absolute::LockTime, transaction::Version,
};
use unspent_model::{
    Micros, TxId,
    wallet::select::{ChangePolicy, FeePerWeight, FeeRule, OVERHEAD_WEIGHT, PaidAmount},
};
use unspent_sql::{Arg, Tx};

use super::{
    Payment, UnsignedPayment,
    change::{ChangeScript, PayingAccount, paying_account},
    check_fee, check_outputs,
    explain::explain,
    finish::sum,
    output_weight,
    package::ChildPackage,
};
use crate::{
    choose::{ChosenCoins, CoinChoice, CoinPolicy, SelectionTarget},
    error::WalletError,
    ids::model_txid,
    lease::LeaseTerms,
    wallet_row::WalletRow,
};

/// A payment whose account and change are settled, before its coins are.
pub(super) struct PaymentDraft {
    pub(super) outputs: Vec<(ScriptBuf, u64)>,
    /// Gets what the coins hold beyond the outputs before it and the fee.
    pub(super) rest_to: Option<ScriptBuf>,
    pub(super) account: PayingAccount,
    pub(super) change: ChangeScript,
    pub(super) rate: FeePerWeight,
    pub(super) fee: FeeRule,
    pub(super) subtract_fee: bool,
    pub(super) allow_high_fee: bool,
    pub(super) policy: CoinPolicy,
    pub(super) replaces: Option<TxId>,
    pub(super) package: Option<ChildPackage>,
    pub(super) terms: LeaseTerms,
}

/// Checks a payment and settles its account and change.
pub(super) fn draft(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    payment: &Payment,
) -> Result<PaymentDraft, WalletError> {
    let refuse = |why: &str| Err(WalletError::Payment(why.into()));
    if payment.outputs.is_empty() && payment.rest_to.is_none() {
        return refuse("it has no outputs");
    }
    if payment.subtract_fee && payment.rest_to.is_some() {
        return refuse("the output that gets everything left already pays the fee");
    }
    if payment.fee == Some(0) {
        return refuse("a fee of 0 is refused: no node would relay the transaction");
    }
    check_outputs(&payment.outputs)?;
    let mut policy = payment.policy.clone();
    let named = policy.account.as_deref();
    let account = paying_account(tx, wallet, named, &policy.require)?;
    policy.account = Some(account.name.clone());
    policy.imported = false;
    Ok(PaymentDraft {
        outputs: payment.outputs.clone(),
        rest_to: payment.rest_to.clone(),
        change: ChangeScript::next(tx, wallet, &account, policy.seed)?,
        account,
        rate: payment.rate,
        fee: payment.fee.map_or(FeeRule::ByRate, FeeRule::Exactly),
        subtract_fee: payment.subtract_fee,
        allow_high_fee: payment.allow_high_fee,
        policy,
        replaces: None,
        package: None,
        terms: payment.terms,
    })
}

impl PaymentDraft {
    fn wanted(&self) -> SelectionTarget {
        let scripts = || self.outputs.iter().map(|(script, _)| script).chain(&self.rest_to);
        let outputs: u64 = scripts().map(output_weight).sum();
        let count = if scripts().count() < 252 { 4 } else { 12 };
        let fixed: u64 = self.outputs.iter().map(|(_, sats)| sats).sum();
        let pays = match (&self.rest_to, self.subtract_fee) {
            (Some(_), _) => PaidAmount::All,
            (None, true) => PaidAmount::LessFee,
            (None, false) => PaidAmount::Target,
        };
        let least = self.rest_to.as_ref().map_or(0, |to| to.minimal_non_dust().to_sat());
        let change = ChangePolicy {
            weight: output_weight(&self.change.script),
            spend_weight: self.change.spend_weight,
            min: self.change.script.minimal_non_dust().to_sat(),
        };
        SelectionTarget {
            fee: self.fee,
            pays,
            needs_change: self.outputs.is_empty() && self.rest_to.is_none(),
            allow_high_fee: self.allow_high_fee,
            ..SelectionTarget::new(
                fixed + least,
                OVERHEAD_WEIGHT + count + outputs,
                self.rate,
                change,
            )
        }
    }

    fn choosing<'a>(&'a self, wallet: &'a WalletRow, now: Micros) -> CoinChoice<'a> {
        let (policy, replaces) = (&self.policy, self.replaces);
        CoinChoice { wallet, wanted: self.wanted(), policy, replaces, now }
    }

    /// What each output gets: its value, less its part of the fee, or what is left.
    fn values(&self, chosen: &ChosenCoins) -> Result<Vec<(ScriptBuf, u64)>, WalletError> {
        let mut outputs = self.outputs.clone();
        let fixed = sum(outputs.iter().map(|(_, sats)| *sats))?;
        let paid = chosen.selection.paid;
        let other = || WalletError::Bug("the chosen coins don't cover the payment");
        if let Some(rest_to) = &self.rest_to {
            outputs.push((rest_to.clone(), paid.checked_sub(fixed).ok_or_else(other)?));
        } else if self.subtract_fee {
            let part = fixed.checked_sub(paid).ok_or_else(other)?;
            let bearers = outputs.iter().filter(|(_, sats)| *sats > 0).count() as u64;
            let each = part.checked_div(bearers).unwrap_or(0);
            let mut odd = part.checked_rem(bearers).unwrap_or(0);
            for (_, sats) in outputs.iter_mut().filter(|(_, sats)| *sats > 0) {
                let share = each + std::mem::take(&mut odd);
                let less = || {
                    let why =
                        format!("an output of {sats} sats can't pay its {share} sats of the fee");
                    WalletError::Payment(why)
                };
                *sats = sats.checked_sub(share).ok_or_else(less)?;
            }
        }
        check_outputs(&outputs)?;
        Ok(outputs)
    }

    fn assemble(
        &self,
        wallet: &WalletRow,
        chosen: &ChosenCoins,
    ) -> Result<AssembledTx, WalletError> {
        let mut inputs: Vec<_> =
            chosen.coins.iter().map(|coin| (coin.outpoint, coin.time_lock.older)).collect();
        inputs.sort_unstable();
        let input = inputs.into_iter().map(|(previous_output, older)| TxIn {
            previous_output,
            script_sig: ScriptBuf::new(),
            // Blocks that its descriptor asks for; either way it may be replaced.
            sequence: older.map_or(Sequence::ENABLE_RBF_NO_LOCKTIME, Sequence::from_height),
            witness: Witness::new(),
        });
        let made = |(script_pubkey, sats)| TxOut { value: Amount::from_sat(sats), script_pubkey };
        let mut output: Vec<TxOut> = self.values(chosen)?.into_iter().map(made).collect();
        let change = chosen.selection.change.map(|sats| {
            // Change at a place that tells nothing.
            let places = output.len() as u64 + 1;
            let place = usize::try_from(self.policy.seed % places).unwrap_or(0);
            output.insert(place, made((self.change.script.clone(), sats)));
            place
        });
        // As Core does: valid only above the tip, it gives miners nothing to win by mining the last
        // block anew. Coins with `after` were chosen only if the tip has reached that.
        let height = wallet.tip().and_then(|tip| u32::try_from(tip).ok());
        let lock_time = height.and_then(|height| LockTime::from_height(height).ok());
        let tx = Transaction {
            version: Version::TWO,
            lock_time: lock_time.unwrap_or(LockTime::ZERO),
            input: input.collect(),
            output,
        };
        Ok(AssembledTx { tx, change })
    }
}

struct AssembledTx {
    tx: Transaction,
    change: Option<usize>,
}

/// Chooses coins, leases them and builds the PSBT. The caller saves the wallet's row.
pub(super) fn build(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    draft: &PaymentDraft,
    now: Micros,
) -> Result<UnsignedPayment, WalletError> {
    let chosen = draft.choosing(wallet, now).lease(tx, &draft.terms)?;
    if chosen.selection.change.is_some() {
        draft.change.take(tx, wallet)?;
    }
    finished(tx, wallet, draft, chosen, now)
}

/// The same, with nothing leased and nothing used up.
pub(super) fn preview(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    draft: &PaymentDraft,
    now: Micros,
) -> Result<UnsignedPayment, WalletError> {
    let chosen = draft.choosing(wallet, now).choose(tx, Some(draft.terms.lock))?;
    finished(tx, wallet, draft, chosen, now)
}

const IS_KNOWN: &str = "SELECT id FROM transactions WHERE tx_hash = $2 AND wallet_id = $1";
/// How often another lock time is tried.
const RENAMES: u32 = 100;

/// A payment that was taken back and is made once more must not have the name of the dead one: its
/// lock time goes back a block for each of them.
fn rename(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    chosen: &ChosenCoins,
    unsigned: &mut Transaction,
) -> Result<(), WalletError> {
    let least = chosen.coins.iter().filter_map(|coin| coin.time_lock.after).max().unwrap_or(0);
    for _ in 0..RENAMES {
        let name = model_txid(unsigned.compute_txid());
        let height = unsigned.lock_time.to_consensus_u32();
        let is_known = tx.maybe(IS_KNOWN, &[Arg::Int(wallet.id.0), Arg::Blob(&name.0)])?.is_some();
        if !is_known || height <= least {
            break;
        }
        unsigned.lock_time = LockTime::from_height(height - 1).unwrap_or(LockTime::ZERO);
    }
    Ok(())
}

fn finished(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    draft: &PaymentDraft,
    chosen: ChosenCoins,
    now: Micros,
) -> Result<UnsignedPayment, WalletError> {
    let weight = Weight::from_wu(chosen.selection.weight);
    check_fee(chosen.selection.fee, weight, draft.allow_high_fee)?;
    let AssembledTx { tx: mut unsigned, change } = draft.assemble(wallet, &chosen)?;
    rename(tx, wallet, &chosen, &mut unsigned)?;
    let mut psbt = Psbt::from_unsigned_tx(unsigned)
        .map_err(|error| WalletError::Payment(error.to_string()))?;
    explain(tx, wallet, &mut psbt)?;
    Ok(UnsignedPayment {
        psbt,
        chosen,
        change_output: change,
        package: draft.package.clone(),
        account: draft.account.name.clone(),
        held_until: draft.terms.expires_at(now)?,
    })
}
