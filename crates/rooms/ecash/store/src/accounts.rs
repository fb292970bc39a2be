//! What can be done with an account that is there: a new name, a new address, its end.

use cashu::MintUrl;
use unspent_model::Micros;
use unspent_sql::{Arg, SqlError, Tx};

use crate::{
    entities::{OPEN, read_entity},
    error::EcashError,
    query::EcashBalance,
    seal::SecretSealer,
    store::{
        ACCOUNT_AT, ACCOUNT_LOCKED, EcashAccount, EcashStore, KeysetInfo, one_account, put_keysets,
        read_account,
    },
};

/// Open payments that are looked at together.
const PAGE: i64 = 500;

const NAMESAKE: &str = "SELECT id FROM accounts WHERE removed_at IS NULL AND id <> $1
    AND (name = $2 OR id = $2) LIMIT 1";
const RENAME: &str = "UPDATE accounts SET name = $2, version = version + 1 WHERE id = $1";
const MOVE: &str = "UPDATE accounts SET mint_url = $2, version = version + 1 WHERE id = $1";
const REMOVE: &str = "UPDATE accounts SET removed_at = $2, version = version + 1 WHERE id = $1";
const LISTED: &str = "SELECT keyset_id FROM account_keysets WHERE account_id = $1";
const HELD: &str = "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS total FROM proofs
    WHERE account_id = $1 AND state = $2";
/// By the index of claims; kinds of which an end may prove wrong.
const MAY_COME_LATE: &str = "SELECT COUNT(*) AS many FROM entities WHERE account_id = $1
    AND kind IN ('CASHU_RECEIVE_QUOTE', 'CASHU_SEND_QUOTE', 'SPARK_RECEIVE_QUOTE')
    AND state IN ('EXPIRED', 'FAILED') AND updated_at >= $2";
const TO_BE_SCANNED: &str = "SELECT COUNT(*) AS many FROM account_keysets WHERE account_id = $1
    AND scan_from IS NOT NULL";

/// What keeps an account from being removed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct AccountRest {
    balance: EcashBalance,
    /// Payments of which something is still expected, change for it among them.
    open: u64,
    /// Payments that ended unpaid so recently that they may still be paid.
    late: u64,
    /// Keysets that are to be scanned.
    scans: u64,
}

impl AccountRest {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for AccountRest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let EcashBalance { unspent, reserved } = self.balance;
        let parts = [
            (unspent, "free"),
            (reserved, "held"),
            (self.open, "open payments"),
            (self.late, "payments that ended unpaid and may still be paid"),
            (self.scans, "keysets to be scanned"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(&parts.join(", "))
    }
}

impl EcashStore {
    /// Gives an account another name.
    ///
    /// # Errors
    ///
    /// [`EcashError::NotFound`]; [`EcashError::Argument`] when another account goes by that name.
    pub fn rename_account(&self, id: &str, name: &str) -> Result<EcashAccount, EcashError> {
        let (id, name) = (id.to_owned(), name.to_owned());
        self.door.write(move |tx| {
            one_account(tx, &id, ACCOUNT_LOCKED)?;
            if tx.maybe(NAMESAKE, &[Arg::Text(&id), Arg::Text(&name)])?.is_some() {
                let what = format!("another account goes by the name `{name}`");
                return Err(EcashError::Argument(what));
            }
            tx.execute(RENAME, &[Arg::Text(&id), Arg::Text(&name)])?;
            read_account(&one_account(tx, &id, ACCOUNT_LOCKED)?)
        })
    }

    /// Writes down that an account's mint is at another address, with the keysets listed there.
    /// Whether it is the same mint is for the caller to find out.
    ///
    /// # Errors
    ///
    /// [`EcashError::NotFound`]; [`EcashError::Argument`] when a keyset of the account isn't
    /// listed there, or another account is at that address.
    pub fn move_account(
        &self,
        id: &str,
        url: &MintUrl,
        keysets: Vec<KeysetInfo>,
    ) -> Result<EcashAccount, EcashError> {
        let (id, url) = (id.to_owned(), url.to_string());
        self.door.write(move |tx| {
            let account = read_account(&one_account(tx, &id, ACCOUNT_LOCKED)?)?;
            let at = [Arg::Text(&url), Arg::Text(&account.unit)];
            if let Some(other) = tx.maybe(ACCOUNT_AT, &at)?.filter(|_| account.mint_url.is_some()) {
                let other = read_account(&other)?;
                if other.id == id {
                    return Ok(other);
                }
                let what = format!("the account {} is at that address", other.name);
                return Err(EcashError::Argument(what));
            }
            for row in tx.query(LISTED, &[Arg::Text(&id)])? {
                let known = row.text("keyset_id")?;
                if !keysets.iter().any(|keyset| keyset.keyset_id == known) {
                    let what = format!("the mint there doesn't list keyset {known}");
                    return Err(EcashError::Argument(what));
                }
            }
            tx.execute(MOVE, &[Arg::Text(&id), Arg::Text(&url)])?;
            put_keysets(tx, &id, &keysets)?;
            read_account(&one_account(tx, &id, ACCOUNT_LOCKED)?)
        })
    }

    /// Removes an account that holds nothing and of which nothing is expected. Its payments stay,
    /// and its mint may be added anew. Payments that ended unpaid since `late_since` count as
    /// expected.
    ///
    /// # Errors
    ///
    /// [`EcashError::NotFound`]; [`EcashError::AccountInUse`] with what it holds.
    pub fn remove_account(
        &self,
        id: &str,
        late_since: Micros,
        now: Micros,
    ) -> Result<(), EcashError> {
        let (id, sealer) = (id.to_owned(), std::sync::Arc::clone(&self.sealer));
        self.door.write(move |tx| {
            let account = read_account(&one_account(tx, &id, ACCOUNT_LOCKED)?)?;
            let rest = rest_of(tx, &id, late_since, &sealer)?;
            if !rest.is_nothing() {
                let rest = rest.to_string();
                return Err(EcashError::AccountInUse { account: account.name, rest });
            }
            tx.execute(REMOVE, &[Arg::Text(&id), Arg::Int(now.get())])?;
            Ok(())
        })
    }
}

fn rest_of(
    tx: &mut Tx<'_>,
    id: &str,
    late_since: Micros,
    sealer: &SecretSealer,
) -> Result<AccountRest, EcashError> {
    use unspent_model::ecash::ProofState::{Reserved, Unspent};
    let mut total = |state: unspent_model::ecash::ProofState| -> Result<u64, SqlError> {
        tx.one(HELD, &[Arg::Text(id), Arg::Text(state.name())])?.natural("total")
    };
    let balance = EcashBalance { unspent: total(Unspent)?, reserved: total(Reserved)? };
    let late = [Arg::Text(id), Arg::Int(late_since.get())];
    Ok(AccountRest {
        balance,
        open: open_for(tx, id, sealer)?,
        late: tx.one(MAY_COME_LATE, &late)?.natural("many")?,
        scans: tx.one(TO_BE_SCANNED, &[Arg::Text(id)])?.natural("many")?,
    })
}

/// Open payments of an account, and those of others whose change is to come into it.
fn open_for(tx: &mut Tx<'_>, id: &str, sealer: &SecretSealer) -> Result<u64, EcashError> {
    let (mut found, mut after) = (0, String::new());
    loop {
        let rows = tx.query(OPEN, &[Arg::Text(&after), Arg::Int(PAGE)])?;
        if rows.is_empty() {
            return Ok(found);
        }
        for row in &rows {
            let entity = read_entity(row, sealer)?;
            let change = entity.details.source().and_then(|source| source.account_id.as_deref());
            found += u64::from(entity.account_id == id || change == Some(id));
            after = entity.id;
        }
    }
}
