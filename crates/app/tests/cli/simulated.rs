//! Simulated chains in the forms in which nodes leave them.

use std::path::{Path, PathBuf};

use bitcoin::{Block, consensus::encode::serialize, hashes::Hash};
use serde_json::Value;
use sha2::{Digest, Sha256};
use unspent_networks::bitcoin::framing::xor;
use unspent_sim::ChainSim;

use crate::run::Folder;

const REGTEST: &[&str] = &["--network", "bitcoin-regtest"];
const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

fn busy_chain(seed: u64) -> ChainSim {
    let mut sim = ChainSim::new(seed);
    sim.mine(101);
    sim.mine_busy(40, 6);
    sim
}

/// Nodes allocate ahead.
const PADDING: usize = 13;

fn file_of<'a>(blocks: impl IntoIterator<Item = &'a Block>, key: [u8; 8]) -> Vec<u8> {
    let mut file = Vec::new();
    for block in blocks {
        let raw = serialize(block);
        file.extend(MAGIC);
        file.extend((raw.len() as u32).to_le_bytes());
        file.extend(raw);
        file.extend([0; PADDING]);
    }
    xor(&mut file, &key, 0);
    file
}

/// The simulator's own truth in the form of `chain digest`.
fn truth(sim: &ChainSim) -> (u64, String, String) {
    let mut coins: Vec<_> = sim.coins().iter().collect();
    let shown = |txid: &bitcoin::Txid| {
        let mut bytes = txid.to_byte_array();
        bytes.reverse();
        bytes
    };
    coins.sort_by_key(|(at, _)| (shown(&at.txid), at.vout));
    let mut hash = Sha256::new();
    let mut sum = 0;
    for (at, coin) in &coins {
        sum += coin.output.value.to_sat();
        hash.update(shown(&at.txid));
        hash.update(at.vout.to_be_bytes());
        hash.update(coin.output.value.to_sat().to_be_bytes());
        hash.update(coin.output.script_pubkey.as_bytes());
    }
    (coins.len() as u64, sum.to_string(), hex::encode(hash.finalize()))
}

fn assert_truth(folder: &Folder, sim: &ChainSim) {
    let digest = folder.digest();
    let (coins, sum, hash) = truth(sim);
    assert_eq!(digest["height"], sim.height());
    assert_eq!(digest["utxos"], coins);
    assert_eq!(digest["value"], sum);
    assert_eq!(digest["sha256"], hash);
}

fn write(folder: &Folder, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.beside("blocks");
    std::fs::create_dir_all(&path).unwrap();
    let path = path.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn shuffled_obfuscated_files_with_stale_blocks_give_the_simulators_truth() {
    let mut sim = busy_chain(7);
    sim.fork(3).unwrap();
    sim.mine_busy(10, 5);
    sim.fork_of_length(4, 2).unwrap();
    let stale = sim.all_blocks().count() - sim.active_blocks().count();
    // Every second block goes to the other file, newest first.
    let all: Vec<_> = sim.all_blocks().map(|block| &block.block).collect();
    let part = |rest: usize| all.iter().rev().skip(rest).step_by(2).copied();
    let key = [0x5a, 1, 0, 0xff, 7, 0x33, 9, 0x80];
    let folder = Folder::new();
    write(&folder, "blk00000.dat", &file_of(part(0), key));
    write(&folder, "blk00001.dat.zst", &zstd::encode_all(&file_of(part(1), key)[..], 1).unwrap());
    write(&folder, "xor.dat", &key);
    write(&folder, "rev00000.dat", b"undo data of the node");
    let summary = folder.import(REGTEST, &[&folder.beside("blocks")]).json();
    assert_eq!(summary["stale_blocks"], stale);
    assert_eq!(summary["missing_inputs"], 0);
    assert_truth(&folder, &sim);
    folder.assert_consistent();
}

#[test]
fn a_chain_that_grows_and_forks_between_imports_follows_the_simulator() {
    let mut sim = busy_chain(11);
    let folder = Folder::new();
    for depth in [0, 1, 5, 2, 9] {
        if depth > 0 {
            sim.fork(depth).unwrap();
        }
        let all = sim.all_blocks().map(|block| &block.block);
        let file = write(&folder, "blk00000.dat", &file_of(all, [0; 8]));
        let summary = folder.import(REGTEST, &[&file]).json();
        let undone = summary["rolled_back"]["blocks"].as_u64().unwrap_or(0);
        assert_eq!(undone, u64::from(depth));
        assert_truth(&folder, &sim);
    }
    folder.assert_consistent();
}

#[test]
fn among_branches_of_equal_work_the_one_that_undoes_nothing_wins() {
    let (mut extended, mut forked) = (busy_chain(13), busy_chain(13));
    let folder = Folder::new();
    let main = file_of(extended.active_blocks().map(|block| &block.block), [0; 8]);
    let main = write(&folder, "blk00000.dat", &main);
    folder.import(REGTEST, &[&main]).json();
    extended.mine(1);
    let reorg = forked.fork(3).unwrap();
    let rivals = reorg.new.iter().map(|hash| &forked.block(hash).unwrap().block);
    let next = &extended.block_at(extended.height()).unwrap().block;
    let more = file_of(rivals.chain([next]), [0; 8]);
    let more = write(&folder, "blk00001.dat", &more);
    let summary = folder.import(REGTEST, &[&more]).json();
    assert_eq!((&summary["blocks"], &summary["rolled_back"]), (&1.into(), &Value::Null));
    assert_eq!(summary["stale_blocks"], 4);
    assert_truth(&folder, &extended);
}

#[test]
fn a_broken_block_is_named_and_a_good_branch_is_not_left_for_it() {
    let mut sim = busy_chain(3);
    let folder = Folder::new();
    let main = file_of(sim.active_blocks().map(|block| &block.block), [0; 8]);
    let main = write(&folder, "blk00000.dat", &main);
    folder.import(REGTEST, &[&main]).json();
    let before = folder.digest();
    let reorg = sim.fork(3).unwrap();
    let mut new: Vec<_> =
        reorg.new.iter().map(|hash| sim.block(hash).unwrap().block.clone()).collect();
    // The header stays, so the branch still looks better; the body no longer matches it.
    new[2].txdata[0].lock_time = bitcoin::absolute::LockTime::from_height(5).unwrap();
    let broken = write(&folder, "blk00001.dat", &file_of(&new, [0; 8]));
    let error = folder.import(REGTEST, &[&broken]).error(1);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("blk00001.dat") && message.contains("height"), "{message}");
    assert!(message.contains("merkle root"), "{message}");
    assert_eq!(folder.digest(), before);
}

/// What a node leaves that died while writing: the end of a block is missing, and it wrote on.
#[test]
fn damaged_places_of_a_block_file_are_passed_over_and_counted() {
    let sim = busy_chain(5);
    let key = [9, 8, 7, 6, 5, 4, 3, 2];
    let blocks: Vec<_> = sim.active_blocks().map(|block| &block.block).collect();
    let one = |block| file_of([block], [0; 8]);
    let mut bytes = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let whole = one(*block);
        match at {
            // Torn, and written again behind it, as a node does that fetches it once more.
            7 => bytes.extend([&whole[..whole.len() - PADDING - 5], &whole].concat()),
            // Garbage between two blocks; something like a frame is in it.
            11 => bytes.extend([&[0x5a; 700][..], &whole[..4], &[0xff; 60], &whole].concat()),
            _ => bytes.extend(whole),
        }
    }
    let last = one(blocks[blocks.len() - 1]);
    bytes.extend(&last[..90]);
    for (name, key) in [("plain", [0; 8]), ("obfuscated", key)] {
        let folder = Folder::new();
        let mut stored = bytes.clone();
        xor(&mut stored, &key, 0);
        let file = write(&folder, "blk00000.dat", &stored);
        write(&folder, "xor.dat", &key);
        let summary = folder.import(REGTEST, &[&file]).json();
        let torn = (one(blocks[7]).len() - PADDING - 5) as u64;
        assert_eq!(summary["passed_over_bytes"], torn + 764 + 90, "{name}: {summary}");
        assert_eq!(summary["warnings"].as_array().unwrap().len(), 4, "{summary}");
        assert_truth(&folder, &sim);
    }
}

#[test]
fn a_wrong_key_is_refused_before_anything_is_written() {
    let sim = busy_chain(5);
    let folder = Folder::new();
    let whole = file_of(sim.active_blocks().map(|block| &block.block), [0; 8]);
    let mut obfuscated = whole.clone();
    xor(&mut obfuscated, &[1, 2, 3, 4, 5, 6, 7, 8], 0);
    let obfuscated = write(&folder, "blk00001.dat", &obfuscated);
    write(&folder, "xor.dat", &[8; 8]);
    let error = folder.import(REGTEST, &[&obfuscated]).error(1);
    assert!(error["hint"].as_str().unwrap().contains("xor.dat"), "{error}");
    assert!(!folder.data().exists());
}

#[test]
fn upkeep_and_questions_need_no_options_that_the_folder_knows() {
    let sim = busy_chain(9);
    let folder = Folder::new();
    let file = file_of(sim.active_blocks().map(|block| &block.block), [0; 8]);
    let file = write(&folder, "blk00000.dat", &file);
    let strategy = ["--indexing-strategy", "payment_credential"];
    folder.import(&[REGTEST, strategy.as_slice()].concat(), &[&file]).json();
    let some = sim.coins().values().next().unwrap().output.script_pubkey.to_hex_string();
    let error = folder.chain(&["utxos", &some]).error(1);
    assert!(error["message"].as_str().unwrap().contains("address_hash"), "{error}");
    assert_eq!(folder.chain(&["rollback", "--to", "130"]).json()["tip"]["height"], 130);
    assert!(
        folder.chain(&["prune", "--prune-depth", "3", "--rollback-window", "3"]).json()["deltas"]
            .as_u64()
            > Some(0)
    );
    let error = folder.chain(&["rollback", "--to", "100"]).error(1);
    assert!(error["message"].as_str().unwrap().contains("only the last 3"), "{error}");
    folder.import(&[], &[&file]).json();
    assert_truth(&folder, &sim);
    let status = folder.chain(&["status"]).json();
    assert_eq!(status["index"]["payment_credential"], true);
    assert_eq!(status["index"]["address_hash"], false);
    // The windows chosen last hold until others are given.
    assert_eq!(status["rollback_blocks"], 3);
}

#[test]
fn a_larger_window_is_remembered_by_later_commands() {
    let sim = busy_chain(4);
    let folder = Folder::new();
    let file = file_of(sim.active_blocks().map(|block| &block.block), [0; 8]);
    let file = write(&folder, "blk00000.dat", &file);
    let windows = ["--prune-depth", "5", "--rollback-window", "60"];
    folder.import(&[REGTEST, windows.as_slice()].concat(), &[&file]).json();
    folder.chain(&["prune"]).json();
    assert_eq!(folder.chain(&["status"]).json()["rollback_blocks"], 60);
}

#[test]
fn with_the_index_switched_off_only_points_are_kept() {
    let sim = busy_chain(2);
    let folder = Folder::new();
    let file = file_of(sim.active_blocks().map(|block| &block.block), [0; 8]);
    let file = write(&folder, "blk00000.dat", &file);
    folder.import(&[REGTEST, &["--enabled", "false"]].concat(), &[&file]).json();
    let status = folder.chain(&["status"]).json();
    assert_eq!((&status["enabled"], &status["utxos"]), (&false.into(), &0.into()));
    assert_eq!(status["chain"]["height"], sim.height());
    let families: Vec<_> = status["sizes"].as_array().unwrap().iter().map(family).collect();
    assert!(families.iter().all(|name| !name.starts_with("utxo")), "{families:?}");
    folder.chain(&["digest"]).error(1);
}

fn family(size: &Value) -> String {
    size["family"].as_str().unwrap().to_owned()
}

#[test]
fn human_answers_are_tables() {
    let sim = busy_chain(4);
    let folder = Folder::new();
    let file = file_of(sim.active_blocks().map(|block| &block.block), [0; 8]);
    let file: &Path = &write(&folder, "blk00000.dat", &file);
    let options = ["chain", "import", "--network", "bitcoin-regtest", file.to_str().unwrap()];
    let import = folder.run(&options);
    assert_eq!(import.code, 0, "{}", import.err);
    assert!(import.out.contains("blocks applied") && import.out.contains("142"), "{}", import.out);
    let (at, coin) = sim.coins().iter().next().unwrap();
    let name = format!("{}#{}", at.txid, at.vout);
    let address = coin.output.script_pubkey.to_hex_string();
    let commands: [&[&str]; 7] = [
        &["status"],
        &["utxos", &address],
        &["utxo", &name],
        &["balance", &address],
        &["delta", "141"],
        &["verify"],
        &["digest"],
    ];
    for command in commands {
        let ended = folder.run(&[&["chain"], command].concat());
        assert_eq!(ended.code, 0, "{command:?}: {}", ended.err);
        assert!(ended.out.contains('│'), "{command:?}: {}", ended.out);
    }
}

/// A chain of this seed as a block file.
pub(crate) fn block_file(seed: u64) -> Vec<u8> {
    let sim = busy_chain(seed);
    file_of(sim.active_blocks().map(|block| &block.block), [0; 8])
}
