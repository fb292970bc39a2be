//! Programs out of npm packages, each set in a folder of its own in the cache.

use std::{fs, path::PathBuf, process::Command};

use super::python::{installed, run};

/// The folder that holds `node_modules` with these packages; it is made where it isn't there.
///
/// # Errors
///
/// Says why it can't be had.
pub fn packages(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    installed(name, packages, |place| {
        fs::create_dir_all(place).map_err(|error| error.to_string())?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"]);
        run(npm.arg("--prefix").arg(place).args(packages).current_dir(place))
    })
}
