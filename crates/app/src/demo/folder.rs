//! The folder of the demonstration. It is cleared only when an earlier one made it.

use std::{fs, path::Path};

use anyhow::Context;
use unspent_server::CliError;

/// A file that says whose folder this is.
const MARK: &str = "made-by-unspent-demo";

/// Makes the folder empty and ours, or refuses to touch it.
pub(crate) fn prepare(folder: &Path) -> anyhow::Result<()> {
    let context = || format!("can't prepare the folder {}", folder.display());
    fs::create_dir_all(folder).with_context(context)?;
    let mark = folder.join(MARK);
    let is_empty = fs::read_dir(folder).with_context(context)?.next().is_none();
    if !is_empty && !mark.exists() {
        let message = format!("{} is not empty and was not made by a demo", folder.display());
        return Err(CliError::refused(message).hint("choose another folder with --dir").into());
    }
    let data = folder.join("data");
    if data.exists() {
        fs::remove_dir_all(data).with_context(context)?;
    }
    // Before anything else is made in it, so that what a crash leaves is known as ours.
    fs::write(mark, "").with_context(context)
}
