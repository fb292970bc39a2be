//! Secrets stand in files of their own, so that a configuration may be shown to anybody.

use std::{fs, path::Path};

use anyhow::Context as _;

use crate::error::CliError;

/// The longest password or URL read from a file.
const MAX_SECRET: u64 = 4096;

/// A secret that stands alone in a file.
pub fn secret(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let size = fs::metadata(file).with_context(|| format!("can't read {shown}"))?.len();
    if size > MAX_SECRET {
        return Err(CliError::input(format!("{shown} is too large for a secret")).into());
    }
    let text = fs::read_to_string(file).with_context(|| format!("can't read {shown}"))?;
    Ok(text.trim().to_owned())
}
