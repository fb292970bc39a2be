//! What a backup holds: every file with its size and SHA-256.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::Read as _,
    path::{Component, Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use unspent_server::CliError;

/// The list's name in the backup.
const NAME: &str = "backup.json";
/// The form of the list.
const VERSION: u32 = 1;
/// Files that a backup may hold.
const MAX_FILES: usize = 1_000_000;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// One file.
#[derive(Serialize, Deserialize, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) path: PathBuf,
    bytes: u64,
    sha256: String,
}

impl Listed {
    /// Whether a file is this one, byte by byte.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        fingerprint(path).is_ok_and(|(bytes, sha256)| bytes == self.bytes && sha256 == self.sha256)
    }
}

/// All files.
#[derive(Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    version: u32,
    pub(super) files: Vec<Listed>,
}

impl List {
    /// Everything in a folder.
    pub(super) fn of(folder: &Path) -> anyhow::Result<Self> {
        let listed = files(folder)?.into_iter().map(|path| {
            let (bytes, sha256) = fingerprint(&folder.join(&path))?;
            Ok(Listed { path, bytes, sha256 })
        });
        Ok(Self { version: VERSION, files: listed.collect::<anyhow::Result<_>>()? })
    }

    /// Names of what lies in the backup's own folder.
    pub(super) fn top_names(&self) -> BTreeSet<OsString> {
        let first = |file: &Listed| file.path.components().next().map(|c| c.as_os_str().to_owned());
        self.files.iter().filter_map(first).collect()
    }

    /// Files and their bytes.
    pub(super) fn size(&self) -> (u64, u64) {
        (self.files.len() as u64, self.files.iter().map(|file| file.bytes).sum())
    }

    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(NAME);
        let shown = path.display().to_string();
        fs::write(&path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("can't write {shown}"))?;
        let written = fs::File::open(&path).with_context(|| format!("can't read {shown}"))?;
        written.sync_all().with_context(|| format!("can't write {shown}"))
    }

    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(NAME);
        let bytes = fs::read(&path).map_err(|_| {
            CliError::refused(format!(
                "{} is not a complete backup: its list of files is missing",
                folder.display()
            ))
        })?;
        let list: Self = serde_json::from_slice(&bytes)
            .map_err(|_| CliError::refused(format!("{} can't be read", path.display())))?;
        // The list may come from elsewhere, and its paths must not lead out of either folder.
        let inside = |file: &Listed| {
            let parts = file.path.components().all(|part| matches!(part, Component::Normal(_)));
            parts && file.path.components().next().is_some()
        };
        if list.version != VERSION || !list.files.iter().all(inside) {
            return Err(
                CliError::refused(format!("{} has an unknown format", path.display())).into()
            );
        }
        Ok(list)
    }

    /// Every file is there and as it was.
    pub(super) fn check(&self, folder: &Path) -> anyhow::Result<()> {
        for file in &self.files {
            let path = folder.join(&file.path);
            if !file.is_at(&path) {
                let message = format!("{} is missing or damaged", path.display());
                return Err(CliError::refused(message).hint("nothing was restored").into());
            }
        }
        Ok(())
    }
}

/// Files of a folder and of those inside, by their path from it, in order. Links are not followed.
pub(super) fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(inner) = waiting.pop() {
        let here = folder.join(&inner);
        let entries =
            fs::read_dir(&here).with_context(|| format!("can't read {}", here.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("can't read {}", here.display()))?;
            let path = inner.join(entry.file_name());
            let kind = entry.file_type().context("can't read the file type")?;
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
            if found.len() > MAX_FILES {
                return Err(CliError::refused("the folder holds too many files").into());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn fingerprint(path: &Path) -> anyhow::Result<(u64, String)> {
    let mut file =
        fs::File::open(path).with_context(|| format!("can't read {}", path.display()))?;
    let (mut hasher, mut bytes, mut chunk) = (Sha256::new(), 0_u64, vec![0; CHUNK]);
    loop {
        let length = file.read(&mut chunk).context("can't read the rest of the file")?;
        let Some(part) = chunk.get(..length).filter(|part| !part.is_empty()) else {
            return Ok((bytes, hex::encode(hasher.finalize())));
        };
        hasher.update(part);
        bytes += length as u64;
    }
}
