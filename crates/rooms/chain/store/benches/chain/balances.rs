//! What a script's balance costs at electrs and here.
//!
//! electrs has no coins: it finds the transactions that touch the script, asks the node for each of
//! them, and adds up, so its cost grows with the script's history; it does so for every question
//! about a script that nobody subscribed to. Our list holds the coins that are there. Its answers
//! come over a socket and ours out of a call, therefore an empty question to electrs stands beside
//! them. Both must say the same.
//!
//! Which scripts are asked for decides electrs's figure. The coins to start with come from
//! transactions of some two thousand outputs, as no real chain has them, and electrs hashes every
//! output of each transaction that it reads: a script among those took it 28 ms in the middle, any
//! other 0.2 ms. So ordinary scripts are those of the measured blocks which the blocks before don't
//! know. That leaves out much used ones, in favour of electrs. The busiest script is among the
//! former; how many of the outputs that electrs reads for it come from there is said beside it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, ErrorKind, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use unspent_chain::{Owner, PageOrder, Reader};
use unspent_model::Family;
use unspent_networks::decode_block;
use unspent_sim::shape::{ModernChain, Shape};

use crate::{
    measure::{Figures, percentile},
    stream,
};

/// Scripts that are asked for.
const SCRIPTS: usize = 200;
/// An ordinary script has at most so many coins.
const FEW_COINS: usize = 100;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Ordinary scripts, then the busiest one.
pub fn compare(figures: Figures, electrum: &str, reader: &Reader) -> Figures {
    let mut electrs = Asker::connect(electrum);
    let [mut empty, mut theirs, mut ours] = [const { Vec::new() }; 3];
    for script in ordinary(reader) {
        empty.push(electrs.ask("server.ping", &json!([])).expect("an answer").1);
        let (here, took) = balance(reader, &script);
        ours.push(took);
        let (there, took) = electrs.balance(&script).expect("an answer");
        theirs.push(took);
        assert_eq!(there, here, "balances differ");
    }
    let asked = theirs.len();
    let p = |times: &mut Vec<f64>| {
        let (p50, p99) = (percentile(times, 0.5), percentile(times, 0.99));
        format!("p50 {p50:.3}, p99 {p99:.3} ms")
    };
    let figures = figures
        .with("balance: empty question, electrs", p(&mut empty))
        .with(&format!("balance: {asked} ordinary scripts, electrs"), p(&mut theirs))
        .with(&format!("balance: {asked} ordinary scripts, index"), p(&mut ours));
    busiest(figures, &mut electrs, reader)
}

fn busiest(figures: Figures, electrs: &mut Asker, reader: &Reader) -> Figures {
    let chain = ModernChain::new(stream::SEED, Shape { start_coins: 1, transactions: 1 });
    let script = chain.hot_script(0);
    let (here, took) = balance(reader, script.as_bytes());
    let ours = format!("{took:.1} ms");
    let theirs = match electrs.balance(script.as_bytes()) {
        Some((there, took)) => {
            assert_eq!(there, here, "balances differ");
            format!("{took:.1} ms")
        }
        None => format!("none within {} s", PATIENCE.as_secs()),
    };
    let [start, measured] = outputs_beside(script.as_bytes());
    let share = format!("{start} of {} outputs read", start + measured);
    figures
        .with("balance: busiest script, electrs", theirs)
        .with("balance: busiest script, from the start", share)
        .with("balance: busiest script, index", ours)
}

/// Outputs of all transactions that pay a script: before the measured blocks, and in them.
fn outputs_beside(script: &[u8]) -> [usize; 2] {
    let mut sums = [0; 2];
    for (height, scripts) in transactions(0) {
        if scripts.iter().any(|paid| paid == script) {
            sums[usize::from(height >= stream::before())] += scripts.len();
        }
    }
    sums
}

/// Scripts with few coins, from all measured blocks alike, that the blocks before don't know.
fn ordinary(reader: &Reader) -> Vec<Vec<u8>> {
    // Many more than are asked for, since most fall out. Odd, so that no rhythm of blocks shows.
    let step = (stream::changes() as usize / 2 / SCRIPTS / 20).max(1) | 1;
    let outputs = transactions(stream::before()).flat_map(|(_, scripts)| scripts);
    let mut left: BTreeMap<Vec<u8>, usize> =
        outputs.step_by(step).enumerate().map(|(place, script)| (script, place)).collect();
    left.retain(|script, _| {
        let page =
            reader.page(owner(script), PageOrder::Ascending, FEW_COINS, None).expect("a page");
        !page.coins.is_empty() && page.next.is_none()
    });
    let start = transactions(0).take_while(|(height, _)| *height < stream::before());
    for script in start.flat_map(|(_, scripts)| scripts) {
        left.remove(&script);
    }
    let mut left: Vec<_> = left.into_iter().map(|(script, place)| (place, script)).collect();
    left.sort();
    let (all, wanted) = (left.len(), SCRIPTS.min(left.len()));
    (0..wanted).map(|n| std::mem::take(&mut left[n * all / wanted].1)).collect()
}

/// The scripts that each transaction pays, with its height, from a height on.
fn transactions(from: usize) -> impl Iterator<Item = (usize, Vec<Vec<u8>>)> {
    stream::raw().enumerate().skip(from).flat_map(|(height, block)| {
        let block = decode_block(stream::NETWORK, &block, Some(height as u64)).expect("a block");
        block.txs.into_iter().map(move |tx| {
            (height, tx.creates.into_iter().map(|(_, output)| output.addr).collect())
        })
    })
}

fn owner(script: &[u8]) -> Owner {
    Owner::address(Family::Bitcoin, script)
}

/// In satoshi, and milliseconds.
fn balance(reader: &Reader, script: &[u8]) -> (u128, f64) {
    let started = Instant::now();
    let balance = reader.balance(owner(script)).expect("a balance");
    (balance.value, started.elapsed().as_secs_f64() * 1_000.0)
}

/// A client of Electrum's protocol: lines of JSON.
struct Asker {
    stream: BufReader<TcpStream>,
}

impl Asker {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("electrs listens");
        stream.set_nodelay(true).expect("a setting");
        stream.set_read_timeout(Some(PATIENCE)).expect("a setting");
        let mut asker = Self { stream: BufReader::new(stream) };
        asker.ask("server.version", &json!(["unspent", "1.4"])).expect("an answer");
        asker
    }

    /// The answer, and milliseconds; `None` when it takes too long, and the connection is of no
    /// more use.
    fn ask(&mut self, method: &str, params: &Value) -> Option<(Value, f64)> {
        let question = json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": params });
        let started = Instant::now();
        self.stream.get_mut().write_all(format!("{question}\n").as_bytes()).expect("sent");
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return None;
            }
            read => assert!(read.expect("an answer") > 0, "electrs closed the connection"),
        }
        let took = started.elapsed().as_secs_f64() * 1_000.0;
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert!(answer["error"].is_null(), "{method}: {answer}");
        Some((answer["result"].clone(), took))
    }

    /// In satoshi, and milliseconds.
    fn balance(&mut self, script: &[u8]) -> Option<(u128, f64)> {
        let mut hash = Sha256::digest(script);
        hash.reverse();
        let params = json!([hex::encode(hash)]);
        let (answer, took) = self.ask("blockchain.scripthash.get_balance", &params)?;
        Some((answer["confirmed"].as_u64().expect("a number").into(), took))
    }
}
