//! The key that secrets are sealed with: a passphrase or a file of random bytes.
//!
//! Without either, a key file is made in the data folder, readable by its owner alone. It keeps a
//! copy of the database from being money; whoever has the whole folder has both.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use unspent_ecash::KeySource;
use unspent_server::{auth::new_private_file, config::secret, error::CliError, random};
use zeroize::Zeroizing;

/// The key file in the data folder.
pub(super) const KEY_FILE: &str = "ecash.key";
/// The largest key file that is read.
const MAX_KEY_FILE: u64 = 4096;

/// The key out of what was given; `may_make` allows a new key file in the data folder.
pub(super) fn key(
    key_file: Option<&Path>,
    passphrase_file: Option<&Path>,
    data_dir: &Path,
    may_make: bool,
) -> anyhow::Result<Arc<KeySource>> {
    let source = match (key_file, passphrase_file) {
        (_, Some(file)) => KeySource::Passphrase(Zeroizing::new(secret(file)?)),
        (Some(file), None) => from_file(file)?,
        (None, None) => from_file(&own_file(data_dir, may_make)?)?,
    };
    Ok(Arc::new(source))
}

fn own_file(data_dir: &Path, may_make: bool) -> anyhow::Result<PathBuf> {
    let file = data_dir.join(KEY_FILE);
    if file.exists() {
        return Ok(file);
    }
    if !may_make {
        let shown = file.display();
        let message = format!("there is no key file {shown}; none was made beside the database");
        let hint = "put it back, or give --key-file or --passphrase-file, as when the database was \
                    made";
        return Err(CliError::refused(message).hint(hint).into());
    }
    new_private_file(&file, &Zeroizing::new(random::bytes()?)[..])?;
    Ok(file)
}

fn from_file(file: &Path) -> anyhow::Result<KeySource> {
    let shown = file.display();
    let open = File::open(file).with_context(|| format!("can't read {shown}"))?;
    let mut bytes = Zeroizing::new(Vec::new());
    let read = open.take(MAX_KEY_FILE + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("can't read {shown}"))?;
    if bytes.len() as u64 > MAX_KEY_FILE {
        return Err(CliError::input(format!("{shown} is too large for a key file")).into());
    }
    Ok(KeySource::KeyFile(bytes))
}
