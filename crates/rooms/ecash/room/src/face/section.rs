//! `[ecash]` of the configuration.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use unspent_ecash::schema::SCHEMA;
use unspent_server::{
    config::{Config, check_database, check_span, database, section, wrong},
    error::CliError,
};
use unspent_sql::{Options, Url, is_there};

use super::key::{KEY_FILE, key};
use crate::{
    DATABASE, EcashRoom,
    mint::{MintOptions, check::MintBlocklist},
    watch::ListenerOptions,
    work::{counters::COUNTERS_FILE, worker::WorkerOptions},
};

section! {
    /// The ecash room: Cashu and Spark payments. It follows no chain.
    pub(crate) struct EcashSection in "ecash" {
        /// Off unless switched on: it holds money
        enabled: bool = false;
        /// sqlite:PATH or postgres://USER@HOST/NAME; a file ecash.db in the data folder by default
        url: Option<String>, example "\"sqlite:/var/lib/unspent/ecash.db\"", flag value "URL",
            was "UNSPENT_ECASH_DB" "--db", rival "url_file";
        /// A file that holds the URL, when it has a password
        url_file: Option<PathBuf>, example "\"/etc/unspent/ecash-url\"", flag value "FILE", rival "url";
        /// Secrets are sealed with this key file (at least 32 random bytes); without it and without
        /// a passphrase a file ecash.key is made in the data folder
        key_file: Option<PathBuf>, example "\"/etc/unspent/ecash.key\"", flag value "FILE",
            rival "passphrase_file";
        /// A file with a passphrase that secrets are sealed with, instead of a key file
        passphrase_file: Option<PathBuf>, example "\"/etc/unspent/ecash-passphrase\"",
            flag value "FILE", rival "key_file";
        /// Mints that are never used, each wholly or in one unit
        mint_blocklist: Vec<String> = Vec::new(), example "[\"https://mint.example usd\"]",
            flag list "MINT", was "--block";
        /// Mints on this machine and in private networks may be called: a token names its mint
        allow_private: bool = false, flag switch;
        /// Before a payment whose outcome was ever unknown is called failed, its proofs are swapped
        fence: bool = false, flag switch;
        /// So many seconds after its end a payment that ended unpaid is still looked at
        late_payment_grace_seconds: u64 = WorkerOptions::default().late_payment_grace.as_secs(),
            flag value "SECONDS";
        /// A Spark wallet in another process; no real Spark operator has been tried
        spark_url: Option<String>, example "\"http://127.0.0.1:4100\"", flag value "URL";
    }
}

impl EcashSection {
    pub(super) fn check(&self, config: &Config) -> anyhow::Result<()> {
        check_database(config, "ecash", self.url.as_deref(), self.url_file.as_deref())?;
        if self.key_file.is_some() && self.passphrase_file.is_some() {
            return Err(wrong("set ecash.key_file or ecash.passphrase_file, not both"));
        }
        self.blocklist()?;
        check_span("ecash.late_payment_grace_seconds", self.late_payment_grace_seconds)
    }

    pub(super) fn mints(&self) -> MintOptions {
        MintOptions { allow_private: self.allow_private, ..MintOptions::default() }
    }

    pub(super) fn worker(&self) -> WorkerOptions {
        let late_payment_grace = Duration::from_secs(self.late_payment_grace_seconds);
        let allow_private = self.allow_private;
        let listener = ListenerOptions { allow_private, ..ListenerOptions::default() };
        WorkerOptions { listener, late_payment_grace }
    }

    pub(super) fn blocklist(&self) -> anyhow::Result<MintBlocklist> {
        let parsed = MintBlocklist::parse(&self.mint_blocklist);
        parsed.map_err(|problem| wrong(format!("ecash.mint_blocklist: {problem}")))
    }

    /// The file that the key or its passphrase is in.
    pub(super) fn key_place(&self, config: &Config) -> PathBuf {
        let named = self.passphrase_file.clone().or_else(|| self.key_file.clone());
        named.unwrap_or_else(|| config.data_dir.join(KEY_FILE))
    }

    /// Where it is written how far counters were used: beside the key, or in the data folder where
    /// that folder is nobody's to write to.
    pub(super) fn counters(&self, config: &Config) -> Vec<PathBuf> {
        let beside = self.key_place(config).with_extension("counters");
        let own = config.data_dir.join(COUNTERS_FILE);
        if beside == own { vec![own] } else { vec![beside, own] }
    }

    /// The room, on a database that is there, or that may be made. A key is made for a new database
    /// alone: one beside an old database could not open it, and would pass for the one that can.
    pub(super) fn room(&self, config: &Config, may_make: MayMake) -> anyhow::Result<EcashRoom> {
        let url = self.database(config)?;
        let is_new = !is_there(&url, &SCHEMA, Options::default())?;
        if is_new && may_make == MayMake::Nothing {
            return Err(absent(&url));
        }
        if is_new {
            make_folder(&url)?;
        }
        let (file, words) = (self.key_file.as_deref(), self.passphrase_file.as_deref());
        // Whatever a file holds, it isn't new: a key made beside it could not open it.
        let is_file = matches!(&url, Url::Sqlite(path) if path.exists());
        let key = key(file, words, &config.data_dir, is_new && !is_file)?;
        Ok(EcashRoom {
            url,
            mints: self.mints(),
            worker: self.worker(),
            spark_url: self.spark_url.clone(),
            fence: self.fence,
            counters: self.counters(config),
            ..EcashRoom::new(&config.data_dir, key)
        })
    }

    /// The room's database.
    pub(super) fn database(&self, config: &Config) -> anyhow::Result<Url> {
        database(self.url.as_deref(), self.url_file.as_deref(), config.data_dir.join(DATABASE))
    }
}

/// Whether a database, with its seed and its key, may come into being.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MayMake {
    DatabaseAndKey,
    Nothing,
}

fn absent(url: &Url) -> anyhow::Error {
    let message = format!("there is no ecash database in {url}; nothing was made");
    let hint = "`unspent ecash account add MINT` makes one; one that lies elsewhere is named by \
                ecash.url in --config, or by --url";
    CliError::refused(message).hint(hint).into()
}

fn make_folder(url: &Url) -> anyhow::Result<()> {
    let Url::Sqlite(path) = url else { return Ok(()) };
    match path.parent().filter(|folder| *folder != Path::new("")) {
        Some(folder) => std::fs::create_dir_all(folder)
            .with_context(|| format!("can't make {}", folder.display())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use unspent_server::{
        config::{GivenFlag, SettingSources, load},
        room::Rooms,
    };

    use super::*;
    use crate::EcashFace;

    #[test]
    fn what_is_configured_reaches_the_room() {
        let folder = tempfile::tempdir().unwrap();
        let settings = [
            ("data_dir", folder.path().to_str().unwrap()),
            ("ecash.fence", "true"),
            ("ecash.spark_url", "http://127.0.0.1:9"),
            ("ecash.allow_private", "true"),
            ("ecash.late_payment_grace_seconds", "77"),
        ];
        let flags = settings.map(|(key, value)| GivenFlag::new(key, "--set", value)).into();
        let config =
            load(Rooms::new(&[&EcashFace]), &SettingSources { flags, ..SettingSources::default() });
        let config = config.unwrap();
        let section = config.room::<EcashSection>().unwrap();
        assert!(section.room(&config, MayMake::Nothing).is_err(), "there is none");
        let room = section.room(&config, MayMake::DatabaseAndKey).unwrap();
        assert!(room.fence && room.mints.allow_private && room.worker.listener.allow_private);
        assert_eq!(room.spark_url.as_deref(), Some("http://127.0.0.1:9"));
        assert_eq!(room.worker.late_payment_grace, Duration::from_secs(77));
        assert_eq!(room.url, Url::Sqlite(folder.path().join(DATABASE)));
    }

    #[test]
    fn no_key_is_made_where_a_database_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let config = |url: Option<&str>| {
            let url = url.map(|url| GivenFlag::new("ecash.url", "--set", url));
            let flags = [GivenFlag::new("data_dir", "--set", path)].into_iter().chain(url);
            let sources = SettingSources { flags: flags.collect(), ..SettingSources::default() };
            load(Rooms::new(&[&EcashFace]), &sources).unwrap()
        };
        let key = folder.path().join(KEY_FILE);
        if let Some(url) = unspent_testkit::wallet::postgres::database() {
            let config = config(Some(&url));
            let section = config.room::<EcashSection>().unwrap();
            drop(section.room(&config, MayMake::DatabaseAndKey).unwrap().executor().unwrap());
            std::fs::remove_file(&key).unwrap();
            assert!(section.room(&config, MayMake::DatabaseAndKey).is_err() && !key.exists());
        }
        let config = config(None);
        let section = config.room::<EcashSection>().unwrap();
        let made = section.room(&config, MayMake::DatabaseAndKey).unwrap();
        drop(made.executor().unwrap());
        let counters = std::fs::read(folder.path().join(COUNTERS_FILE)).unwrap();
        std::fs::remove_file(&key).unwrap();
        let database = folder.path().join(DATABASE);
        let whole = std::fs::read(&database).unwrap();
        // Also one whose content can't be told: cut off, or of somebody else.
        let cut: [&[u8]; 4] = [&whole, &whole[..whole.len() / 2], b"no database at all", b""];
        for content in cut {
            std::fs::write(&database, content).unwrap();
            for may_make in [MayMake::DatabaseAndKey, MayMake::Nothing] {
                let refused = section.room(&config, may_make);
                assert!(refused.is_err() && !key.exists(), "{}", content.len());
            }
            assert_eq!(std::fs::read(&database).unwrap(), content, "nothing is written");
        }
        assert_eq!(std::fs::read(folder.path().join(COUNTERS_FILE)).unwrap(), counters);
    }
}
