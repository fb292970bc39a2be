//! The open database: its key, its seed, its accounts and keysets, and the worker's lease.

use std::{collections::BTreeMap, fmt, sync::Arc};

use cashu::MintUrl;
use unspent_model::Micros;
use unspent_sql::{
    Arg, Backend, BulkStatement, Column, Door, Options, Row, SqlError, Tx, Url, is_there,
};
use zeroize::Zeroizing;

use crate::{
    error::EcashError,
    schema::SCHEMA,
    seal::{KeySource, SecretSealer, random},
};

/// Seed of a wallet: 64 bytes, as BIP-39 gives them.
pub type WalletSeed = Zeroizing<[u8; 64]>;

const SALT: usize = 16;
const SEED: &str = "seed";

const READ_STORE: &str = "SELECT salt, sealed_seed FROM store WHERE one = 1";
const WRITE_STORE: &str = "INSERT INTO store (one, salt, sealed_seed, journal_number)
    VALUES (1, $1, $2, 0) ON CONFLICT (one) DO NOTHING";

/// All ecash of one database. `Debug` shows neither key nor seed.
pub struct EcashStore {
    pub(crate) door: Door,
    pub(crate) sealer: Arc<SecretSealer>,
    seed: WalletSeed,
}

impl fmt::Debug for EcashStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EcashStore({:?})", self.door.backend())
    }
}

impl EcashStore {
    /// Opens the database. One that is new gets `seed`, or a random one; one that is there keeps
    /// its own.
    ///
    /// # Errors
    ///
    /// [`EcashError::Open`], or [`EcashError::WrongKey`]; nothing is changed.
    pub fn open(
        url: &Url,
        key: &KeySource,
        seed: Option<WalletSeed>,
        options: Options,
    ) -> Result<Self, EcashError> {
        let door = Door::open(url, &SCHEMA, options)?;
        if let Some(row) = door.read(|tx| tx.maybe(READ_STORE, &[]))? {
            return Self::unlock(door, key, &row);
        }
        let mut salt = [0_u8; SALT];
        random(&mut salt)?;
        let mut fresh = seed.unwrap_or_else(|| Zeroizing::new([0; 64]));
        // A seed of zeros is one that somebody forgot to fill: everybody could derive its money.
        if fresh.iter().all(|byte| *byte == 0) {
            random(fresh.as_mut_slice())?;
        }
        let sealed = SecretSealer::new(key, &salt)?.seal(SEED, fresh.as_slice())?;
        // Two may make it at once: the row that is there counts.
        let row = door.write(move |tx| -> Result<Row, SqlError> {
            tx.execute(WRITE_STORE, &[Arg::Blob(&salt), Arg::Blob(&sealed)])?;
            tx.one(READ_STORE, &[])
        })?;
        Self::unlock(door, key, &row)
    }

    /// Opens a database that is there already. One that isn't is refused, and not made: a second
    /// database of money, with another seed, would hide the first.
    ///
    /// # Errors
    ///
    /// [`EcashError::Absent`], [`EcashError::Open`], or [`EcashError::WrongKey`]; nothing is
    /// changed.
    pub fn open_existing(url: &Url, key: &KeySource, options: Options) -> Result<Self, EcashError> {
        let absent = || EcashError::Absent(url.clone());
        if !is_there(url, &SCHEMA, options)? {
            return Err(absent());
        }
        let door = Door::open(url, &SCHEMA, options)?;
        let row = door.read(|tx| tx.maybe(READ_STORE, &[]))?;
        Self::unlock(door, key, &row.ok_or_else(absent)?)
    }

    fn unlock(door: Door, key: &KeySource, row: &Row) -> Result<Self, EcashError> {
        let sealer = SecretSealer::new(key, &row.blob("salt")?)?;
        let opened = sealer.open(SEED, &row.blob("sealed_seed")?);
        let opened = opened.map_err(|_| EcashError::WrongKey)?;
        let mut seed = Zeroizing::new([0; 64]);
        if opened.len() != seed.len() {
            return Err(EcashError::Corrupt("the seed has a wrong length".into()));
        }
        seed.copy_from_slice(&opened);
        Ok(Self { door, sealer: Arc::new(sealer), seed })
    }

    /// The seed that all outputs derive from.
    pub fn seed(&self) -> &WalletSeed {
        &self.seed
    }

    /// A name of this database and of its copies, which says nothing about what is in it.
    ///
    /// # Errors
    ///
    /// [`EcashError::Bug`] when no name can be made.
    pub fn identity(&self) -> Result<String, EcashError> {
        self.sealer.name("database", "counters")
    }

    /// Statements sent since the store was opened, for those who count round trips.
    pub fn statements(&self) -> u64 {
        self.door.statements()
    }

    /// Which database this is.
    pub fn backend(&self) -> Backend {
        self.door.backend()
    }
}

/// Where money is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccountKind {
    /// Proofs of a mint.
    Cashu,
    /// A Spark wallet.
    Spark,
}

impl AccountKind {
    fn name(self) -> &'static str {
        match self {
            Self::Cashu => "CASHU",
            Self::Spark => "SPARK",
        }
    }
}

/// An account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EcashAccount {
    /// Its id.
    pub id: String,
    /// Of what kind.
    pub kind: AccountKind,
    /// For people.
    pub name: String,
    /// The mint, normalised; `None` for Spark.
    pub mint_url: Option<MintUrl>,
    /// `sat`, `usd`, …
    pub unit: String,
    /// Raised with every change of its proofs or counters.
    pub version: u64,
}

/// A keyset as the mint describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeysetInfo {
    /// Its id, in hexadecimal.
    pub keyset_id: String,
    /// Whether the mint signs with it.
    pub is_active: bool,
    /// What spending one of its proofs costs, in thousandths.
    pub fee_ppk: u64,
}

const ADD_ACCOUNT: &str = "INSERT INTO accounts (id, kind, name, mint_url, unit, version,
    created_at) VALUES ($1, $2, $3, $4, $5, 0, $6) ON CONFLICT DO NOTHING";
macro_rules! account {
    ($rest:literal) => {
        concat!("SELECT id, kind, name, mint_url, unit, version FROM accounts ", $rest)
    };
}
pub(crate) const ACCOUNT: &str = account!("WHERE id = $1");
pub(crate) const ACCOUNT_LOCKED: &str = account!("WHERE id = $1 AND removed_at IS NULL FOR UPDATE");
pub(crate) const ACCOUNT_AT: &str =
    account!("WHERE mint_url = $1 AND unit = $2 AND removed_at IS NULL");
const ACCOUNTS: &str = account!("WHERE removed_at IS NULL ORDER BY id");
const PUT_COUNTERS: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO counters (keyset_id, counter) VALUES ($1, 0)
        ON CONFLICT (keyset_id) DO NOTHING",
    postgres: "INSERT INTO counters (keyset_id, counter)
        SELECT k.id, 0 FROM UNNEST($1::text[]) k (id) ON CONFLICT (keyset_id) DO NOTHING",
};
const PUT_KEYSETS: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO account_keysets (account_id, keyset_id, is_active, fee_ppk, scan_from)
        VALUES ($1, $2, $3, $4, (SELECT copied_from FROM counters WHERE keyset_id = $2))
        ON CONFLICT (account_id, keyset_id) DO UPDATE SET is_active = excluded.is_active,
            fee_ppk = excluded.fee_ppk",
    postgres: "INSERT INTO account_keysets (account_id, keyset_id, is_active, fee_ppk, scan_from)
        SELECT $1, k.id, k.active, k.fee, c.copied_from
        FROM UNNEST($2::text[], $3::boolean[], $4::bigint[]) k (id, active, fee)
        JOIN counters c ON c.keyset_id = k.id
        ON CONFLICT (account_id, keyset_id) DO UPDATE SET is_active = excluded.is_active,
            fee_ppk = excluded.fee_ppk",
};
const KEYSETS: &str = "SELECT k.keyset_id AS keyset_id, k.is_active AS is_active,
        k.fee_ppk AS fee_ppk, c.counter AS counter
    FROM account_keysets k JOIN counters c ON c.keyset_id = k.keyset_id
    WHERE k.account_id = $1 ORDER BY k.keyset_id";

pub(crate) fn read_account(row: &Row) -> Result<EcashAccount, EcashError> {
    let url = row.opt_text("mint_url")?;
    let bad = |_| EcashError::Corrupt("an account's mint has no valid address".into());
    let kind = match row.text("kind")?.as_str() {
        "SPARK" => AccountKind::Spark,
        _ => AccountKind::Cashu,
    };
    Ok(EcashAccount {
        id: row.text("id")?,
        kind,
        name: row.text("name")?,
        mint_url: url.map(|url| url.parse().map_err(bad)).transpose()?,
        unit: row.text("unit")?,
        version: row.natural("version")?,
    })
}

impl EcashStore {
    /// Adds an account. The same mint and unit again, or the same id again, answers with the
    /// account that is there.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn add_account(
        &self,
        account: EcashAccount,
        now: Micros,
    ) -> Result<EcashAccount, EcashError> {
        self.add_account_with(account, Vec::new(), now)
    }

    /// The same together with what the mint says of its keysets, or nothing at all.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn add_account_with(
        &self,
        account: EcashAccount,
        keysets: Vec<KeysetInfo>,
        now: Micros,
    ) -> Result<EcashAccount, EcashError> {
        self.door.write(move |tx| {
            let url = account.mint_url.as_ref().map(ToString::to_string);
            let args = [
                Arg::Text(&account.id),
                Arg::Text(account.kind.name()),
                Arg::Text(&account.name),
                Arg::OptText(url.as_deref()),
                Arg::Text(&account.unit),
                Arg::Int(now.get()),
            ];
            tx.execute(ADD_ACCOUNT, &args)?;
            let found = match &url {
                Some(url) => tx.maybe(ACCOUNT_AT, &[Arg::Text(url), Arg::Text(&account.unit)])?,
                None => tx.maybe(ACCOUNT, &[Arg::Text(&account.id)])?,
            };
            let taken = || EcashError::Argument(format!("the id {} is taken", account.id));
            let found = read_account(&found.ok_or_else(taken)?)?;
            put_keysets(tx, &found.id, &keysets)?;
            Ok(found)
        })
    }

    /// An account by its id.
    ///
    /// # Errors
    ///
    /// [`EcashError::NotFound`].
    pub fn account(&self, id: &str) -> Result<EcashAccount, EcashError> {
        let id = id.to_owned();
        self.door.read(move |tx| read_account(&one_account(tx, &id, ACCOUNT)?))
    }

    /// All accounts.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn accounts(&self) -> Result<Vec<EcashAccount>, EcashError> {
        self.door.read(|tx| tx.query(ACCOUNTS, &[])?.iter().map(read_account).collect())
    }

    /// Writes down what the mint says of its keysets. Counters are kept.
    ///
    /// # Errors
    ///
    /// [`EcashError::NotFound`] for an account that isn't there.
    pub fn put_keysets(&self, account: &str, keysets: Vec<KeysetInfo>) -> Result<(), EcashError> {
        let account = account.to_owned();
        self.door.write(move |tx| {
            one_account(tx, &account, ACCOUNT)?;
            put_keysets(tx, &account, &keysets)
        })
    }

    /// The keysets of an account, each with the counter of its next output: the same for every
    /// account that lists the keyset.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn keysets(&self, account: &str) -> Result<Vec<(KeysetInfo, u32)>, EcashError> {
        let account = account.to_owned();
        self.door.read(move |tx| {
            let rows = tx.query(KEYSETS, &[Arg::Text(&account)])?;
            rows.iter()
                .map(|row| Ok((read_keyset(row)?, row.index("counter")?)))
                .collect::<Result<_, EcashError>>()
        })
    }
}

/// An id follows from the keys (NUT-02), which are public: a mint that lists them need not be the
/// one that has made them. So each account lists its own, and all draw on one counter.
pub(crate) fn put_keysets(
    tx: &mut Tx<'_>,
    account: &str,
    keysets: &[KeysetInfo],
) -> Result<(), EcashError> {
    // A mint may list one twice, which PostgreSQL doesn't take in one statement.
    let keysets: BTreeMap<&str, &KeysetInfo> =
        keysets.iter().map(|keyset| (keyset.keyset_id.as_str(), keyset)).collect();
    let (listed, keysets): (Vec<&str>, Vec<&KeysetInfo>) = keysets.into_iter().unzip();
    let ids = Column::texts(listed);
    let fees = keysets.iter().map(|keyset| sql_int(keyset.fee_ppk));
    let columns = [
        ids.clone(),
        Column::Flags(keysets.iter().map(|keyset| keyset.is_active).collect()),
        Column::ints(fees.collect::<Result<Vec<_>, _>>()?),
    ];
    tx.execute_set(PUT_COUNTERS, &[], &[ids])?;
    tx.execute_set(PUT_KEYSETS, &[Arg::Text(account)], &columns)?;
    Ok(())
}

pub(crate) fn read_keyset(row: &Row) -> Result<KeysetInfo, SqlError> {
    Ok(KeysetInfo {
        keyset_id: row.text("keyset_id")?,
        is_active: row.flag("is_active")?,
        fee_ppk: row.natural("fee_ppk")?,
    })
}

pub(crate) fn one_account(tx: &mut Tx<'_>, id: &str, how: &'static str) -> Result<Row, EcashError> {
    let missing = || EcashError::NotFound { what: "account", name: id.to_owned() };
    tx.maybe(how, &[Arg::Text(id)])?.ok_or_else(missing)
}

/// A number as SQL holds it.
pub(crate) fn sql_int(number: u64) -> Result<i64, EcashError> {
    i64::try_from(number).map_err(|_| EcashError::argument("a number is beyond 2^63"))
}

const TAKE_LEASE: &str = "INSERT INTO lease (one, holder, expires_at) VALUES (1, $1, $2)
    ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
    WHERE lease.holder = excluded.holder OR lease.expires_at <= $3";

impl EcashStore {
    /// Makes `holder` the one that works until `until`, if it is that already or nobody is.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn take_lease(&self, holder: &str, now: Micros, until: Micros) -> Result<bool, EcashError> {
        let holder = holder.to_owned();
        self.door.write(move |tx| {
            let args = [Arg::Text(&holder), Arg::Int(until.get()), Arg::Int(now.get())];
            Ok(tx.execute(TAKE_LEASE, &args)? == 1)
        })
    }
}
