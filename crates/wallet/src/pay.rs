//! From amounts and addresses to an unsigned PSBT, and back as a pending transaction.
//!
//! Keys are elsewhere: between building and recording a payment minutes or days may pass while it
//! is signed, and meanwhile its coins must be nobody else's. So building a payment ([BIP 174])
//! leases its coins, and recording the signed transaction turns those leases into spends; if it
//! never comes back, the leases run out. A fee bump builds a payment that spends the same coins and
//! pays more, by the rules of [BIP 125].
//!
//! [BIP 125]: https://github.com/bitcoin/bips/blob/master/bip-0125.mediawiki
//! [BIP 174]: https://github.com/bitcoin/bips/blob/master/bip-0174.mediawiki

use std::collections::HashSet;

use bitcoin::{
    Amount, OutPoint, Psbt, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness,
    absolute::LockTime, consensus::encode, secp256k1::Secp256k1, transaction::Version,
};
use miniscript::psbt::PsbtExt as _;
use unspent_model::{
    TxId,
    wallet::{
        Status,
        amount::MAX_MONEY,
        select::{ChangePolicy, OVERHEAD_WEIGHT, Rate},
    },
};
use unspent_sql::{Arg, Row, Tx};

use crate::{
    choose::{Choosing, Chosen, CoinPolicy, Wanted},
    descriptor::Keychain,
    error::WalletError,
    keychains::reveal,
    lease::LeaseTerms,
    record::{Batch, Observed, Recorded, TxSource},
    room::{Room, WalletId, WalletRow, bitcoin_txid, model_txid},
    rows::status,
    wallets::{AddressInfo, Purpose},
};

/// What a replacement must pay beyond what it replaces: 1 sat per virtual byte, as nodes have long
/// asked for (Core's `DEFAULT_INCREMENTAL_RELAY_FEE`); newer ones ask for less.
const INCREMENTAL: Rate = Rate { sat_per_kwu: 250 };

/// A payment to build.
#[derive(Clone, Debug)]
pub struct Payment {
    /// Scripts and satoshis to pay.
    pub outputs: Vec<(ScriptBuf, u64)>,
    /// What a unit of weight shall pay.
    pub rate: Rate,
    /// Which coins may be used.
    pub policy: CoinPolicy,
    /// Account whose change chain is used; the first one when not named.
    pub change_account: Option<String>,
    /// The lease on the coins.
    pub terms: LeaseTerms,
}

/// A replacement to build for a transaction that pays too little.
#[derive(Clone, Debug)]
pub struct FeeBump {
    /// The transaction to replace.
    pub tx: Txid,
    /// The fee rate of the replacement.
    pub rate: Rate,
    /// Which further coins may be used.
    pub policy: CoinPolicy,
    /// The lease on the coins.
    pub terms: LeaseTerms,
}

/// A payment that waits for signatures.
#[derive(Clone, Debug)]
pub struct Unsigned {
    /// To be signed.
    pub psbt: Psbt,
    /// The coins and the reason.
    pub chosen: Chosen,
    /// Which output is change.
    pub change_output: Option<usize>,
    /// Until when the coins are held, in microseconds.
    pub held_until: i64,
}

const KEYCHAIN_WEIGHT: &str = "SELECT k.input_weight FROM addresses d
    JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    WHERE d.wallet_id = $1 AND d.id = $2";
const COIN_SOURCE: &str = "SELECT t.raw_tx, k.purpose, k.descriptor, d.address_index
    FROM transactions t
    JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $3
    JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
    JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    WHERE t.wallet_id = $1 AND t.tx_hash = $2";
const SCRIPT_SOURCE: &str = "SELECT k.purpose, k.descriptor, d.address_index FROM addresses d
    JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    WHERE d.script_hash = $2 AND d.wallet_id = $1";
const TO_BUMP: &str = "SELECT raw_tx, status, block_height, is_own, fee FROM transactions
    WHERE wallet_id = $1 AND tx_hash = $2";
const HAS_CHILDREN: &str = "SELECT COUNT(*) AS children FROM tx_inputs i
    JOIN transactions t ON t.wallet_id = i.wallet_id AND t.id = i.tx_id AND t.status IN ($3, $4)
    WHERE i.prev_tx_hash = $2 AND i.wallet_id = $1";

impl Room {
    /// Chooses coins, leases them and builds the PSBT, in one transaction.
    ///
    /// # Errors
    ///
    /// [`WalletError::Payment`] for outputs that can't be, [`WalletError::Select`] when the coins
    /// don't suffice; nothing is leased then.
    pub fn pay(
        &self,
        wallet: WalletId,
        payment: &Payment,
        now: i64,
    ) -> Result<Unsigned, WalletError> {
        check_outputs(&payment.outputs)?;
        payment.terms.expires_at(now)?;
        let payment = payment.clone();
        self.door.write(move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            let unsigned = build(tx, &mut row, &payment, None, now)?;
            row.save(tx)?;
            Ok(unsigned)
        })
    }

    /// Builds a replacement for an own unconfirmed transaction, at a higher rate.
    ///
    /// # Errors
    ///
    /// [`WalletError::Payment`] when it isn't ours alone, is confirmed or dead, or has children.
    pub fn bump(
        &self,
        wallet: WalletId,
        bump: &FeeBump,
        now: i64,
    ) -> Result<Unsigned, WalletError> {
        bump.terms.expires_at(now)?;
        let bump = bump.clone();
        self.door.write(move |tx| {
            let mut row = WalletRow::lock(tx, wallet)?;
            let (old, old_fee) = bumpable(tx, wallet, bump.tx)?;
            let payment = replacement(tx, wallet, &old, &bump)?;
            // BIP 125, rules 3 and 4: more than before, and its own relay paid for. It will weigh
            // about as much as the old one.
            let relay = INCREMENTAL.fee(old.weight().to_wu());
            let least_fee = old_fee.saturating_add(relay).saturating_add(1);
            let replaces = Replaces { txid: model_txid(bump.tx), least_fee };
            let unsigned = build(tx, &mut row, &payment, Some(replaces), now)?;
            row.save(tx)?;
            Ok(unsigned)
        })
    }

    /// Records a signed transaction as pending; its leases become spends.
    ///
    /// # Errors
    ///
    /// [`WalletError::Payment`] when signatures are missing, [`WalletError::Refused`] when its
    /// coins are no longer free.
    pub fn finalize(
        &self,
        wallet: WalletId,
        signed: Signed,
        lock: Option<unspent_model::wallet::LockId>,
        force: bool,
        now: i64,
    ) -> Result<(Txid, Recorded), WalletError> {
        let (tx, fee) = signed.into_tx()?;
        if tx.input.iter().any(|input| input.script_sig.is_empty() && input.witness.is_empty()) {
            return Err(WalletError::Payment("an input has no signature".into()));
        }
        let txid = tx.compute_txid();
        let observed = Observed { tx, source: TxSource::Created { lock, force }, fee, label: None };
        let batch = Batch { txs: vec![observed], ..Batch::default() };
        Ok((txid, self.record_for(wallet, &batch, now)?))
    }
}

/// A transaction that came back from a signer.
#[derive(Clone, Debug)]
pub enum Signed {
    /// With its signatures still apart, or already in place.
    Psbt(Box<Psbt>),
    /// As it goes to the network.
    Raw(Transaction),
}

impl Signed {
    fn into_tx(self) -> Result<(Transaction, Option<u64>), WalletError> {
        match self {
            Self::Raw(tx) => Ok((tx, None)),
            Self::Psbt(psbt) => {
                let fee = psbt.fee().ok().map(Amount::to_sat);
                let is_final = psbt.inputs.iter().all(|input| {
                    input.final_script_sig.is_some() || input.final_script_witness.is_some()
                });
                let done = if is_final {
                    *psbt
                } else {
                    psbt.finalize(&Secp256k1::verification_only()).map_err(|(_, errors)| {
                        let why = errors.first().map(ToString::to_string).unwrap_or_default();
                        WalletError::Payment(format!("it can't be finished: {why}"))
                    })?
                };
                Ok((done.extract_tx_unchecked_fee_rate(), fee))
            }
        }
    }
}

fn check_outputs(outputs: &[(ScriptBuf, u64)]) -> Result<(), WalletError> {
    let refuse = |why: &str| Err(WalletError::Payment(why.into()));
    if outputs.is_empty() {
        return refuse("it has no outputs");
    }
    let mut total: u64 = 0;
    for (script, sats) in outputs {
        total = total.saturating_add(*sats);
        if *sats > MAX_MONEY || total > MAX_MONEY {
            return refuse("it pays more than 21 million BTC");
        }
        let dust = script.minimal_non_dust().to_sat();
        if *sats < dust && !script.is_op_return() {
            let why = format!("{sats} sats are dust; that output needs at least {dust}");
            return Err(WalletError::Payment(why));
        }
    }
    Ok(())
}

fn output_weight(script: &ScriptBuf) -> u64 {
    let length = script.len() as u64;
    4 * (8 + length + if length < 253 { 1 } else { 3 })
}

/// What a payment takes the place of, and what it must pay for that.
#[derive(Clone, Copy)]
struct Replaces {
    txid: TxId,
    least_fee: u64,
}

fn build(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    payment: &Payment,
    replaces: Option<Replaces>,
    now: i64,
) -> Result<Unsigned, WalletError> {
    let change = change_address(tx, wallet, payment.change_account.as_deref())?;
    let key = [Arg::Int(wallet.id), Arg::Int(change.id)];
    let spend_weight = tx.one(KEYCHAIN_WEIGHT, &key)?.natural("input_weight")?;
    let outputs: u64 = payment.outputs.iter().map(|(script, _)| output_weight(script)).sum();
    let count = if payment.outputs.len() < 252 { 4 } else { 12 };
    let wanted = Wanted {
        target: payment.outputs.iter().map(|(_, sats)| sats).sum(),
        base_weight: OVERHEAD_WEIGHT + count + outputs,
        rate: payment.rate,
        min_fee: replaces.map_or(0, |old| old.least_fee),
        change: ChangePolicy {
            weight: output_weight(&change.script),
            spend_weight,
            min: change.script.minimal_non_dust().to_sat(),
        },
    };
    let (policy, replaces) = (&payment.policy, replaces.map(|old| old.txid));
    let choosing = Choosing { wallet, wanted, policy, replaces, now };
    let chosen = choosing.lease(tx, &payment.terms)?;
    let (unsigned, change_output) = assemble(wallet, payment, &chosen, &change.script);
    let mut psbt = Psbt::from_unsigned_tx(unsigned)
        .map_err(|error| WalletError::Payment(error.to_string()))?;
    explain_inputs(tx, wallet, &mut psbt)?;
    explain_outputs(tx, wallet, &mut psbt)?;
    let held_until = payment.terms.expires_at(now)?;
    Ok(Unsigned { psbt, chosen, change_output, held_until })
}

/// The next change address; where an account has no change chain, its receive chain serves.
fn change_address(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    account: Option<&str>,
) -> Result<AddressInfo, WalletError> {
    match reveal(tx, wallet, account, Purpose::Change) {
        Err(WalletError::Argument(_)) => reveal(tx, wallet, account, Purpose::Receive),
        result => result,
    }
}

fn assemble(
    wallet: &WalletRow,
    payment: &Payment,
    chosen: &Chosen,
    change: &ScriptBuf,
) -> (Transaction, Option<usize>) {
    let mut names: Vec<OutPoint> = chosen.coins.iter().map(|coin| coin.outpoint).collect();
    names.sort_unstable();
    let input = names.into_iter().map(|previous_output| TxIn {
        previous_output,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
        witness: Witness::new(),
    });
    let mut output: Vec<TxOut> = payment
        .outputs
        .iter()
        .map(|(script, sats)| TxOut {
            value: Amount::from_sat(*sats),
            script_pubkey: script.clone(),
        })
        .collect();
    let place = chosen.selection.change.map(|sats| {
        // Change at a place that tells nothing.
        let places = output.len() as u64 + 1;
        let place = usize::try_from(payment.policy.seed % places).unwrap_or(0);
        let value = Amount::from_sat(sats);
        output.insert(place, TxOut { value, script_pubkey: change.clone() });
        place
    });
    // As Core does: valid only above the tip, it gives miners nothing to win by mining the last
    // block anew.
    let height = wallet.tip().and_then(|tip| u32::try_from(tip).ok());
    let lock_time = height.and_then(|height| LockTime::from_height(height).ok());
    let tx = Transaction {
        version: Version::TWO,
        lock_time: lock_time.unwrap_or(LockTime::ZERO),
        input: input.collect(),
        output,
    };
    (tx, place)
}

/// Tells the signer what each input spends and with which keys.
fn explain_inputs(tx: &mut Tx<'_>, wallet: &WalletRow, psbt: &mut Psbt) -> Result<(), WalletError> {
    let names: Vec<OutPoint> =
        psbt.unsigned_tx.input.iter().map(|input| input.previous_output).collect();
    for (place, name) in names.into_iter().enumerate() {
        let txid = model_txid(name.txid);
        let key = [Arg::Int(wallet.id), Arg::Blob(&txid.0), Arg::Int(name.vout.into())];
        let row = tx.one(COIN_SOURCE, &key)?;
        let raw = row.blob("raw_tx")?;
        let parent: Transaction = encode::deserialize(&raw)
            .map_err(|error| WalletError::Corrupt(format!("a raw transaction: {error}")))?;
        let index = usize::try_from(name.vout).unwrap_or(usize::MAX);
        let output = parent.output.get(index).cloned();
        let output = output.ok_or_else(|| WalletError::Corrupt("a coin has no output".into()))?;
        let Some(input) = psbt.inputs.get_mut(place) else { continue };
        if output.script_pubkey.is_witness_program() || output.script_pubkey.is_p2sh() {
            input.witness_utxo = Some(output);
        }
        // The whole parent too: a signer that is only shown an amount can be lied to about it.
        input.non_witness_utxo = Some(parent);
        if let Some(definite) = described(&row)? {
            psbt.update_input_with_descriptor(place, &definite)
                .map_err(|error| WalletError::Payment(error.to_string()))?;
        }
    }
    Ok(())
}

/// Tells the signer which outputs are ours.
fn explain_outputs(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    psbt: &mut Psbt,
) -> Result<(), WalletError> {
    let scripts: Vec<ScriptBuf> =
        psbt.unsigned_tx.output.iter().map(|output| output.script_pubkey.clone()).collect();
    for (place, script) in scripts.iter().enumerate() {
        let hash = crate::descriptor::script_hash(script);
        let Some(row) = tx.maybe(SCRIPT_SOURCE, &[Arg::Int(wallet.id), Arg::Blob(&hash)])? else {
            continue;
        };
        if let Some(definite) = described(&row)? {
            psbt.update_output_with_descriptor(place, &definite)
                .map_err(|error| WalletError::Payment(error.to_string()))?;
        }
    }
    Ok(())
}

type Definite = miniscript::Descriptor<miniscript::DefiniteDescriptorKey>;

/// The descriptor of one script, where it has one.
fn described(row: &Row) -> Result<Option<Definite>, WalletError> {
    if row.text("purpose")? == Purpose::Imported.name() {
        return Ok(None);
    }
    let index = row.index("address_index")?;
    Keychain::stored(&row.text("descriptor")?)?.at(index).map(Some)
}

fn bumpable(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    txid: Txid,
) -> Result<(Transaction, u64), WalletError> {
    let refuse = |why: &str| Err(WalletError::Payment(why.into()));
    let id = model_txid(txid);
    let key = [Arg::Int(wallet.0), Arg::Blob(&id.0)];
    let row = tx.maybe(TO_BUMP, &key)?.ok_or(WalletError::NoTransaction(txid))?;
    if row.opt_int("block_height")?.is_some() {
        return refuse("it is confirmed");
    }
    if !status(&row)?.is_live() {
        return refuse("it is no longer valid");
    }
    if !row.flag("is_own")? || row.opt_int("fee")?.is_none() {
        return refuse("not all of its inputs are ours");
    }
    let live = [Arg::Text(Status::Published.name()), Arg::Text(Status::Pending.name())];
    if tx.one(HAS_CHILDREN, &[key, live].concat())?.int("children")? > 0 {
        return refuse("a live transaction spends its outputs");
    }
    let old = encode::deserialize(&row.blob("raw_tx")?)
        .map_err(|error| WalletError::Corrupt(format!("a raw transaction: {error}")))?;
    Ok((old, row.natural("fee")?))
}

/// The same payment again: all inputs required, own change left out to be worked out anew.
fn replacement(
    tx: &mut Tx<'_>,
    wallet: WalletId,
    old: &Transaction,
    bump: &FeeBump,
) -> Result<Payment, WalletError> {
    let mut outputs = Vec::new();
    for output in &old.output {
        let hash = crate::descriptor::script_hash(&output.script_pubkey);
        let owner = tx.maybe(SCRIPT_SOURCE, &[Arg::Int(wallet.0), Arg::Blob(&hash)])?;
        let purpose = owner.map(|row| row.text("purpose")).transpose()?;
        if purpose.as_deref() != Some(Purpose::Change.name()) {
            outputs.push((output.script_pubkey.clone(), output.value.to_sat()));
        }
    }
    if outputs.is_empty() {
        return Err(WalletError::Payment("it pays nobody but our own change".into()));
    }
    let mut policy = bump.policy.clone();
    let ours: HashSet<OutPoint> = old.input.iter().map(|input| input.previous_output).collect();
    policy.require.extend(ours);
    // BIP 125, rule 2: a replacement must not bring in new unconfirmed inputs.
    policy.own_change = false;
    policy.pending_chaining = false;
    Ok(Payment { outputs, rate: bump.rate, policy, change_account: None, terms: bump.terms })
}

/// The name of a PSBT's transaction, for people.
pub fn psbt_txid(psbt: &Psbt) -> Txid {
    bitcoin_txid(model_txid(psbt.unsigned_tx.compute_txid()))
}
