//! The same blocks into a node and into electrs: `make bench-chain-peers`.
//!
//! Bitcoin Knots reads the blocks once (`-loadblock`), then builds its coin set from its own files
//! (`-reindex-chainstate`), twice: up to the last block before the measured ones, and to the end.
//! The difference is what the measured blocks cost. It keeps no list of coins by script, writes no
//! undo data that is there already, and checks everything, scripts included; the scripts of these
//! blocks are as cheap as scripts can be. Both may use 2 GiB. electrs has a page of its own
//! ([`electrs`]).
//!
//! Cpu is user and system time of all threads, the end of the process included.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    process::{Command, Stdio},
};

use unspent_networks::bitcoin::framing::magic;
use unspent_testkit::peers::Knots;

use crate::{electrs, measure, stream};

const COINS: &str = "1000000";
const BLOCKS: &str = "288";
/// As much as our own budget has at most, in MiB.
pub const MEMORY: &str = "-dbcache=2048";

/// What a reader must know of electrs's figure.
const ELECTRS_DOES: [&str; 3] = [
    "electrs keeps which transactions touch a script and where they lie: no coins, no values,",
    "no undo data. It looks nothing up and checks nothing; what a block spends, the node finds",
    "and hands over.",
];

/// Measures all; each part in a process of its own.
pub fn run_all() {
    println!("# chain room beside a node\n");
    let given = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let (coins, blocks) = (given(stream::COINS, COINS), given(stream::BLOCKS, BLOCKS));
    let settings = [(stream::COINS, coins.as_str()), (stream::BLOCKS, blocks.as_str())];
    let phase = |name: &str| measure::child_with(name, &settings);
    println!("{coins} coins to start, {blocks} blocks measured\n");
    phase("curve-prepare");
    let node = phase("peers-knots");
    let index = phase("bitcoin-index");
    let window = phase("bitcoin-window");
    let electrs = phase("peers-electrs");
    if node.blocks == 0.0 {
        println!("SKIPPED: Bitcoin Knots can't be had on this machine, and electrs needs it");
        return;
    }
    let has_electrs = electrs.blocks > 0.0;
    let beside =
        || [(&node, "Knots")].into_iter().chain(has_electrs.then_some((&electrs, "electrs")));
    node.show("Knots, -reindex-chainstate", None);
    if has_electrs {
        electrs.show("electrs, history by script", [(&node, "Knots")]);
    }
    index.show("index, bulk, far from the tip", beside());
    window.show("index, bulk, undo data kept", beside());
    node.show_extras();
    if has_electrs {
        electrs.show_extras();
        ELECTRS_DOES.iter().for_each(|line| println!("  {line}"));
    } else {
        println!("SKIPPED: electrs: {} names no program; make builds one", electrs::PROGRAM);
    }
}

/// What the measured blocks cost the node; nothing where there is none.
pub fn knots() -> measure::Figures {
    let Some(program) = Knots::program() else { return measure::Figures::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("blocks.dat");
    let (before, all) = write_frames(&file);
    let data = folder.path().join("node");
    fs::create_dir(&data).expect("a folder");
    let run = |args: &[String]| {
        let mut command = Command::new(program.get_program());
        command.args(program.get_args()).arg(format!("-datadir={}", data.display()));
        command.args(["-regtest", "-listen=0", "-connect=0", "-dnsseed=0", "-server=0"]);
        command.args(["-checkblockindex=0", "-checkmempool=0", MEMORY]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = (std::time::Instant::now(), measure::children_cpu_seconds());
        let ended = command.status().expect("the node can be started");
        let log = || fs::read_to_string(data.join("regtest/debug.log")).unwrap_or_default();
        assert!(ended.success(), "the node failed: {}", tail(&log()));
        (started.0.elapsed().as_secs_f64(), measure::children_cpu_seconds() - started.1)
    };
    let to = |height: usize| format!("-stopatheight={height}");
    run(&[format!("-loadblock={}", file.display()), to(all - 1)]);
    let start = run(&["-reindex-chainstate".into(), to(before - 1)]);
    let whole = run(&["-reindex-chainstate".into(), to(all - 1)]);
    let measured = all - before;
    measure::Figures {
        blocks: measured as f64,
        changes: stream::changes() as f64,
        wall_s: whole.0 - start.0,
        cpu_s: whole.1 - start.1,
        extras: std::collections::BTreeMap::from([(
            "Knots: blocks before, and all".to_owned(),
            format!("{:.1} and {:.1} s CPU", start.1, whole.1),
        )]),
    }
}

/// All blocks as a node's file holds them; how many come before the measured ones, and how many
/// there are.
pub fn write_frames(path: &Path) -> (usize, usize) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    let mut count = 0;
    for block in stream::raw() {
        let length = u32::try_from(block.len()).expect("a block under 4 GB");
        file.write_all(&magic(stream::NETWORK).expect("a magic")).expect("written");
        file.write_all(&length.to_le_bytes()).expect("written");
        file.write_all(&block).expect("written");
        count += 1;
    }
    file.flush().expect("written");
    (stream::before(), count)
}

/// The last lines.
pub fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().rev().take(15).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
