//! Where a room's database is: `url` or `url_file` of its section, or a file in the data folder.

use std::path::{Path, PathBuf};

use unspent_sql::{Url, without_password};

use super::{check::wrong, layers::Origin, secret::secret, whole::Config};
use crate::error::CliError;

/// Refuses both at once, and a URL that can't be read or that shows a password where others look.
pub fn check_database(
    config: &Config,
    section: &str,
    url: Option<&str>,
    url_file: Option<&Path>,
) -> anyhow::Result<()> {
    match (url, url_file) {
        (Some(_), Some(_)) => {
            Err(wrong(format!("set {section}.url or {section}.url_file, not both")))
        }
        (Some(url), None) => check_url(config, section, url),
        (None, _) => Ok(()),
    }
}

fn check_url(config: &Config, section: &str, url: &str) -> anyhow::Result<()> {
    let has_password = url.starts_with("postgres") && without_password(url) != url;
    // A file is shown around and put under version control; the environment is the process's own.
    let is_shown = matches!(config.origin(&format!("{section}.url")), Origin::File(_));
    if has_password && is_shown {
        let variable = format!("UNSPENT_{}__URL", section.to_uppercase());
        return Err(wrong(format!(
            "{section}.url holds a password; put it into a file and set {section}.url_file, or set \
             {variable} in the environment"
        )));
    }
    url.parse::<Url>().map_err(|error| wrong(format!("{section}.url: {error}")))?;
    Ok(())
}

/// The database that the section names, or the file `standard`.
pub fn database(
    url: Option<&str>,
    url_file: Option<&Path>,
    standard: PathBuf,
) -> anyhow::Result<Url> {
    // Read when it is needed, not with the settings: who asks another room need not be able to.
    let given = match url_file {
        Some(file) => Some(secret(file)?),
        None => url.map(str::to_owned),
    };
    match given {
        Some(text) => text.parse().map_err(|error| CliError::usage(format!("{error}")).into()),
        None => Ok(Url::Sqlite(standard)),
    }
}
