//! Nodes that lie: typed errors, no panic, bounded memory.

use std::time::{Duration, Instant};

use bitcoin::{
    Network as Wire, consensus::encode::serialize_hex, constants::genesis_block, hashes::Hash,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use unspent_model::Network;
use unspent_networks::decode_block;
use unspent_source::{
    Node, Origin, Source, SourceError, Step,
    core::{Auth, CoreConfig, CoreNode},
};
use unspent_testkit::scripted_node::{Manner, Rule, ScriptedAnswer, ScriptedNode, blocks};

/// The scripted node, as a source is configured for it.
fn core(node: &ScriptedNode) -> CoreNode {
    CoreNode::new(CoreConfig {
        url: node.url(),
        roots: None,
        auth: Auth::None,
        network: Network::BitcoinRegtest,
        zmq: None,
        poll: Duration::from_millis(20),
    })
}

fn bend(method: &'static str, answer: ScriptedAnswer) -> Rule {
    Box::new(move |asked, _| (asked == method).then(|| answer.clone()))
}

fn straight() -> Rule {
    Box::new(|_, _| None)
}

/// Opens, intersects at the origin and steps until an error or the tip.
fn run(core: &CoreNode) -> Result<usize, SourceError> {
    let mut source = core.open()?;
    source.intersect(&[])?;
    steps(&mut *source)
}

fn steps(source: &mut dyn Source) -> Result<usize, SourceError> {
    let mut blocks = 0;
    while let Step::Forward(_) = source.next(Duration::ZERO)? {
        blocks += 1;
    }
    Ok(blocks)
}

fn malformed(result: Result<usize, SourceError>) -> String {
    match result {
        Err(SourceError::Malformed { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_fake_node_is_good_enough_to_be_read() {
    let fake = ScriptedNode::start(Manner::Proper, straight());
    assert_eq!(run(&core(&fake)), Ok(2));
}

#[test]
fn answers_that_are_not_the_json_expected() {
    for manner in [Manner::NotJson, Manner::HalfJson, Manner::EmptyBody] {
        malformed(run(&core(&ScriptedNode::start(manner, straight()))));
    }
    for wrong in [json!(7), json!(null), json!("zz"), json!({}), json!([1, [2]]), json!(-1)] {
        for method in ["getblockchaininfo", "getblockhash", "getblock"] {
            let fake = ScriptedNode::start(Manner::Proper, bend(method, Ok(wrong.clone())));
            malformed(run(&core(&fake)));
        }
    }
    let deep = "[".repeat(100_000);
    let fake = ScriptedNode::start(Manner::Proper, bend("getblock", Ok(json!(deep))));
    malformed(run(&core(&fake)));
    for manner in [Manner::OneForMany, Manner::MixedUpIds] {
        malformed(run(&core(&ScriptedNode::start(manner, straight()))));
    }
}

#[test]
fn a_node_that_hangs_up_is_busy_or_denies() {
    let away = run(&core(&ScriptedNode::start(Manner::HangsUp, straight()))).unwrap_err();
    assert!(away.is_passing(), "{away}");
    let busy = run(&core(&ScriptedNode::start(Manner::Status(503), straight()))).unwrap_err();
    assert!(busy.is_passing(), "{busy}");
    for status in [401, 403] {
        let denied =
            run(&core(&ScriptedNode::start(Manner::Status(status), straight()))).unwrap_err();
        assert!(matches!(denied, SourceError::Denied { .. }), "{denied}");
    }
    let starting = json!({ "code": -28, "message": "Loading block index…" });
    for method in ["getblockchaininfo", "getblockhash", "getblock"] {
        let fake = ScriptedNode::start(Manner::Proper, bend(method, Err(starting.clone())));
        let error = run(&core(&fake)).unwrap_err();
        assert!(error.is_passing() && error.to_string().contains("Loading"), "{error}");
    }
}

#[test]
fn an_endless_answer_is_cut() {
    let fake = ScriptedNode::start(Manner::EndlessBody, straight());
    let started = Instant::now();
    let reason = malformed(core(&fake).mempool().map(|view| view.txids.len()));
    assert!(reason.contains("more than"), "{reason}");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn another_chain_is_refused() {
    let named = json!({ "chain": "main", "blocks": 1, "bestblockhash": "00".repeat(32) });
    let other_first = Ok(json!("11".repeat(32)));
    for rule in [bend("getblockchaininfo", Ok(named)), bend("getblockhash", other_first)] {
        let error = run(&core(&ScriptedNode::start(Manner::Proper, rule))).unwrap_err();
        assert!(matches!(error, SourceError::WrongNetwork { .. }), "{error}");
    }
}

#[test]
fn a_block_with_another_hash_is_refused() {
    let mut other = genesis_block(Wire::Regtest);
    other.header.nonce += 1;
    let fake =
        ScriptedNode::start(Manner::Proper, bend("getblock", Ok(json!(serialize_hex(&other)))));
    assert!(malformed(run(&core(&fake))).contains("hash"));
}

#[test]
fn a_block_that_is_no_child_of_the_place_is_refused() {
    let mut stranger = blocks()[1].clone();
    stranger.header.prev_blockhash = bitcoin::BlockHash::from_byte_array([9; 32]);
    let hash = stranger.block_hash().to_string();
    let rule = move |method: &str, params: &Value| match method {
        "getblockhash" if params[0] == json!(1) => Some(Ok(json!(hash))),
        "getblock" if params[0] == json!(hash) => Some(Ok(json!(serialize_hex(&stranger)))),
        _ => None,
    };
    let fake = ScriptedNode::start(Manner::Proper, Box::new(rule));
    let core = core(&fake);
    let mut source = core.open().unwrap();
    source.intersect(&[]).unwrap();
    assert!(matches!(source.next(Duration::ZERO), Ok(Step::Forward(_))), "the first is good");
    assert!(malformed(steps(&mut *source)).contains("child"));
}

#[test]
fn a_short_block_is_refused_here_or_by_the_decoder() {
    let whole = serialize_hex(&genesis_block(Wire::Regtest));
    for length in [0, 2, 158, 159] {
        let short = whole[..length].to_owned();
        let fake = ScriptedNode::start(Manner::Proper, bend("getblock", Ok(json!(short))));
        malformed(run(&core(&fake)));
    }
    let cut = whole[..whole.len() - 20].to_owned();
    let rule = move |method: &str, params: &Value| {
        let first = params[0] == json!(blocks()[0].block_hash().to_string());
        (method == "getblock" && first).then(|| Ok(json!(cut)))
    };
    let fake = ScriptedNode::start(Manner::Proper, Box::new(rule));
    let mut source = core(&fake).open().unwrap();
    source.intersect(&[]).unwrap();
    let Step::Forward(block) = source.next(Duration::ZERO).unwrap() else { panic!("no block") };
    assert!(decode_block(Network::BitcoinRegtest, &block.bytes, Some(0)).is_err());
}

#[test]
fn a_block_that_is_gone_names_its_height() {
    let gone = json!({ "code": -1, "message": "Block not available (pruned data)" });
    let fake = ScriptedNode::start(Manner::Proper, bend("getblock", Err(gone)));
    let error = run(&core(&fake)).unwrap_err();
    assert!(matches!(error, SourceError::Missing { height: 0, .. }), "{error}");
    let later = json!({ "code": -1, "message": "Block not available (not fully downloaded)" });
    let fake = ScriptedNode::start(Manner::Proper, bend("getblock", Err(later)));
    assert!(run(&core(&fake)).unwrap_err().is_passing());
}

#[test]
fn a_header_with_absurd_heights_is_refused() {
    let left = json!({
        "height": u64::MAX, "confirmations": -1,
        "previousblockhash": blocks()[0].block_hash().to_string(),
    });
    let mut first = true;
    let rule = move |method: &str, _: &Value| match method {
        // The place is good until it was given out.
        "getblockheader" => Some(Ok(left.clone())),
        "getblockchaininfo" if !std::mem::take(&mut first) => Some(Ok(json!({
            "chain": "regtest", "blocks": u64::MAX, "bestblockhash": "ab".repeat(32),
        }))),
        _ => None,
    };
    let fake = ScriptedNode::start(Manner::Proper, Box::new(rule));
    malformed(run(&core(&fake)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever value stands in place of an answer, the source ends with blocks or an error.
    #[test]
    fn no_answer_panics(
        which in 0_usize..6,
        value in prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "[0-9a-f]{0,200}".prop_map(Value::from),
            "\\PC{0,40}".prop_map(Value::from),
            Just(json!({ "height": 5, "confirmations": -1, "previousblockhash": "00".repeat(32) })),
            Just(json!({ "chain": "regtest", "blocks": 7, "bestblockhash": "01".repeat(32) })),
        ],
        refuse: bool,
    ) {
        let methods = ["getblockchaininfo", "getblockhash", "getblock", "getblockheader",
            "getrawmempool", "getzmqnotifications"];
        let answer = if refuse {
            Err(json!({ "code": value.as_i64().unwrap_or(-1), "message": value.to_string() }))
        } else {
            Ok(value)
        };
        let fake = ScriptedNode::start(Manner::Proper, bend(methods[which], answer));
        let core = core(&fake);
        let _ = core.mempool();
        if let Ok(mut source) = core.open() {
            let _ = source.intersect(&[]);
            for _ in 0..10 {
                if source.next(Duration::ZERO).is_err() {
                    break;
                }
            }
        }
    }
}
