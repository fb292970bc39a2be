//! Against a real node: Bitcoin Knots, fetched and started by the tests.

use std::{
    collections::HashSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use bitcoin::{Transaction, Txid, consensus::encode::deserialize_hex};
use serde_json::json;
use unspent_model::{Network, Point};
use unspent_networks::decode_block;
use unspent_sim::shape::{ModernChain, Shape};
use unspent_source::{
    Answer, Node, Origin, Source, SourceError, Step,
    core::{Auth, CoreConfig, CoreNode},
    dates::height_of,
    folder::{Folder, FolderConfig},
};
use unspent_testkit::peers::Knots;

use crate::follow::Chain;

const NETWORK: Network = Network::BitcoinRegtest;
const SOON: Duration = Duration::from_secs(20);

fn config(node: &Knots) -> CoreConfig {
    CoreConfig {
        url: node.url(),
        roots: None,
        auth: Auth::Cookie(node.cookie()),
        network: NETWORK,
        zmq: None,
        poll: Duration::from_millis(100),
    }
}

fn core(node: &Knots) -> CoreNode {
    CoreNode::new(config(node))
}

/// Nobody's address, for blocks that no wallet has to follow.
const NOBODY: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";

fn start(extra: &[&str]) -> Option<Knots> {
    let node = Knots::start(extra)?;
    node.make_wallet();
    Some(node)
}

fn shown(point: Option<Point>) -> String {
    point.map(|point| NETWORK.show_hash(&point.hash.0)).unwrap_or_default()
}

fn txid(text: &str) -> Txid {
    text.parse().unwrap()
}

#[test]
fn the_chain_is_read_and_a_reorganisation_goes_back_to_the_fork() {
    let Some(node) = start(&[]) else { return };
    node.mine(150);
    let core = core(&node);
    let mut source = core.open().unwrap();
    assert_eq!(source.intersect(&[]).unwrap(), None);
    let mut chain = Chain::default();
    chain.catch_up(&mut *source);
    assert_eq!(chain.blocks.len(), 151, "the first block is a block");
    assert_eq!(shown(chain.tip()), node.best_hash());
    assert_eq!(source.tip(), chain.tip());
    for (height, block) in (0..).zip(&chain.blocks) {
        let decoded = decode_block(NETWORK, &block.bytes, Some(height)).unwrap();
        assert_eq!(decoded.header.point, block.point);
    }
    let fork = chain.blocks[147].point;
    node.invalidate(&shown(Some(chain.blocks[148].point)));
    node.mine(5);
    chain.catch_up(&mut *source);
    assert_eq!((chain.rollbacks.as_slice(), chain.blocks.len()), ([3].as_slice(), 153));
    assert_eq!(chain.blocks[147].point, fork);
    assert_eq!(shown(chain.tip()), node.best_hash());
    assert_eq!(source.point_at(147).unwrap(), Some(fork));
    assert_eq!(source.point_at(153).unwrap(), None);
    // Another reader finds its way back by points alone.
    let mut other = core.open().unwrap();
    let points = chain.points();
    assert_eq!(other.intersect(&points).unwrap(), chain.tip());
    let unknown = Point { height: 152, ..fork };
    assert_eq!(other.intersect(&[unknown, fork]).unwrap(), Some(fork));
    match other.next(Duration::ZERO).unwrap() {
        Step::Forward(block) => assert_eq!(block.point, chain.blocks[148].point),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shorter_chain_is_followed_back_and_a_chain_of_its_own_to_the_origin() {
    let Some(node) = start(&[]) else { return };
    let mined = node.mine(40);
    let mut source = core(&node).open().unwrap();
    source.intersect(&[]).unwrap();
    let mut chain = Chain::default();
    chain.catch_up(&mut *source);
    node.invalidate(&mined[9]);
    chain.catch_up(&mut *source);
    assert_eq!(shown(chain.tip()), mined[8]);
    assert_eq!(chain.rollbacks, [31]);
    // A node set up anew knows nothing of the place but the first block.
    let Some(other) = start(&[]) else { return };
    other.mine(5);
    let mut source = core(&other).open().unwrap();
    assert_eq!(source.intersect(&chain.points()).unwrap(), Some(chain.blocks[0].point));
}

#[test]
fn the_mempool_is_read_and_a_fee_bump_replaces() {
    let Some(node) = start(&[]) else { return };
    node.mine(180);
    let core = core(&node);
    let view = core.mempool().unwrap();
    assert_eq!((shown_hash(view.tip), view.txids.len()), (node.best_hash(), 0));
    let sent: Vec<_> = (0..60).map(|_| node.send(&node.new_address(), 1_000_000)).collect();
    let view = core.mempool().unwrap();
    let names: HashSet<Txid> = view.txids.iter().copied().collect();
    assert_eq!(names, sent.iter().map(|name| txid(name)).collect());
    let mut asked = view.txids.clone();
    asked.push(txid(&"77".repeat(32)));
    let found = core.transactions(&asked).unwrap();
    let found: HashSet<Txid> = found.iter().map(Transaction::compute_txid).collect();
    assert_eq!(found, names, "what isn't there is missing from the answer");
    let bumped = node.bump_fee(&sent[59]);
    let after: HashSet<Txid> = core.mempool().unwrap().txids.into_iter().collect();
    assert!(after.contains(&txid(&bumped)) && !after.contains(&txid(&sent[59])));
    assert!(core.transactions(&[txid(&sent[59])]).unwrap().is_empty());
}

fn shown_hash(hash: Option<unspent_model::BlockHash>) -> String {
    hash.map(|hash| NETWORK.show_hash(&hash.0)).unwrap_or_default()
}

#[test]
fn a_transaction_is_handed_over_and_refusals_carry_the_nodes_words() {
    let Some(node) = start(&[]) else { return };
    node.mine(105);
    let core = core(&node);
    let inputs = json!([[], { node.new_address(): 0.5 }]);
    let raw = node.call("createrawtransaction", inputs);
    let funded = node.call("fundrawtransaction", json!([raw]));
    let signed = node.call("signrawtransactionwithwallet", json!([funded["hex"]]));
    let tx: Transaction = deserialize_hex(signed["hex"].as_str().unwrap()).unwrap();
    assert_eq!(core.broadcast(&tx).unwrap(), Answer::Accepted);
    assert_eq!(core.broadcast(&tx).unwrap(), Answer::Accepted, "it has it already");
    let mut spends_too_much = tx.clone();
    spends_too_much.output[0].value = bitcoin::Amount::from_int_btc(21_000);
    let Answer::Rejected { reason } = core.broadcast(&spends_too_much).unwrap() else {
        panic!("it makes coins out of nothing")
    };
    assert!(!reason.is_empty());
    let mut unknown = tx.clone();
    unknown.input[0].previous_output.txid = txid(&"11".repeat(32));
    let Answer::Rejected { reason } = core.broadcast(&unknown).unwrap() else {
        panic!("its input doesn't exist")
    };
    assert!(reason.contains("missing"), "{reason}");
    node.mine(1);
    assert_eq!(core.broadcast(&tx).unwrap(), Answer::Accepted, "it is in a block");
}

/// How long a reader at the tip waits for a block that is mined half a second later.
fn time_to_news(node: &Knots, config: CoreConfig) -> Duration {
    let core = CoreNode::new(config);
    let mut source = core.open().unwrap();
    let tip = node.call("getblockcount", json!([])).as_u64().unwrap();
    source.intersect(&[]).unwrap();
    let mut chain = Chain::default();
    chain.catch_up(&mut *source);
    assert_eq!(chain.tip().unwrap().height, tip);
    std::thread::scope(|scope| {
        let mined = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(1500));
            node.mine(1);
            Instant::now()
        });
        let moved = chain.step(&mut *source, SOON).unwrap();
        let heard = Instant::now();
        assert!(moved, "nothing came in {SOON:?}");
        assert_eq!(chain.tip().unwrap().height, tip + 1);
        heard.saturating_duration_since(mined.join().unwrap())
    })
}

#[test]
fn zmq_wakes_a_reader_by_any_topic_and_without_being_told_where() {
    for topic in ["hashblock", "sequence", "rawblock"] {
        let Some(node) = start(&[&format!("-zmqpub{topic}={{zmq}}")]) else { return };
        let seldom = CoreConfig { poll: Duration::from_secs(60), ..config(&node) };
        let took = time_to_news(&node, seldom.clone());
        assert!(took < Duration::from_secs(2), "{topic}: {took:?}");
        let told = CoreConfig { zmq: Some(node.zmq_address()), ..seldom };
        let took = time_to_news(&node, told);
        assert!(took < Duration::from_secs(2), "{topic}, told where: {took:?}");
    }
}

#[test]
fn polling_finds_news_and_patience_ends() {
    let Some(node) = start(&[]) else { return };
    let took = time_to_news(&node, config(&node));
    assert!(took < Duration::from_secs(2), "{took:?}");
    let mut source = core(&node).open().unwrap();
    source.intersect(&[]).unwrap();
    Chain::default().catch_up(&mut *source);
    let started = Instant::now();
    assert!(matches!(source.next(Duration::from_millis(400)).unwrap(), Step::Nothing));
    assert!((400..3000).contains(&started.elapsed().as_millis()));
}

#[test]
fn a_node_that_restarts_is_met_again_with_its_new_cookie() {
    let Some(mut node) = start(&["-zmqpubhashblock={zmq}"]) else { return };
    node.mine(3);
    let core = CoreNode::new(CoreConfig { poll: Duration::from_secs(60), ..config(&node) });
    let mut source = core.open().unwrap();
    source.intersect(&[]).unwrap();
    let mut chain = Chain::default();
    chain.catch_up(&mut *source);
    let cookie = std::fs::read(node.cookie()).unwrap();
    node.stop();
    for _ in 0..3 {
        let error = source.next(Duration::ZERO).unwrap_err();
        assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
        assert!(error.is_passing());
    }
    assert!(core.mempool().unwrap_err().is_passing());
    node.start_again();
    assert_ne!(std::fs::read(node.cookie()).unwrap(), cookie);
    assert_eq!(source.intersect(&chain.points()).unwrap(), chain.tip());
    node.call("loadwallet", json!(["tests"]));
    node.mine(2);
    chain.catch_up(&mut *source);
    assert_eq!(shown(chain.tip()), node.best_hash());
    // The bell rings again, too.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(4));
            node.mine(1);
        });
        assert!(chain.step(&mut *source, SOON).unwrap(), "nothing came in {SOON:?}");
    });
}

#[test]
fn access_and_chain_are_checked_and_no_secret_is_shown() {
    // The salted hash of "correct horse".
    let hash = "317e47d12747f92385518d1078c34f0c3b6fb62ce25a463f8bba4bda0e9af0d9";
    let Some(node) = start(&[&format!("-rpcauth=somebody:abcd${hash}")]) else { return };
    let secret = "wrong horse";
    let with = |auth: Auth| CoreNode::new(CoreConfig { auth, ..config_without_cookie(&node) });
    let password =
        |password: &str| Auth::Password { user: "somebody".into(), password: password.to_owned() };
    with(password("correct horse")).open().map(drop).unwrap();
    for auth in [password(secret), Auth::None] {
        let core = with(auth.clone());
        let error = core.open().map(drop).unwrap_err();
        assert!(matches!(error, SourceError::Denied { .. }), "{error}");
        for shown in [format!("{error:?} {error}"), format!("{core:?} {auth:?}"), core.name()] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    let url = node.url().replace("http://", "http://somebody:correct%20horse@");
    let core = CoreNode::new(CoreConfig { url, ..config_without_cookie(&node) });
    assert!(!core.name().contains("horse"));
    let absent = Auth::Cookie(PathBuf::from("/nonexistent/.cookie"));
    assert!(with(absent).open().map(drop).unwrap_err().is_passing());
    let elsewhere = CoreConfig {
        network: Network::Bitcoin,
        auth: password("correct horse"),
        ..config_without_cookie(&node)
    };
    let error = CoreNode::new(elsewhere).open().map(drop).unwrap_err();
    let SourceError::WrongNetwork { found, wanted, .. } = &error else { panic!("{error}") };
    assert_eq!((found.as_str(), *wanted), ("regtest", Network::Bitcoin));
}

fn config_without_cookie(node: &Knots) -> CoreConfig {
    CoreConfig { auth: Auth::None, ..config(node) }
}

#[test]
fn a_pruned_node_names_the_block_it_no_longer_has() {
    let Some(node) = Knots::start(&["-prune=1", "-fastprune"]) else { return };
    node.mine_to(1200, NOBODY);
    let pruned = node.call("pruneblockchain", json!([900])).as_u64().unwrap();
    assert!(pruned > 0, "nothing was pruned");
    let mut source = core(&node).open().unwrap();
    source.intersect(&[]).unwrap();
    let error = source.next(Duration::ZERO).map(drop).unwrap_err();
    let SourceError::Missing { height, .. } = error else { panic!("{error}") };
    assert!(height <= 1, "{height}");
    // From the first block that is left on, the chain goes on.
    let first = node.call("getblockhash", json!([pruned])).as_str().unwrap().to_owned();
    let hash = unspent_model::BlockHash(NETWORK.parse_hash(&first).unwrap());
    let place = Point { height: pruned, slot: pruned, hash };
    assert_eq!(source.intersect(&[place]).unwrap(), Some(place));
    assert!(matches!(source.next(Duration::ZERO).unwrap(), Step::Forward(_)));
}

#[test]
fn catching_up_reads_ahead() {
    let Some(node) = Knots::start(&[]) else { return };
    node.mine_to(2500, NOBODY);
    let mut source = core(&node).open().unwrap();
    source.intersect(&[]).unwrap();
    let (mut chain, started) = (Chain::default(), Instant::now());
    chain.catch_up(&mut *source);
    let took = started.elapsed();
    assert_eq!(chain.blocks.len(), 2501);
    println!("2501 blocks in {took:?}");
    // One round trip per block takes several times as long.
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn its_block_files_are_followed_while_it_writes_them() {
    let Some(node) = start(&[]) else { return };
    assert!(node.blocks_folder().join("xor.dat").exists(), "the files are obfuscated");
    node.mine(110);
    let room = tempfile::tempdir().unwrap();
    let files = Folder::new(FolderConfig {
        paths: vec![node.blocks_folder()],
        network: NETWORK,
        unpack_in: room.path().to_owned(),
        poll: Duration::from_millis(20),
    });
    let mut source = files.open().unwrap();
    source.intersect(&[]).unwrap();
    let mut chain = Chain::default();
    chain.catch_up(&mut *source);
    assert_eq!(shown(chain.tip()), node.best_hash());
    let until_tip = |chain: &mut Chain, source: &mut dyn Source| {
        let until = Instant::now() + SOON;
        while shown(chain.tip()) != node.best_hash() {
            assert!(Instant::now() < until, "it doesn't get there");
            chain.step(source, Duration::from_millis(50)).unwrap();
        }
    };
    for _ in 0..20 {
        node.send(&node.new_address(), 1_000_000);
        node.mine(1);
        until_tip(&mut chain, &mut *source);
    }
    // A branch that gets more work than the one it leaves.
    node.invalidate(&shown(Some(chain.blocks[126].point)));
    node.mine(8);
    until_tip(&mut chain, &mut *source);
    assert_eq!((chain.rollbacks.as_slice(), chain.blocks.len()), ([5].as_slice(), 134));
    // The node itself tells the same.
    let mut told = Chain::default();
    let mut source = core(&node).open().unwrap();
    source.intersect(&[]).unwrap();
    told.catch_up(&mut *source);
    let bytes = |chain: &Chain| chain.blocks.iter().map(|b| b.bytes.clone()).collect::<Vec<_>>();
    assert_eq!(bytes(&told), bytes(&chain));
}

#[test]
fn large_blocks_come_through_whole() {
    let Some(node) = Knots::start(&[]) else { return };
    let shape = Shape { start_coins: 100_000, ..Shape::default() };
    let (mut blocks, mut large) = (Vec::new(), 0);
    for block in ModernChain::new(3, shape) {
        large += usize::from(block.stats.is_modern());
        if !blocks.is_empty() {
            let refused = node.call("submitblock", json!([hex::encode(&block.bytes)]));
            assert!(refused.is_null(), "{refused}");
        }
        blocks.push(block.bytes);
        if large == 50 {
            break;
        }
    }
    let mut source = core(&node).open().unwrap();
    source.intersect(&[]).unwrap();
    let (mut chain, started) = (Chain::default(), Instant::now());
    chain.catch_up(&mut *source);
    let took = started.elapsed();
    let bytes: usize = blocks.iter().map(Vec::len).sum();
    println!("{} blocks, {} MB in {took:?}", blocks.len(), bytes / 1_000_000);
    assert_eq!(chain.blocks.len(), blocks.len());
    assert!(chain.blocks.iter().zip(&blocks).all(|(block, raw)| *block.bytes == **raw));
}

/// Reads so many blocks, then leaves the reader in the middle of its catching up.
fn begin(node: &Knots, blocks: usize) -> (Box<dyn Source>, Chain) {
    let mut source = core(node).open().unwrap();
    source.intersect(&[]).unwrap();
    let mut chain = Chain::default();
    for _ in 0..blocks {
        assert!(chain.step(&mut *source, Duration::ZERO).unwrap());
    }
    (source, chain)
}

#[test]
fn a_node_that_goes_away_in_the_middle_of_catching_up_is_met_again() {
    let Some(mut node) = Knots::start(&[]) else { return };
    node.mine_to(3000, NOBODY);
    let (mut source, mut chain) = begin(&node, 100);
    node.stop();
    let error = loop {
        match chain.step(&mut *source, Duration::ZERO) {
            Ok(moved) => assert!(moved),
            Err(error) => break error,
        }
    };
    assert!(error.is_passing(), "{error}");
    assert!(chain.blocks.len() < 3001, "all had been fetched before: mine more blocks");
    node.start_again();
    assert_eq!(source.intersect(&chain.points()).unwrap(), chain.tip());
    chain.catch_up(&mut *source);
    assert_eq!((chain.blocks.len(), shown(chain.tip())), (3001, node.best_hash()));
}

#[test]
fn a_reorganisation_in_the_middle_of_catching_up_is_followed() {
    let Some(node) = start(&[]) else { return };
    node.mine_to(3000, NOBODY);
    let (mut source, mut chain) = begin(&node, 150);
    node.invalidate(&shown(Some(chain.blocks[120].point)));
    node.mine(70);
    chain.catch_up(&mut *source);
    assert_eq!((chain.blocks.len(), shown(chain.tip())), (190, node.best_hash()));
    assert_eq!(chain.rollbacks.len(), 1);
}

#[test]
fn a_date_leads_to_the_first_block_that_could_matter() {
    let Some(node) = start(&[]) else { return };
    let (began, day) = (1_700_000_000, 86_400);
    for days in 0..8 {
        node.call("setmocktime", json!([began + days * day]));
        node.mine_to(3, NOBODY);
    }
    let mut source = core(&node).open().unwrap();
    for height in [0, 1, 9, 24] {
        let hash = node.call("getblockhash", json!([height]));
        let told = node.call("getblockheader", json!([hash]))["time"].as_u64();
        assert_eq!(source.time_at(height).unwrap(), told, "{height}");
    }
    assert_eq!(source.time_at(25).unwrap(), None);
    let found = |source: &mut dyn Source, seconds| height_of(source, seconds).unwrap();
    // A day is taken off: the first block of the fifth day is the 13th, of the fourth the 10th.
    assert_eq!(found(&mut *source, began + 4 * day), Some(10));
    assert_eq!(found(&mut *source, 0), Some(0));
    assert_eq!(found(&mut *source, began), Some(1));
    assert_eq!(found(&mut *source, began + 400 * day), Some(0), "near the tip of a short chain");
}
