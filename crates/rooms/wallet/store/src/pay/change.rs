//! Where change goes, and which index of its chain it takes.
//!
//! A wallet that is restored from its keys looks `gap_limit` scripts beyond the last one used.
//! Change at an index that lies further ahead would not be found, so payments that come to nothing
//! must not use indexes up: an index is taken only by a payment that has change, never beyond the
//! gap, and a payment that is taken back gives its index back.

use bitcoin::{ScriptBuf, Txid};
use unspent_sql::{Arg, RowId, Tx};

use crate::{
    choose::account_row, descriptor::Keychain, error::WalletError, ids::model_txid,
    keychains::extend, wallet_info::KeychainPurpose, wallet_row::WalletRow,
};

const FIRST_ACCOUNT: &str = "SELECT a.id, a.name FROM keychains k
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE k.wallet_id = $1 AND k.purpose <> 'imported' ORDER BY k.id LIMIT 1";
const ACCOUNT_OF_COIN: &str = "SELECT a.id, a.name, k.purpose FROM transactions t
    JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id AND u.output_index = $3
    JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
    JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE t.tx_hash = $2 AND t.wallet_id = $1";
const CHAIN: &str = "SELECT id, descriptor, input_weight, next_index, last_used, derived_to
    FROM keychains WHERE wallet_id = $1 AND account_id = $2 AND purpose = $3
    ORDER BY id LIMIT 1";
const SCRIPT_AT: &str = "SELECT script_pub_key FROM addresses
    WHERE wallet_id = $1 AND keychain_id = $2 AND address_index = $3";
const CHANGE_OF: &str = "SELECT DISTINCT k.id, k.next_index FROM transactions t
    JOIN utxos u ON u.wallet_id = t.wallet_id AND u.tx_id = t.id
    JOIN addresses d ON d.wallet_id = u.wallet_id AND d.id = u.address_id
    JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    WHERE t.tx_hash = $2 AND t.wallet_id = $1 AND k.purpose = 'change'";
/// Who ever paid a script, and whether all of that was taken back before it was sent.
const USES: &str = "SELECT d.id, COUNT(u.id) AS coins,
        COALESCE(SUM(CASE WHEN t.withdrawn AND NOT t.ever_published THEN 0 ELSE 1 END), 0) AS seen
    FROM addresses d
    LEFT JOIN utxos u ON u.wallet_id = d.wallet_id AND u.address_id = d.id
    LEFT JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    WHERE d.wallet_id = $1 AND d.keychain_id = $2 AND d.address_index = $3 GROUP BY d.id";
const UNUSE: &str = "UPDATE addresses SET is_used = FALSE WHERE wallet_id = $1 AND id = $2";
const LAST_USED: &str = "SELECT MAX(address_index) AS last_used FROM addresses
    WHERE wallet_id = $1 AND keychain_id = $2 AND address_index < $3 AND is_used";
const GIVE_BACK: &str = "UPDATE keychains SET next_index = $3, last_used = $4
    WHERE wallet_id = $1 AND id = $2";

/// The account that a payment is made from.
#[derive(Clone, Debug)]
pub(super) struct PayingAccount {
    pub(super) id: RowId,
    pub(super) name: String,
}

/// The account named, or else that of the first coin asked for, or else the first of the wallet.
pub(super) fn paying_account(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    named: Option<&str>,
    coins: &[bitcoin::OutPoint],
) -> Result<PayingAccount, WalletError> {
    if let Some(name) = named {
        let id = account_row(tx, wallet, name)?;
        return Ok(PayingAccount { id, name: name.to_owned() });
    }
    for coin in coins {
        let txid = model_txid(coin.txid);
        let args = [Arg::Int(wallet.id.0), Arg::Blob(&txid.0), Arg::Int(coin.vout.into())];
        if let Some(row) = tx.maybe(ACCOUNT_OF_COIN, &args)?
            && row.text("purpose")? != KeychainPurpose::Imported.name()
        {
            return Ok(PayingAccount { id: row.row_id("id")?, name: row.text("name")? });
        }
    }
    let Some(row) = tx.maybe(FIRST_ACCOUNT, &[Arg::Int(wallet.id.0)])? else {
        let why = "this wallet has no descriptor to pay from, only scripts that it watches";
        return Err(WalletError::Payment(why.into()));
    };
    Ok(PayingAccount { id: row.row_id("id")?, name: row.text("name")? })
}

/// A script that change may go to. Nothing is used up until it is taken.
#[derive(Clone, Debug)]
pub(super) struct ChangeScript {
    pub(super) script: ScriptBuf,
    pub(super) spend_weight: u64,
    /// The chain and the index that it uses up, where it does.
    takes: Option<(RowId, u32)>,
}

impl ChangeScript {
    /// The next of the account's change chain; where it has none, its receive chain serves.
    pub(super) fn next(
        tx: &mut Tx<'_>,
        wallet: &WalletRow,
        account: &PayingAccount,
        seed: u64,
    ) -> Result<Self, WalletError> {
        let mut found = None;
        for purpose in [KeychainPurpose::Change, KeychainPurpose::Receive] {
            let args = [Arg::Int(wallet.id.0), Arg::Int(account.id.0), Arg::Text(purpose.name())];
            found = tx.maybe(CHAIN, &args)?;
            if found.is_some() {
                break;
            }
        }
        let Some(row) = found else {
            let why = format!("account `{}` has no chain for change", account.name);
            return Err(WalletError::Payment(why));
        };
        let (chain, next) = (row.row_id("id")?, row.index("next_index")?);
        let derived = row.index("derived_to")?;
        let is_single = derived == 1 && !Keychain::stored(&row.text("descriptor")?)?.has_many();
        // Indexes end at 2^31.
        let after_used = row.opt_index("last_used")?.map_or(0, |last| last.saturating_add(1));
        let gap = wallet.gap_limit.max(1);
        let (index, takes) = if is_single {
            (0, None)
        // Indexes end at 2^31, and gaps at 10,000.
        } else if next < after_used.saturating_add(gap) && next < derived {
            (next, Some((chain, next)))
        } else {
            // So many payments wait for signatures that the next index would lie beyond the gap:
            // one of theirs is used again.
            let step = u32::try_from(seed % u64::from(gap)).unwrap_or(0);
            (after_used.saturating_add(step), None)
        };
        let args = [Arg::Int(wallet.id.0), Arg::Int(chain.0), Arg::Int(index.into())];
        let script = ScriptBuf::from_bytes(tx.one(SCRIPT_AT, &args)?.blob("script_pub_key")?);
        Ok(Self { script, spend_weight: row.natural("input_weight")?, takes })
    }

    /// A script that change went to before.
    pub(super) fn again(script: ScriptBuf, spend_weight: u64) -> Self {
        Self { script, spend_weight, takes: None }
    }

    /// Uses the index up. The caller saves the wallet's row.
    pub(super) fn take(&self, tx: &mut Tx<'_>, wallet: &mut WalletRow) -> Result<(), WalletError> {
        if let Some((chain, index)) = self.takes {
            // Indexes end at 2^31.
            extend(tx, wallet, chain, None, index.saturating_add(1))?;
        }
        Ok(())
    }
}

/// A payment was taken back before it was sent: the indexes of its change that were the last ones
/// handed out are free again.
pub(super) fn give_back(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    txid: Txid,
) -> Result<(), WalletError> {
    let name = model_txid(txid);
    for row in tx.query(CHANGE_OF, &[Arg::Int(wallet.id.0), Arg::Blob(&name.0)])? {
        let (chain, handed_out) = (row.row_id("id")?, row.index("next_index")?);
        let mut next = handed_out;
        while next > 0 {
            let args = [Arg::Int(wallet.id.0), Arg::Int(chain.0), Arg::Int((next - 1).into())];
            let Some(use_of) = tx.maybe(USES, &args)? else { break };
            // A script that nobody paid may be in a payment that still waits for its signatures.
            if use_of.int("coins")? == 0 || use_of.int("seen")? > 0 {
                break;
            }
            tx.execute(UNUSE, &[Arg::Int(wallet.id.0), Arg::Int(use_of.row_id("id")?.0)])?;
            next -= 1;
        }
        if next < handed_out {
            let key = [Arg::Int(wallet.id.0), Arg::Int(chain.0), Arg::Int(next.into())];
            let last_used = tx.one(LAST_USED, &key)?.opt_int("last_used")?;
            tx.execute(GIVE_BACK, &[&key[..], &[Arg::OptInt(last_used)]].concat())?;
        }
    }
    Ok(())
}
