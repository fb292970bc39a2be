//! The description of the interface is valid, and clients that tools make of it work.
//!
//! Each test fetches its tool into the cache of peers, has it write a client, and lets a small
//! program talk through that client with a daemon: `clients/` holds the programs. Where a tool
//! can't be had the test says SKIPPED, unless `UNSPENT_REQUIRE_PEERS=1`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use unspent_testkit::peers::{npm, python::environment, required};

use crate::{
    daemon::{Daemon, Folder},
    world::{self, SEED_SETTING, funded},
};

const VALIDATOR: &str = "openapi-spec-validator==0.9.0";
const PYTHON_CLIENT: &str = "openapi-python-client==0.29.1";
/// The Python package holds the generator itself, a program for Java.
const GENERATOR: &str = "openapi-generator-cli==7.26.0";
/// What the generator's Python clients import.
const GENERATED_NEEDS: [&str; 4] = [
    "urllib3==2.6.3",
    "python-dateutil==2.9.0.post0",
    "pydantic==2.12.5",
    "typing-extensions==4.15.0",
];
const TYPESCRIPT: [&str; 2] = ["typescript@5.9.3", "@types/node@20.19.0"];

/// Runs a command; what it said is shown when it fails.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr);
    let tail = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    };
    assert!(output.status.success(), "{command:?}:\n{}\n{}", tail(&said), tail(&wrong));
    said + &wrong
}

/// A daemon with a funded wallet's keys at hand, and its description in a file.
struct Described {
    folder: Folder,
    daemon: Daemon,
    document: PathBuf,
}

impl Described {
    fn new() -> Self {
        let folder = funded();
        let daemon = folder.start(&[SEED_SETTING]);
        daemon.wait_for("the chain is there", |client| {
            client.get("/api/v1/blocks/tip").json()["height"] == 113
        });
        let document = folder.beside("openapi.json");
        let text = daemon.admin().get("/api/v1/openapi.json").text;
        std::fs::write(&document, text).unwrap();
        Self { folder, daemon, document }
    }

    /// What the programs in `clients/` are told.
    fn told<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("UNSPENT_URL", format!("http://{}", self.daemon.address))
            .env("UNSPENT_TOKEN", &self.daemon.cookie)
            .env("UNSPENT_DESCRIPTOR", world::descriptor())
            .env("UNSPENT_ADDRESS", world::address(0))
            // The programs lie among the sources, and share one of their modules.
            .env("PYTHONDONTWRITEBYTECODE", "1")
    }

    /// What the program has done is there.
    fn check(&self, said: &str) {
        assert!(said.contains("all is well"), "{said}");
        let leases = self.daemon.admin().get("/api/v1/wallets/generated/leases").ok();
        assert_eq!(leases["leases"].as_array().unwrap().len(), 1, "{leases}");
    }
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/clients").join(name)
}

#[test]
fn the_description_is_valid() {
    let tools = environment("openapi-spec-validator", &[VALIDATOR]);
    let Some(tools) = required("openapi-spec-validator", tools) else { return };
    let described = Described::new();
    let mut command = Command::new(tools.join("python"));
    run(command.args(["-m", "openapi_spec_validator"]).arg(&described.document));
}

#[test]
fn a_client_of_openapi_python_client_works() {
    let tools = environment("openapi-python-client", &[PYTHON_CLIENT]);
    let Some(tools) = required("openapi-python-client", tools) else { return };
    let described = Described::new();
    let made = described.folder.beside("client");
    let mut command = Command::new(tools.join("openapi-python-client"));
    command.args(["generate", "--meta", "none", "--path"]);
    command.arg(&described.document).arg("--output-path").arg(made.join("unspent_client"));
    // It would have a linter tidy up what it wrote.
    let settings = described.folder.beside("settings.yml");
    std::fs::write(&settings, "post_hooks: []\n").unwrap();
    std::fs::create_dir_all(&made).unwrap();
    let said = run(command.arg("--config").arg(&settings));
    // Bodies of plain text are nothing that this tool knows.
    let odd = said.lines().filter(|line| line.contains("WARNING") || line.contains("Unable"));
    let odd: Vec<&str> = odd.filter(|line| !line.contains("/labels/")).collect();
    assert!(odd.is_empty(), "{odd:?}");
    let mut command = Command::new(tools.join("python"));
    command.arg(program("python_client.py")).env("PYTHONPATH", &made);
    described.check(&run(described.told(&mut command)));
}

/// The generator in its package, when there is a Java to run it.
fn generator() -> Result<PathBuf, String> {
    let java = Command::new("java").arg("-version").output();
    java.map_err(|error| format!("java (scripts/deps java installs it): {error}"))?;
    let tools = environment("openapi-generator", &[GENERATOR])?;
    let script = "import openapi_generator_cli as it; print(it.__path__[0])";
    let found = Command::new(tools.join("python")).args(["-c", script]).output();
    let found = found.map_err(|error| error.to_string())?;
    let folder = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let jar = Path::new(&folder).join("openapi-generator.jar");
    if jar.is_file() { Ok(jar) } else { Err("the package holds no generator".into()) }
}

fn generate(jar: &Path, described: &Described, language: &str, more: &[&str]) -> PathBuf {
    let made = described.folder.beside(language);
    let mut command = Command::new("java");
    command.arg("-jar").arg(jar).args(["generate", "-g", language, "-i"]);
    command.arg(&described.document).arg("-o").arg(&made).args(more);
    run(&mut command);
    made
}

#[test]
fn a_python_client_of_openapi_generator_works() {
    let Some(jar) = required("openapi-generator", generator()) else { return };
    let tools = environment("openapi-generator-python", &GENERATED_NEEDS);
    let Some(tools) = required("what generated clients import", tools) else { return };
    let described = Described::new();
    let made = generate(&jar, &described, "python", &["--package-name", "unspent_client"]);
    let mut command = Command::new(tools.join("python"));
    command.arg(program("generator_python.py")).env("PYTHONPATH", &made);
    described.check(&run(described.told(&mut command)));
}

#[test]
fn a_typescript_client_of_openapi_generator_compiles_and_works() {
    let Some(jar) = required("openapi-generator", generator()) else { return };
    let node = npm::packages("typescript", &TYPESCRIPT);
    let Some(node) = required("typescript (scripts/deps node installs node and npm)", node) else {
        return;
    };
    let described = Described::new();
    let made = generate(&jar, &described, "typescript-fetch", &[]);
    let source = made.join("program.ts");
    std::fs::copy(program("program.ts"), &source).unwrap();
    let modules = node.join("node_modules");
    std::os::unix::fs::symlink(&modules, made.join("node_modules")).unwrap();
    let mut command = Command::new("node");
    command.arg(modules.join("typescript/bin/tsc")).current_dir(&made);
    command.args(["--strict", "--skipLibCheck", "--target", "es2022", "--module", "commonjs"]);
    command.args(["--lib", "es2022,dom", "--types", "node", "--outDir", "built", "program.ts"]);
    run(&mut command);
    let mut command = Command::new("node");
    command.arg(made.join("built/program.js"));
    described.check(&run(described.told(&mut command)));
}
