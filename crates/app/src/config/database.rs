//! Where a room's database is: `url` or `url_file` of its section, or a file in the data folder.

use std::path::{Path, PathBuf};

use unspent_sql::Url;

use super::{check::wrong, secret::secret};
use crate::error::CliError;

/// Refuses both at once, and a URL that can't be read or that shows a password where others look.
pub(crate) fn check_database(
    section: &str,
    url: Option<&str>,
    url_file: Option<&Path>,
) -> anyhow::Result<()> {
    match (url, url_file) {
        (Some(_), Some(_)) => {
            Err(wrong(format!("set {section}.url or {section}.url_file, not both")))
        }
        (Some(url), None) => check_url(section, url),
        (None, _) => Ok(()),
    }
}

fn check_url(section: &str, url: &str) -> anyhow::Result<()> {
    let has_password = url.starts_with("postgres")
        && url
            .split_once("//")
            .and_then(|(_, rest)| rest.rsplit_once('@'))
            .is_some_and(|(user, _)| user.contains(':'));
    let variable = format!("UNSPENT_{}__URL", section.to_uppercase());
    if has_password && std::env::var_os(&variable).is_none() {
        return Err(wrong(format!(
            "{section}.url holds a password; put it into a file and set {section}.url_file, or set \
             {variable} in the environment"
        )));
    }
    url.parse::<Url>().map_err(|error| wrong(format!("{section}.url: {error}")))?;
    Ok(())
}

/// The database that the section names, or the file `standard`.
pub(crate) fn database(
    url: Option<&str>,
    url_file: Option<&Path>,
    standard: PathBuf,
) -> anyhow::Result<Url> {
    let given = match url_file {
        Some(file) => Some(secret(file)?),
        None => url.map(str::to_owned),
    };
    match given {
        Some(text) => text.parse().map_err(|error| CliError::usage(format!("{error}")).into()),
        None => Ok(Url::Sqlite(standard)),
    }
}
