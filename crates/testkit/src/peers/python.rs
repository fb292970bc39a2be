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
pub(crate) fn environment(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let cache = cache()?;
    fs::create_dir_all(&cache).map_err(|error| format!("no cache folder: {error}"))?;
    let lock = File::create(cache.join(format!("lock-{name}")));
    let lock = lock.map_err(|error| format!("no lock: {error}"))?;
    lock.lock().map_err(|error| format!("the lock can't be taken: {error}"))?;
    let (place, wanted) = (cache.join(name), packages.join(" "));
    let (programs, whole) = (place.join("bin"), place.join("whole"));
    if fs::read_to_string(&whole).is_ok_and(|installed| installed == wanted) {
        return Ok(programs);
    }
    // What a killed run or another version left.
    let _ = fs::remove_dir_all(&place);
    run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
    run(pip(&programs.join("python")).args(["install", "--quiet"]).args(packages))?;
    fs::write(&whole, wanted).map_err(|error| error.to_string())?;
    Ok(programs)
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--disable-pip-version-check"]);
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let done = command.output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(said.lines().last().unwrap_or("it failed").to_owned())
}
