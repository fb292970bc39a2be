//! `scripts/test`, which `make test` runs: steps in order, the exit code of the first that fails,
//! and in the end where the time went. Cargo is a script here that says what it was asked for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs)]

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

/// What nextest's report looks like; 21 tests, so that one is left out.
const CARGO: &str = r#"#!/usr/bin/env bash
echo "$*" >>"$HOME/asked"
if [[ $1 == "$FAILS" ]]; then code=7; else code=0; fi
if [[ $1 == nextest && $FAILS != build ]]; then
    sleep 0.3
    {
        echo '<testsuites name="nextest-run" tests="21" failures="0" time="0.214">'
        for at in {10..30}; do
            echo "<testcase name=\"a::test_$at\" classname=\"unspent-x::y\" time=\"1$at.260\">"
        done
        echo '</testsuites>'
    } >"$UNSPENT_TEST_REPORT"
fi
[[ $1 != nextest || $FAILS != build ]] || code=101
exit $code
"#;

/// Exit code, what was asked of cargo, and what was printed.
fn run(fails: &str, arguments: &[&str]) -> (Option<i32>, Vec<String>, String) {
    let home = tempfile::tempdir().unwrap();
    let programs = home.path().join(".cargo/bin");
    fs::create_dir_all(&programs).unwrap();
    fs::write(programs.join("cargo"), CARGO).unwrap();
    fs::set_permissions(programs.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    // Of a run before; it must not be taken for this one's.
    let report = home.path().join("junit.xml");
    let old = "<testcase name=\"old\" classname=\"unspent-x\" time=\"9.0\">\n";
    fs::write(&report, old).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("scripts/test"));
    command.args(arguments).current_dir(root);
    command.env("HOME", home.path()).env("UNSPENT_TEST_REPORT", &report).env("FAILS", fails);
    command.env_remove("CI");
    let done = command.output().unwrap();
    let asked = fs::read_to_string(home.path().join("asked")).unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    (done.status.code(), asked.lines().map(str::to_owned).collect(), said)
}

/// The lines of a table, without their seconds.
fn names(said: &str, table: &str) -> Vec<String> {
    let lines = said.lines().skip_while(|line| !line.starts_with(table)).skip(1);
    let lines = lines.take_while(|line| line.starts_with(' '));
    lines.map(|line| line.trim().split_once("  ").unwrap().1.to_owned()).collect()
}

#[test]
fn steps_run_in_order_and_say_how_long_they_took() {
    let (code, asked, said) = run("nothing", &["-p", "unspent-x", "some name"]);
    assert_eq!(code, Some(0), "{said}");
    let wanted = [
        "fmt --all --check",
        "machete --with-metadata crates",
        "clippy --workspace --all-targets -- -D warnings",
        "nextest run --workspace -p unspent-x some name",
        "test --workspace --doc",
    ];
    assert_eq!(asked, wanted);
    let steps = ["fmt", "machete", "clippy", "building tests", "running tests", "doctests", "all"];
    assert_eq!(names(&said, "where the time went"), steps, "{said}");
    assert!(said.contains("       0.2  running tests\n"), "what the report says: {said}");
    let slowest = names(&said, "the slowest 20 tests");
    let expected: Vec<_> = (11..=30).rev().map(|at| format!("unspent-x::y a::test_{at}")).collect();
    assert_eq!(slowest, expected, "{said}");
    assert!(said.contains("     130.3  unspent-x::y a::test_30\n"), "{said}");
}

#[test]
fn a_step_that_fails_ends_it_with_its_code_and_the_table_is_there() {
    let (code, asked, said) = run("clippy", &[]);
    assert_eq!((code, asked.len()), (Some(7), 3), "{said}");
    let steps = ["fmt", "machete", "clippy (failed)", "all"];
    assert_eq!(names(&said, "where the time went"), steps, "{said}");
    assert!(!said.contains("old"), "a report of another run: {said}");
}

#[test]
fn failing_tests_and_failing_builds_are_told_apart() {
    let (code, asked, said) = run("nextest", &[]);
    assert_eq!((code, asked.len()), (Some(7), 4), "{said}");
    let steps = ["fmt", "machete", "clippy", "building tests", "running tests (failed)", "all"];
    assert_eq!(names(&said, "where the time went"), steps, "{said}");
    assert_eq!(names(&said, "the slowest 20 tests").len(), 20, "{said}");
    let (code, _, said) = run("build", &[]);
    assert_eq!(code, Some(101), "{said}");
    let steps = ["fmt", "machete", "clippy", "tests (failed)", "all"];
    assert_eq!(names(&said, "where the time went"), steps, "{said}");
}
