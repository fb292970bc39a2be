//! Programs out of Python packages, each in a virtual environment of its own.
//!
//! An environment is made once, in the cache folder of the other peers. Invariant: one that is used
//! is whole, since it is marked as whole only after the installation, and the mark names what was
//! installed.

use std::{
    fs,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use super::fetch::cache;

/// The folder of an environment's programs; the environment is made where it isn't there. One test
/// makes it, the others wait.
///
/// # Errors
///
/// Says why it can't be had.
pub fn environment(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let place = installed(name, packages, |place| {
        run(Command::new("python3").args(["-m", "venv"]).arg(place))?;
        run(pip(&place.join("bin/python")).args(["install", "--quiet"]).args(packages))
    })?;
    Ok(place.join("bin"))
}

/// The folder of a peer in the cache, made by `make` unless these packages are there already.
pub(super) fn installed(
    name: &str,
    packages: &[&str],
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let cache = cache()?;
    fs::create_dir_all(&cache).map_err(|error| format!("no cache folder: {error}"))?;
    let lock = File::create(cache.join(format!("lock-{name}")));
    let lock = lock.map_err(|error| format!("no lock: {error}"))?;
    lock.lock().map_err(|error| format!("the lock can't be taken: {error}"))?;
    let (place, wanted) = (cache.join(name), packages.join(" "));
    let whole = place.join("whole");
    if fs::read_to_string(&whole).is_ok_and(|installed| installed == wanted) {
        return Ok(place);
    }
    // What a killed run or another version left.
    let _ = fs::remove_dir_all(&place);
    make(&place)?;
    fs::write(&whole, wanted).map_err(|error| error.to_string())?;
    Ok(place)
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--disable-pip-version-check"]);
    command
}

pub(super) fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| format!("{program}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(said.lines().last().unwrap_or("it failed").to_owned())
}
