//! The one source of randomness.

/// 32 bytes that nobody can guess.
pub fn bytes() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("no source of randomness: {error}"))?;
    Ok(bytes)
}
