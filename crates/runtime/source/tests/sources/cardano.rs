//! Cardano sources against a server over real blocks of the preview network.

use std::{
    io::Write,
    net::TcpListener,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use pallas_codec::minicbor::Encoder;
use unspent_model::Network;
use unspent_networks::{
    cardano::{
        framing::split_cbor_items,
        head::{Head, block_head},
    },
    decode_block,
};
use unspent_source::{
    Origin, SourceError, Step,
    cardano::{Address, CardanoConfig, CardanoNode},
};
use unspent_testkit::data;

use crate::{
    cardano_server::{CardanoServer, Lie, Mischief, NETWORK, NONE, Run},
    follow::Chain,
};

fn node(address: &Address) -> CardanoNode {
    CardanoNode::new(CardanoConfig { address: address.clone(), network: NETWORK })
}

/// The blocks of some files; `None` after saying that the test is skipped.
fn run(files: &[&str]) -> Option<Arc<Run>> {
    let mut blocks = Vec::new();
    for file in files {
        let bytes = data::bytes(&format!("cardano/preview/{file}"))?;
        blocks.extend(split_cbor_items(&bytes).map(|item| item.unwrap().to_vec()));
    }
    Some(Arc::new(Run::new(blocks)))
}

fn first_run() -> Option<Arc<Run>> {
    run(&["00000.chunk"])
}

fn check(chain: &Chain, run: &Run, count: usize) {
    assert_eq!(chain.blocks.len(), count);
    for (i, block) in chain.blocks.iter().enumerate() {
        assert_eq!(*block.bytes, *run.blocks[i]);
        assert_eq!(block.point, run.heads[i].point);
    }
}

/// Follows until it has `count` blocks, intersecting anew whenever the connection breaks.
fn follow(node: &CardanoNode, chain: &mut Chain, count: usize) -> usize {
    let mut source = node.open().unwrap_or_else(|_| node.open().unwrap());
    let (mut connections, mut standing) = (0, false);
    while chain.blocks.len() < count {
        if !standing {
            connections += 1;
            assert!(connections < 2000, "it gets nowhere");
            match source.intersect(&chain.points()) {
                Ok(found) => chain.cut(found),
                Err(error) => {
                    assert!(error.is_passing(), "{error}");
                    continue;
                }
            }
            standing = true;
        }
        match chain.step(&mut *source, Duration::from_secs(20)) {
            Ok(moved) => assert!(moved, "nothing came"),
            Err(error) => {
                assert!(error.is_passing(), "{error}");
                standing = false;
            }
        }
    }
    connections
}

#[test]
fn a_chain_is_read_to_its_tip_and_waited_for_there() {
    let Some(run) = first_run() else { return };
    for is_local in [false, true] {
        run.visible.store(100, Ordering::Relaxed);
        let server = CardanoServer::start(run.clone(), NONE, is_local, NETWORK);
        let mut source = node(&server.address).open().unwrap();
        assert_eq!(source.intersect(&[]).unwrap(), None);
        let mut chain = Chain::default();
        chain.catch_up(&mut *source);
        check(&chain, &run, 100);
        assert_eq!(source.tip(), chain.tip());
        let started = Instant::now();
        assert!(matches!(source.next(Duration::from_millis(300)).unwrap(), Step::Nothing));
        assert!((300..3000).contains(&started.elapsed().as_millis()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                run.visible.store(run.blocks.len(), Ordering::Relaxed);
            });
            assert!(chain.step(&mut *source, Duration::from_secs(10)).unwrap());
        });
        chain.catch_up(&mut *source);
        check(&chain, &run, run.blocks.len());
        // Another reader begins in the middle, by points of which one is unknown.
        let mut other = node(&server.address).open().unwrap();
        let known = run.heads[150].point;
        let mut unknown = known;
        unknown.hash.0[0] ^= 1;
        assert_eq!(other.intersect(&[unknown, known]).unwrap(), Some(known));
        let Step::Forward(block) = other.next(Duration::ZERO).unwrap() else { panic!() };
        assert_eq!((block.point, block.parent), (run.heads[151].point, Some(known.hash)));
    }
}

#[test]
fn rollbacks_and_broken_connections_end_with_the_same_chain() {
    let Some(run) = first_run() else { return };
    for seed in 0..6 {
        for is_local in [false, true] {
            let mischief = Mischief { seed, rollback_odds: 20, drop_odds: 60, depth: 12, ..NONE };
            let server = CardanoServer::start(run.clone(), mischief, is_local, NETWORK);
            let mut chain = Chain::default();
            follow(&node(&server.address), &mut chain, run.blocks.len());
            check(&chain, &run, run.blocks.len());
            assert!(server.deeds.rollbacks.load(Ordering::Relaxed) > 0, "seed {seed}");
        }
    }
}

#[test]
fn the_long_run_is_read_through_rollbacks_and_broken_connections() {
    let files = ["chunks-00150-00199.zst", "chunks-00200-00249.zst", "chunks-00250-00299.zst"];
    let Some(run) = run(&files) else { return };
    assert_eq!(run.blocks.len(), 26_960);
    for is_local in [false, true] {
        let mischief = Mischief { seed: 7, rollback_odds: 300, drop_odds: 3000, depth: 40, ..NONE };
        let server = CardanoServer::start(run.clone(), mischief, is_local, NETWORK);
        let (mut chain, started) = (Chain::default(), Instant::now());
        let connections = follow(&node(&server.address), &mut chain, run.blocks.len());
        let took = started.elapsed();
        check(&chain, &run, run.blocks.len());
        assert_eq!(chain.tip().unwrap().height, 59_314);
        let deeds = &server.deeds;
        let (rollbacks, drops) =
            (deeds.rollbacks.load(Ordering::Relaxed), deeds.drops.load(Ordering::Relaxed));
        assert!(rollbacks > 20 && drops > 3 && connections > 3);
        let told = chain.rollbacks.iter().filter(|depth| **depth > 0).count();
        println!(
            "local {is_local}: {rollbacks} rollbacks ({told} told), {drops} drops, \
             {connections} connections, {took:?}"
        );
    }
}

#[test]
fn a_straight_read_of_the_long_run() {
    let Some(run) = run(&["chunks-00150-00199.zst"]) else { return };
    for is_local in [false, true] {
        let server = CardanoServer::start(run.clone(), NONE, is_local, NETWORK);
        let (mut chain, started) = (Chain::default(), Instant::now());
        assert_eq!(follow(&node(&server.address), &mut chain, run.blocks.len()), 1);
        println!("local {is_local}: {} blocks in {:?}", run.blocks.len(), started.elapsed());
        check(&chain, &run, run.blocks.len());
    }
}

#[test]
fn a_rollback_below_what_is_remembered_asks_for_a_new_intersection() {
    let Some(run) = first_run() else { return };
    for is_local in [false, true] {
        let mischief = Mischief { seed: 3, rollback_odds: 4, drop_odds: 0, depth: 200, ..NONE };
        let server = CardanoServer::start(run.clone(), mischief, is_local, NETWORK);
        let mut source = node(&server.address).open().unwrap();
        let place = run.heads[120].point;
        let mut asked_again = false;
        for _ in 0..50 {
            assert_eq!(source.intersect(&[place]).unwrap(), Some(place));
            let error = loop {
                match source.next(Duration::from_millis(100)) {
                    Ok(Step::Nothing) => break None,
                    Ok(_) => {}
                    Err(error) => break Some(error),
                }
            };
            if let Some(error) = error {
                assert!(error.is_passing(), "{error}");
                asked_again = true;
                break;
            }
        }
        assert!(asked_again);
    }
}

#[test]
fn another_network_and_an_absent_node_are_told_apart() {
    let Some(run) = first_run() else { return };
    for is_local in [false, true] {
        let server = CardanoServer::start(run.clone(), NONE, is_local, Network::CardanoPreprod);
        let error = node(&server.address).open().map(drop).unwrap_err();
        assert!(matches!(error, SourceError::WrongNetwork { .. }), "{error}");
        let address = server.address.clone();
        drop(server);
        let error = node(&address).open().map(drop).unwrap_err();
        assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
    }
}

#[test]
fn a_server_that_lies_is_caught_and_what_came_before_is_good() {
    let Some(run) = first_run() else { return };
    let lies = [Lie::OtherBlock, Lie::Gap, Lie::Cut, Lie::StrangePoint, Lie::FewerBlocks];
    for (lie, is_local) in lies.into_iter().flat_map(|lie| [(lie, false), (lie, true)]) {
        if (lie, is_local) == (Lie::FewerBlocks, true) {
            continue; // Whole blocks are not asked for in ranges.
        }
        let mischief = Mischief { lie: Some(lie), ..NONE };
        let server = CardanoServer::start(run.clone(), mischief, is_local, NETWORK);
        let mut source = node(&server.address).open().unwrap();
        source.intersect(&[]).unwrap();
        let mut chain = Chain::default();
        let error = loop {
            match chain.step(&mut *source, Duration::from_secs(5)) {
                Ok(moved) => assert!(moved, "{lie:?}"),
                Err(error) => break error,
            }
        };
        let is_expected = match lie {
            Lie::StrangePoint => error.is_passing(),
            _ => matches!(error, SourceError::Malformed { .. }),
        };
        assert!(is_expected, "{lie:?} {is_local}: {error}");
        assert!((50..=100).contains(&chain.blocks.len()), "{lie:?}: {}", chain.blocks.len());
        check(&chain, &run, chain.blocks.len());
    }
}

/// A server that sends `bytes` to everybody, over and over when told to.
fn babble(bytes: Vec<u8>, for_ever: bool) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(&bytes);
            while for_ever && stream.write_all(&bytes).is_ok() {}
        }
    });
    Address::Tcp(address)
}

/// A segment of the handshake as a server sends it.
fn segment(payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0, 0, 0, 0, 0x80, 0], length.as_slice(), payload].concat()
}

#[test]
fn babble_is_an_error() {
    let long_text =
        [&[0x82, 2, 0x83, 2, 7, 0x7b, 0, 0, 0, 9, 0, 0, 0, 0], [b'a'; 60_000].as_slice()];
    let endless = segment(&long_text.concat());
    for (bytes, for_ever) in [
        (vec![], false),
        (segment(&[0xff]), false),
        (segment(&[0x83, 1, 7, 2]), false),
        (segment(&[0x82, 9, 0]), false),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), false),
        (endless, true),
    ] {
        let started = Instant::now();
        let error = node(&babble(bytes, for_ever)).open().map(drop).unwrap_err();
        let is_expected =
            matches!(error, SourceError::Malformed { .. } | SourceError::Unreachable { .. });
        assert!(is_expected, "{error}");
        assert!(started.elapsed() < Duration::from_secs(50), "{error}");
    }
}

/// Not 0: only the network's own first block has that.
const DIFFICULTY: u64 = 7;

/// A boundary block of Byron on top of another block.
fn boundary(epoch: u64, parent: &[u8; 32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut e = Encoder::new(&mut bytes);
    e.array(2).unwrap().u8(0).unwrap().array(3).unwrap();
    e.array(5).unwrap().u32(2).unwrap().bytes(parent).unwrap().bytes(&[2; 32]).unwrap();
    e.array(2).unwrap().u64(epoch).unwrap().array(1).unwrap().u64(DIFFICULTY).unwrap();
    e.array(1).unwrap().map(0).unwrap();
    e.begin_array().unwrap().end().unwrap().array(1).unwrap().map(0).unwrap();
    bytes
}

#[test]
fn boundary_blocks_share_a_height_and_are_told_apart() {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut parent = [9; 32];
    for epoch in 0..120 {
        blocks.push(boundary(epoch, &parent));
        parent = block_head(NETWORK, blocks.last().unwrap()).unwrap().point.hash.0;
    }
    let run = Arc::new(Run::new(blocks));
    for is_local in [false, true] {
        let mischief = Mischief { seed: 5, rollback_odds: 10, drop_odds: 100, depth: 9, ..NONE };
        let server = CardanoServer::start(run.clone(), mischief, is_local, NETWORK);
        let mut chain = Chain::default();
        follow(&node(&server.address), &mut chain, 120);
        check(&chain, &run, 120);
        assert!(chain.blocks.iter().all(|block| block.point.height == DIFFICULTY));
    }
}

#[test]
fn heads_agree_with_decoded_blocks_in_every_era() {
    let Some(folder) = data::path("cardano/eras") else { return };
    let mut seen = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let network = match name.split('-').nth(1) {
            Some("mainnet") => Network::CardanoMainnet,
            Some("preview") => Network::CardanoPreview,
            _ => continue,
        };
        // Whatever its name says, its header has the magic of a test network that is gone.
        if name.starts_with("byron-mainnet-301005") {
            continue;
        }
        let raw = std::fs::read(&path).unwrap();
        let header = decode_block(network, &raw, None).unwrap().header;
        let head = Head { point: header.point, parent: header.parent };
        assert_eq!(block_head(network, &raw), Ok(head), "{name}");
        seen += 1;
    }
    assert!(seen > 10);
}
