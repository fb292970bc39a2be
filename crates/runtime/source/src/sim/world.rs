//! The simulator and the list of what was done to it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use unspent_sim::ChainSim;

use super::command::{Command, Did};

/// The file's name in the network's folder.
const FILE: &str = "network.log";
/// How its first line begins.
const HEADING: &str = "unspent simulated network 1 seed ";
/// Longest line that can be right: a transaction of a whole block, in hex.
const LONGEST_LINE: usize = 8_100_000;

/// Why the simulated network didn't do as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The network's rules forbid it. Nothing changed.
    #[error("the simulated network refuses: {0}")]
    Refused(String),
    /// The file can't be used. Nothing changed.
    #[error("the simulated network's file {path} can't be used: {source}")]
    File {
        /// Which file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The file holds another network.
    #[error("the file {path} has seed {found}, not {wanted}; use another folder")]
    OtherSeed {
        /// Which file.
        path: String,
        /// Its seed.
        found: String,
        /// The seed asked for.
        wanted: u64,
    },
    /// The file holds what can't be read.
    #[error(
        "line {line} of the simulated network's file {path} is damaged; delete its folder to \
         start over"
    )]
    Damaged {
        /// Which file.
        path: String,
        /// Which line.
        line: u64,
    },
}

impl SimError {
    pub(super) fn refused(why: impl ToString) -> Self {
        Self::Refused(why.to_string())
    }
}

/// The simulator with its list of commands.
pub(super) struct World {
    pub(super) sim: ChainSim,
    file: Option<(PathBuf, File)>,
    done: u64,
}

impl World {
    pub(super) fn in_memory(seed: u64) -> Self {
        Self { sim: ChainSim::new(seed), file: None, done: 0 }
    }

    /// Opens the list and carries it out again.
    pub(super) fn open(folder: &Path, seed: u64) -> Result<Self, SimError> {
        let path = folder.join(FILE);
        let name = path.display().to_string();
        let failed = |source| SimError::File { path: name.clone(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed)?;
        let mut world = Self::in_memory(seed);
        let whole = world.replay(&mut file, &name, seed)?;
        // A line without an end was cut off by a crash: nobody has seen what it did.
        file.set_len(whole).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        if whole == 0 {
            file.write_all(format!("{HEADING}{seed}\n").as_bytes()).map_err(failed)?;
        }
        world.file = Some((path, file));
        Ok(world)
    }

    /// Carries out every whole line; returns the bytes of those.
    fn replay(&mut self, file: &mut File, name: &str, seed: u64) -> Result<u64, SimError> {
        let failed = |source| SimError::File { path: name.to_owned(), source };
        let mut reader = BufReader::new(file);
        let (mut line, mut number, mut whole) = (String::new(), 0, 0);
        loop {
            line.clear();
            let read = reader.read_line(&mut line).map_err(failed)?;
            let Some(text) = line.strip_suffix('\n') else { return Ok(whole) };
            number += 1;
            whole += read as u64;
            if number == 1 {
                check_heading(text, name, seed)?;
                continue;
            }
            let damaged = || SimError::Damaged { path: name.to_owned(), line: number };
            if text.len() > LONGEST_LINE {
                return Err(damaged());
            }
            let command = Command::parse(text).ok_or_else(damaged)?;
            self.done += 1;
            // What was refused then is refused again.
            let _ = command.carry_out(&mut self.sim);
        }
    }

    /// Writes a command down, then carries it out.
    pub(super) fn carry_out(&mut self, command: &Command) -> Result<Did, SimError> {
        if let Some((path, file)) = &mut self.file {
            let written = file.write_all(format!("{command}\n").as_bytes());
            written
                .map_err(|source| SimError::File { path: path.display().to_string(), source })?;
        }
        self.done += 1;
        command.carry_out(&mut self.sim)
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }
}

fn check_heading(text: &str, name: &str, seed: u64) -> Result<(), SimError> {
    let path = name.to_owned();
    match text.strip_prefix(HEADING) {
        None => Err(SimError::Damaged { path, line: 1 }),
        Some(found) if found == seed.to_string() => Ok(()),
        Some(found) => Err(SimError::OtherSeed { path, found: found.to_owned(), wanted: seed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_opened_again_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::open(folder.path(), 5).unwrap();
        for line in ["mine 105", "busy 4 3", "fork 3", "fork 4000", "busy 1 9"] {
            let _ = world.carry_out(&Command::parse(line).unwrap());
        }
        let pool = |world: &World| world.sim.mempool().iter().map(|e| e.txid).collect::<Vec<_>>();
        let again = World::open(folder.path(), 5).unwrap();
        assert_eq!(world.sim.tip(), again.sim.tip());
        assert_eq!(world.sim.coins(), again.sim.coins());
        assert_eq!((pool(&world), world.done()), (pool(&again), 5));
        assert!(matches!(World::open(folder.path(), 6), Err(SimError::OtherSeed { .. })));
    }

    #[test]
    fn a_torn_last_line_is_forgotten_and_a_damaged_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        drop(World::open(folder.path(), 5).unwrap());
        let path = folder.path().join(FILE);
        let heading = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{heading}mine 3\nmine 4")).unwrap();
        let mut world = World::open(folder.path(), 5).unwrap();
        assert_eq!(world.sim.height(), 3);
        world.carry_out(&Command::Mine(1)).unwrap();
        assert_eq!(World::open(folder.path(), 5).unwrap().sim.height(), 4);
        fs::write(&path, format!("{heading}mine 3\nnonsense\n")).unwrap();
        assert!(matches!(World::open(folder.path(), 5), Err(SimError::Damaged { line: 3, .. })));
    }
}
