//! Chains of scripts, and the gap limit.
//!
//! A wallet that is restored from its keys doesn't know how many addresses were handed out. It
//! watches `gap_limit` scripts beyond the last one used; whoever pays further ahead pays unseen. So
//! using a script must extend its chain in the same transaction, before the rest of the block is
//! looked at ([BIP 44] on address gaps).
//!
//! [BIP 44]: https://github.com/bitcoin/bips/blob/master/bip-0044.mediawiki

use std::collections::HashMap;

use bitcoin::ScriptBuf;
use unspent_sql::{Arg, Column, Set, Tx};

use crate::{
    descriptor::{Keychain, MAX_INDEX, script_hash},
    error::WalletError,
    room::{WalletRow, sql_int},
    wallets::{AddressInfo, Purpose, address_info},
};

const INSERT_KEYCHAIN: &str =
    "INSERT INTO keychains (wallet_id, id, account_id, purpose, descriptor,
    input_weight, next_index, derived_to) VALUES ($1, $2, $3, $4, $5, $6, 0, 0)";
const KEYCHAIN: &str =
    "SELECT descriptor, next_index, last_used, derived_to, purpose FROM keychains
    WHERE wallet_id = $1 AND id = $2";
const FIND_KEYCHAIN: &str = "SELECT k.id FROM keychains k
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE k.wallet_id = $1 AND k.purpose = $2
        AND (CAST($3 AS TEXT) IS NULL OR a.name = $3) ORDER BY k.id LIMIT 1";
const MOVE_KEYCHAIN: &str = "UPDATE keychains SET next_index = $3, last_used = $4, derived_to = $5
    WHERE wallet_id = $1 AND id = $2";
const INSERT_ADDRESSES: Set = Set {
    sqlite:
        "INSERT INTO addresses (wallet_id, keychain_id, is_used, id, address_index, script_hash,
        script_pub_key) VALUES ($1, $2, $3, $4, $5, $6, $7)",
    postgres: "INSERT INTO addresses (wallet_id, keychain_id, is_used, id, address_index,
            script_hash, script_pub_key)
        SELECT $1, $2, $3, k.* FROM UNNEST($4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[]) k",
};
const USE_ADDRESSES: Set = Set {
    sqlite: "UPDATE addresses SET is_used = TRUE
        WHERE wallet_id = $1 AND id = $2 AND NOT is_used",
    postgres: "UPDATE addresses a SET is_used = TRUE FROM UNNEST($2::bigint[]) k (id)
        WHERE a.wallet_id = $1 AND a.id = k.id AND NOT a.is_used",
};
const SCRIPTS_KNOWN: Set = Set {
    sqlite: "SELECT d.id, d.script_hash, d.is_used, d.keychain_id, k.purpose
        FROM addresses d CROSS JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
        WHERE d.script_hash = $2 AND d.wallet_id = $1",
    postgres: "SELECT d.id, d.script_hash, d.is_used, d.keychain_id, k.purpose
        FROM UNNEST($2::bytea[]) q (h)
        JOIN addresses d ON d.script_hash = q.h AND d.wallet_id = $1
        JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id",
};
const ADOPT: &str = "UPDATE addresses SET keychain_id = $3, address_index = $4
    WHERE wallet_id = $1 AND id = $2";
const DROP_KEYCHAIN: &str = "DELETE FROM keychains WHERE wallet_id = $1 AND id = $2";
const ADDRESS: &str =
    "SELECT d.id, a.name AS account, k.purpose, d.address_index, d.script_pub_key,
        d.is_used
    FROM addresses d
    JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE d.wallet_id = $1 AND d.keychain_id = $2 AND d.address_index = $3";

/// A chain of scripts that a wallet doesn't have yet.
pub(crate) struct NewKeychain {
    pub(crate) id: i64,
    pub(crate) account: i64,
    pub(crate) purpose: Purpose,
    pub(crate) descriptor: String,
    pub(crate) weight: u64,
}

impl NewKeychain {
    pub(crate) fn insert(&self, tx: &mut Tx<'_>, wallet: &WalletRow) -> Result<(), WalletError> {
        let args = [
            Arg::Int(wallet.id),
            Arg::Int(self.id),
            Arg::Int(self.account),
            Arg::Text(self.purpose.name()),
            Arg::Text(&self.descriptor),
            Arg::Int(sql_int(self.weight)?),
        ];
        tx.execute(INSERT_KEYCHAIN, &args).map_err(already_watched)?;
        Ok(())
    }
}

/// Both unique rules that an import can break mean the same to its caller.
fn already_watched(error: unspent_sql::SqlError) -> WalletError {
    if matches!(error, unspent_sql::SqlError::Constraint(_)) {
        return WalletError::ScriptExists;
    }
    error.into()
}

/// Watches scripts that the wallet doesn't know yet, at their indexes of a chain.
fn insert_scripts(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    chain: i64,
    scripts: &[(u32, ScriptBuf)],
) -> Result<Vec<i64>, WalletError> {
    let made: Vec<i64> = scripts.iter().map(|_| wallet.new_id()).collect();
    let columns = [
        Column::ints(made.iter().copied()),
        Column::ints(scripts.iter().map(|(at, _)| i64::from(*at))),
        Column::blobs(scripts.iter().map(|(_, script)| script_hash(script))),
        Column::blobs(scripts.iter().map(|(_, script)| script.as_bytes())),
    ];
    let scalars = [Arg::Int(wallet.id), Arg::Int(chain), Arg::Flag(false)];
    tx.execute_set(INSERT_ADDRESSES, &scalars, &columns)?;
    Ok(made)
}

/// Makes a chain of one script that stands for itself.
pub(crate) fn watch_one(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    chain: i64,
    script: &ScriptBuf,
) -> Result<(), WalletError> {
    if !known_scripts(tx, wallet, &[(0, script.clone())])?.is_empty() {
        return Err(WalletError::ScriptExists);
    }
    insert_scripts(tx, wallet, chain, &[(0, script.clone())])?;
    let key = [Arg::Int(wallet.id), Arg::Int(chain)];
    let place = [Arg::Int(1), Arg::OptInt(None), Arg::Int(1)];
    tx.execute(MOVE_KEYCHAIN, &[&key[..], &place[..]].concat())?;
    Ok(())
}

/// A script that the wallet watches already.
struct KnownScript {
    address: i64,
    keychain: i64,
    is_used: bool,
    is_imported: bool,
}

fn known_scripts(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    scripts: &[(u32, ScriptBuf)],
) -> Result<HashMap<[u8; 32], KnownScript>, WalletError> {
    let keys = [Column::blobs(scripts.iter().map(|(_, script)| script_hash(script)))];
    let rows = tx.query_set(SCRIPTS_KNOWN, &[Arg::Int(wallet.id)], &keys)?;
    let known = rows.iter().map(|row| {
        let found = KnownScript {
            address: row.int("id")?,
            keychain: row.int("keychain_id")?,
            is_used: row.flag("is_used")?,
            is_imported: row.text("purpose")? == Purpose::Imported.name(),
        };
        Ok((row.hash("script_hash")?, found))
    });
    known.collect()
}

/// A script that a chain newly watches.
pub(crate) struct DerivedScript {
    pub(crate) address: i64,
    pub(crate) keychain: i64,
    pub(crate) index: u32,
    pub(crate) script: ScriptBuf,
}

/// Notes the use of an index and derives on until the gap is whole again.
pub(crate) fn extend(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    chain: i64,
    used: Option<u32>,
    at_least_next: u32,
) -> Result<Vec<DerivedScript>, WalletError> {
    // The chain of a script that another chain has just adopted is gone.
    let Some(row) = tx.maybe(KEYCHAIN, &[Arg::Int(wallet.id), Arg::Int(chain)])? else {
        return Ok(Vec::new());
    };
    if row.text("purpose")? == Purpose::Imported.name() {
        return Ok(Vec::new());
    }
    let keychain = Keychain::stored(&row.text("descriptor")?)?;
    let mut place = Place {
        next: row.index("next_index")?.max(at_least_next),
        last_used: row.opt_index("last_used")?.max(used),
        derived: row.index("derived_to")?,
    };
    let mut fresh = Vec::new();
    // An adopted script may have been used: then the chain reaches further still.
    loop {
        let wanted = place.wanted(&keychain, wallet.gap_limit);
        if place.derived >= wanted {
            break;
        }
        let scripts = (place.derived..wanted).map(|index| Ok((index, keychain.script(index)?)));
        let scripts = scripts.collect::<Result<Vec<_>, WalletError>>()?;
        place.derived = wanted;
        fresh.extend(derive(tx, wallet, chain, scripts, &mut place)?);
    }
    let args = [
        Arg::Int(wallet.id),
        Arg::Int(chain),
        Arg::Int(place.next.into()),
        Arg::OptInt(place.last_used.map(i64::from)),
        Arg::Int(place.derived.into()),
    ];
    tx.execute(MOVE_KEYCHAIN, &args)?;
    Ok(fresh)
}

/// How far a chain is.
struct Place {
    next: u32,
    last_used: Option<u32>,
    derived: u32,
}

impl Place {
    /// How many scripts must be watched.
    fn wanted(&mut self, keychain: &Keychain, gap_limit: u32) -> u32 {
        self.next = self.next.max(self.last_used.map_or(0, |index| index + 1));
        if keychain.has_many() { self.next.saturating_add(gap_limit).min(MAX_INDEX) } else { 1 }
    }
}

/// Watches scripts of a chain. One that was imported by itself is adopted, with its coins; one that
/// another chain has stays there, and this chain has a hole in its place: a block must never fail
/// over it.
fn derive(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    chain: i64,
    mut scripts: Vec<(u32, ScriptBuf)>,
    place: &mut Place,
) -> Result<Vec<DerivedScript>, WalletError> {
    let known = known_scripts(tx, wallet, &scripts)?;
    for (index, script) in &scripts {
        let Some(found) = known.get(&script_hash(script)) else { continue };
        if found.is_imported {
            adopt(tx, wallet, found, chain, *index)?;
            let used = found.is_used.then_some(*index);
            place.last_used = place.last_used.max(used);
        }
    }
    scripts.retain(|(_, script)| !known.contains_key(&script_hash(script)));
    let made = insert_scripts(tx, wallet, chain, &scripts)?;
    let fresh = made.into_iter().zip(scripts);
    let fresh = fresh
        .map(|(address, (index, script))| DerivedScript { address, keychain: chain, index, script });
    Ok(fresh.collect())
}

fn adopt(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    found: &KnownScript,
    chain: i64,
    index: u32,
) -> Result<(), WalletError> {
    let key = [Arg::Int(wallet.id), Arg::Int(found.address)];
    tx.execute(ADOPT, &[key[0], key[1], Arg::Int(chain), Arg::Int(index.into())])?;
    // The chain of one script that stood for it has none left.
    tx.execute(DROP_KEYCHAIN, &[Arg::Int(wallet.id), Arg::Int(found.keychain)])?;
    Ok(())
}

/// Marks addresses as used.
pub(crate) fn mark_used(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    addresses: Vec<i64>,
) -> Result<(), WalletError> {
    tx.execute_set(USE_ADDRESSES, &[Arg::Int(wallet.id)], &[Column::ints(addresses)])?;
    Ok(())
}

/// Hands out the next address of a chain. The caller saves the wallet's row.
pub(crate) fn reveal(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    account: Option<&str>,
    purpose: Purpose,
) -> Result<AddressInfo, WalletError> {
    let args = [Arg::Int(wallet.id), Arg::Text(purpose.name()), Arg::OptText(account)];
    let Some(found) = tx.maybe(FIND_KEYCHAIN, &args)? else {
        let what = format!("this wallet has no {} chain of that name", purpose.name());
        return Err(WalletError::Argument(what));
    };
    let chain = found.int("id")?;
    let row = tx.one(KEYCHAIN, &[Arg::Int(wallet.id), Arg::Int(chain)])?;
    let (mut index, derived) = (row.index("next_index")?, row.index("derived_to")?);
    // A chain of one script hands out that one again and again.
    let is_single = derived == 1 && !Keychain::stored(&row.text("descriptor")?)?.has_many();
    if is_single {
        index = 0;
    }
    loop {
        if index >= MAX_INDEX {
            return Err(WalletError::Argument("this chain has no addresses left".into()));
        }
        if !is_single {
            extend(tx, wallet, chain, None, index + 1)?;
        }
        let args = [Arg::Int(wallet.id), Arg::Int(chain), Arg::Int(index.into())];
        match tx.maybe(ADDRESS, &args)? {
            Some(row) => return address_info(&row),
            // Another chain of this wallet has that script.
            None if !is_single => index += 1,
            None => return Err(WalletError::ScriptExists),
        }
    }
}
