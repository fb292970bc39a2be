//! Arguments that are too long for a command line, or too secret.

use std::{fs, io::Read as _};

use anyhow::Context as _;

use crate::error::CliError;

/// The largest file or standard input taken in.
const MAX_INPUT: u64 = 16 << 20;

/// Text from an argument, a file (`@PATH`) or standard input (`-`).
pub fn text_of(argument: &str) -> anyhow::Result<String> {
    let bytes = match (argument, argument.strip_prefix('@')) {
        ("-", _) => {
            let mut bytes = Vec::new();
            std::io::stdin().take(MAX_INPUT + 1).read_to_end(&mut bytes)?;
            bytes
        }
        (_, Some(path)) => {
            // A pipe or a device tells no size, so what is read is bounded, not what it says.
            let file = fs::File::open(path).with_context(|| format!("can't read {path}"))?;
            let mut bytes = Vec::new();
            let read = file.take(MAX_INPUT + 1).read_to_end(&mut bytes);
            read.with_context(|| format!("can't read {path}"))?;
            bytes
        }
        (text, None) => return Ok(text.to_owned()),
    };
    if bytes.len() as u64 > MAX_INPUT {
        return Err(CliError::input("that is more than 16 MiB").into());
    }
    // A binary PSBT is shown as hex, which every reader below understands.
    Ok(String::from_utf8(bytes).unwrap_or_else(|wrong| hex::encode(wrong.into_bytes())))
}
