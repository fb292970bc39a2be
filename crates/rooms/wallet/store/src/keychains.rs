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
use unspent_model::wallet::AddressId;
use unspent_sql::{Arg, BulkStatement, Column, Row, RowId, SqlError, Tx};

use crate::{
    apply_mode::ApplyMode,
    descriptor::{Keychain, MAX_INDEX, script_hash},
    error::WalletError,
    ids::sql_int,
    wallet_info::{AddressInfo, KeychainPurpose, address_info},
    wallet_row::WalletRow,
    writes::PendingWrites,
};

const INSERT_KEYCHAIN: &str =
    "INSERT INTO keychains (wallet_id, id, account_id, purpose, descriptor,
    input_weight, next_index, derived_to) VALUES ($1, $2, $3, $4, $5, $6, 0, 0)";
const KEYCHAIN: &str =
    "SELECT id AS keychain_id, descriptor, next_index, last_used, derived_to, purpose
    FROM keychains WHERE wallet_id = $1 AND id = $2";
/// A chain, and the address that it hands out next.
const NEXT: &str = "SELECT k.id AS keychain_id, k.descriptor, k.next_index, k.last_used,
        k.derived_to, k.purpose, a.name AS account, d.id, d.address_index, d.script_pub_key,
        d.is_used
    FROM keychains k
    JOIN accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    LEFT JOIN addresses d ON d.wallet_id = k.wallet_id AND d.keychain_id = k.id
        AND d.address_index = k.next_index
    WHERE k.wallet_id = $1 AND k.purpose = $2
        AND (CAST($3 AS TEXT) IS NULL OR a.name = $3) ORDER BY k.id LIMIT 1";
const SCRIPTS_KNOWN: BulkStatement = BulkStatement {
    sqlite: "SELECT d.id, d.script_hash, d.is_used, d.keychain_id, k.purpose
        FROM addresses d
        CROSS JOIN keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
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
    pub(crate) id: RowId,
    pub(crate) account: RowId,
    pub(crate) purpose: KeychainPurpose,
    pub(crate) descriptor: String,
    pub(crate) weight: u64,
}

impl NewKeychain {
    pub(crate) fn insert(&self, tx: &mut Tx<'_>, wallet: &WalletRow) -> Result<(), WalletError> {
        let args = [
            Arg::Int(wallet.id.0),
            Arg::Int(self.id.0),
            Arg::Int(self.account.0),
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

/// Makes a chain of one script that stands for itself.
pub(crate) fn watch_one(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    chain: RowId,
    script: &ScriptBuf,
) -> Result<(), WalletError> {
    if !known_scripts(tx, wallet, &[(0, script.clone())])?.is_empty() {
        return Err(WalletError::ScriptExists);
    }
    let mut writes = PendingWrites::default();
    writes.script(wallet.id, chain, wallet.new_address(), 0, script);
    writes.chain(
        wallet.id,
        &KeychainState { id: chain, next: 1, derived: 1, ..KeychainState::default() },
    );
    writes.send(tx)
}

/// A script that the wallet watches already.
struct KnownScript {
    address: AddressId,
    keychain: RowId,
    is_used: bool,
    is_imported: bool,
}

fn known_scripts(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    scripts: &[(u32, ScriptBuf)],
) -> Result<HashMap<[u8; 32], KnownScript>, WalletError> {
    let keys = [Column::blobs(scripts.iter().map(|(_, script)| script_hash(script)))];
    let rows = tx.query_set(SCRIPTS_KNOWN, &[Arg::Int(wallet.id.0)], &keys)?;
    let known = rows.iter().map(|row| {
        let found = KnownScript {
            address: AddressId(row.int("id")?),
            keychain: row.row_id("keychain_id")?,
            is_used: row.flag("is_used")?,
            is_imported: row.text("purpose")? == KeychainPurpose::Imported.name(),
        };
        Ok((row.hash("script_hash")?, found))
    });
    known.collect()
}

/// A script that a chain newly watches.
pub(crate) struct DerivedScript {
    pub(crate) address: AddressId,
    pub(crate) keychain: RowId,
    pub(crate) index: u32,
    pub(crate) script: ScriptBuf,
}

/// How far a chain is.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeychainState {
    pub(crate) id: RowId,
    descriptor: String,
    is_imported: bool,
    pub(crate) next: u32,
    pub(crate) last_used: Option<u32>,
    pub(crate) derived: u32,
    has_moved: bool,
}

impl KeychainState {
    /// From the columns of a keychain, whose row id is in `keychain_id`.
    pub(crate) fn read(row: &Row) -> Result<Self, SqlError> {
        Ok(Self {
            id: row.row_id("keychain_id")?,
            descriptor: row.text("descriptor")?,
            is_imported: row.text("purpose")? == KeychainPurpose::Imported.name(),
            next: row.index("next_index")?,
            last_used: row.opt_index("last_used")?,
            derived: row.index("derived_to")?,
            has_moved: false,
        })
    }

    /// An index was paid.
    pub(crate) fn note_use(&mut self, index: u32) {
        // Indexes end at 2^31.
        let after = (self.last_used.max(Some(index)), self.next.max(index.saturating_add(1)));
        self.has_moved |= after != (self.last_used, self.next);
        (self.last_used, self.next) = after;
    }

    /// An index was handed out.
    pub(crate) fn note_given(&mut self, index: u32) {
        // Indexes end at 2^31.
        let next = self.next.max(index.saturating_add(1));
        self.has_moved |= next != self.next;
        self.next = next;
    }

    /// The scripts that are missing until the gap is whole again; they count as derived from now.
    fn reach(&mut self, gap_limit: u32) -> Result<Vec<(u32, ScriptBuf)>, WalletError> {
        // Reading a descriptor takes longer than most statements: only when there is need.
        let is_far_enough = self.derived >= self.next.saturating_add(gap_limit).min(MAX_INDEX);
        if self.is_imported || (is_far_enough && self.derived > 0) {
            return Ok(Vec::new());
        }
        let keychain = Keychain::stored(&self.descriptor)?;
        let wanted = if keychain.has_many() {
            // Indexes end at MAX_INDEX.
            self.next.saturating_add(gap_limit).min(MAX_INDEX)
        } else {
            1
        };
        let scripts = (self.derived..wanted).map(|index| Ok((index, keychain.script(index)?)));
        let scripts = scripts.collect::<Result<Vec<_>, WalletError>>()?;
        self.has_moved |= self.derived < wanted;
        self.derived = self.derived.max(wanted);
        Ok(scripts)
    }

    /// Derives on until the gap is whole again, and gathers what has to be written.
    pub(crate) fn extend(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: &mut WalletRow,
        mode: ApplyMode,
        writes: &mut PendingWrites,
    ) -> Result<Vec<DerivedScript>, WalletError> {
        let mut fresh = Vec::new();
        // An adopted script may have been used: then the chain reaches further still.
        loop {
            let mut scripts = self.reach(wallet.gap_limit)?;
            if scripts.is_empty() {
                break;
            }
            // Nearly never is a script known already; then the write fails, and all is done
            // again with care.
            if mode == ApplyMode::Isolated {
                self.adopt_known(tx, wallet, &mut scripts)?;
            }
            for (index, script) in scripts {
                let address = wallet.new_address();
                writes.script(wallet.id, self.id, address, index, &script);
                fresh.push(DerivedScript { address, keychain: self.id, index, script });
            }
        }
        Ok(fresh)
    }

    /// Gathers the chain's own row, if it changed. Once for a chain: rows are told apart by it.
    pub(crate) fn store(&mut self, wallet: &WalletRow, writes: &mut PendingWrites) {
        if std::mem::take(&mut self.has_moved) {
            writes.chain(wallet.id, self);
        }
    }

    /// One that was imported by itself is adopted, with its coins; one that another chain has stays
    /// there, and this chain has a hole in its place: a block must never fail over it.
    fn adopt_known(
        &mut self,
        tx: &mut Tx<'_>,
        wallet: &WalletRow,
        scripts: &mut Vec<(u32, ScriptBuf)>,
    ) -> Result<(), WalletError> {
        let known = known_scripts(tx, wallet, scripts)?;
        for (index, script) in scripts.iter() {
            let Some(found) = known.get(&script_hash(script)) else { continue };
            if found.is_imported {
                adopt(tx, wallet, found, self.id, *index)?;
                if found.is_used {
                    self.note_use(*index);
                }
            }
        }
        // One script has one address row in a wallet, or a payment to it would be two coins.
        scripts.retain(|(_, script)| !known.contains_key(&script_hash(script)));
        Ok(())
    }
}

/// Notes the use of an index and derives on until the gap is whole again.
pub(crate) fn extend(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    chain: RowId,
    used: Option<u32>,
    at_least_next: u32,
) -> Result<Vec<DerivedScript>, WalletError> {
    // The chain of a script that another chain has just adopted is gone.
    let Some(row) = tx.maybe(KEYCHAIN, &[Arg::Int(wallet.id.0), Arg::Int(chain.0)])? else {
        return Ok(Vec::new());
    };
    let mut chain = KeychainState::read(&row)?;
    used.into_iter().for_each(|index| chain.note_use(index));
    at_least_next.checked_sub(1).into_iter().for_each(|index| chain.note_given(index));
    let mut writes = PendingWrites::default();
    let fresh = chain.extend(tx, wallet, ApplyMode::Isolated, &mut writes)?;
    chain.store(wallet, &mut writes);
    writes.send(tx)?;
    Ok(fresh)
}

fn adopt(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    found: &KnownScript,
    chain: RowId,
    index: u32,
) -> Result<(), WalletError> {
    let key = [Arg::Int(wallet.id.0), Arg::Int(found.address.0)];
    tx.execute(ADOPT, &[key[0], key[1], Arg::Int(chain.0), Arg::Int(index.into())])?;
    // The chain of one script that stood for it has none left.
    tx.execute(DROP_KEYCHAIN, &[Arg::Int(wallet.id.0), Arg::Int(found.keychain.0)])?;
    Ok(())
}

/// Hands out the next address of a chain; what changes is gathered.
pub(crate) fn reveal_into(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    account: Option<&str>,
    purpose: KeychainPurpose,
    mode: ApplyMode,
    writes: &mut PendingWrites,
) -> Result<AddressInfo, WalletError> {
    let args = [Arg::Int(wallet.id.0), Arg::Text(purpose.name()), Arg::OptText(account)];
    // The scripts up to the gap are derived already, so the next one is there.
    let Some(row) = tx.maybe(NEXT, &args)? else {
        let what = format!("this wallet has no {} chain of that name", purpose.name());
        return Err(WalletError::Argument(what));
    };
    let mut chain = KeychainState::read(&row)?;
    // A chain of one script hands out that one again and again.
    if chain.derived == 1 && !Keychain::stored(&chain.descriptor)?.has_many() {
        return address_at(tx, wallet, chain.id, 0)?.ok_or(WalletError::ScriptExists);
    }
    let mut index = chain.next;
    let mut found = row.opt_int("id")?.map(|_| address_info(&row)).transpose()?;
    while found.is_none() {
        // Not derived yet, or another chain of the wallet has it: then the next one.
        reach(tx, wallet, &mut chain, index, mode, writes)?;
        writes.send(tx)?;
        found = address_at(tx, wallet, chain.id, index)?;
        index += u32::from(found.is_none());
    }
    reach(tx, wallet, &mut chain, index, mode, writes)?;
    chain.store(wallet, writes);
    found.ok_or(WalletError::Bug("no address was found"))
}

fn reach(
    tx: &mut Tx<'_>,
    wallet: &mut WalletRow,
    chain: &mut KeychainState,
    index: u32,
    mode: ApplyMode,
    writes: &mut PendingWrites,
) -> Result<(), WalletError> {
    if index >= MAX_INDEX {
        return Err(WalletError::Argument("this chain has no addresses left".into()));
    }
    chain.note_given(index);
    chain.extend(tx, wallet, mode, writes).map(drop)
}

fn address_at(
    tx: &mut Tx<'_>,
    wallet: &WalletRow,
    chain: RowId,
    index: u32,
) -> Result<Option<AddressInfo>, WalletError> {
    let args = [Arg::Int(wallet.id.0), Arg::Int(chain.0), Arg::Int(index.into())];
    tx.maybe(ADDRESS, &args)?.map(|row| address_info(&row)).transpose()
}
