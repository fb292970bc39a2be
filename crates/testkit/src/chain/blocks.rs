//! Blocks made up from random numbers.

use rand::{Rng, RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use unspent_model::{
    BlockHash, Outpoint, Point, TxId,
    chain::{Asset, Block, Era, Header, Output, Tx, Work},
};

/// What a made-up block is built from.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Source of everything random.
    pub seed: u64,
    /// The block below; `None` for the first.
    pub parent: Option<(Point, Era)>,
    /// Coins that may be spent.
    pub coins: Vec<Outpoint>,
    /// Coinbase outputs that a new coinbase may repeat: unspent ones are overwritten, spent ones
    /// come again.
    pub coinbases: Vec<Outpoint>,
}

/// A header on top of `parent`, with a hash made from `seed`.
pub fn header_after(parent: Option<(Point, Era)>, seed: u64) -> Header {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (height, slot, hash, era) = match parent {
        Some((point, era)) => {
            (point.height + 1, point.slot + rng.random_range(0..3), point.hash, era)
        }
        None => (0, 0, BlockHash([0; 32]), Era::Byron),
    };
    Header {
        point: Point { height, slot, hash: BlockHash(rng.random()) },
        parent: hash,
        era: later(era, &mut rng),
        is_boundary: false,
        epoch: Some(slot / 10),
        time: 1_600_000_000 + slot,
        work: Work::default(),
    }
}

fn later(era: Era, rng: &mut impl Rng) -> Era {
    let all =
        [Era::Byron, Era::Shelley, Era::Allegra, Era::Mary, Era::Alonzo, Era::Babbage, Era::Conway];
    let next = all.into_iter().find(|next| *next > era);
    if rng.random_ratio(1, 12) { next.unwrap_or(era) } else { era }
}

/// A transaction that spends and creates, valid in phase 2.
pub fn payment(id: u64, spends: Vec<Outpoint>, creates: Vec<(u32, Output)>) -> Tx<Output> {
    let mut hash = [0; 32];
    hash.iter_mut().zip(id.to_be_bytes()).for_each(|(to, from)| *to = from);
    Tx { id: TxId(hash), spends, creates, is_invalid: false, is_coinbase: false }
}

/// A coin of the made-up owner number `owner`; owners 0 and 1 share a payment credential.
pub fn coin_of(owner: u8, value: u64) -> Output {
    let credential = [owner / 2; 28];
    let addr = [&[0x60 | (owner & 1)][..], &credential, &[owner]].concat();
    // The last owner has none, as Byron addresses have none.
    let payment_credential = (owner < 4).then_some(credential);
    Output { addr, value, payment_credential, ..Output::default() }
}

/// A made-up block: payments, chains inside the block, unknown inputs, failed transactions,
/// repeated coinbases, boundary blocks.
pub fn make_block(recipe: &Recipe) -> Block<Output> {
    let mut header = header_after(recipe.parent, recipe.seed);
    let mut rng = ChaCha8Rng::seed_from_u64(recipe.seed ^ 0xb10c);
    if let Some((parent, era)) = recipe.parent
        && rng.random_ratio(1, 25)
    {
        header.is_boundary = true;
        header.point.height = parent.height;
        header.era = era;
        return Block { header, txs: Vec::new() };
    }
    let mut coins = recipe.coins.clone();
    let mut txs = vec![coinbase(recipe, &mut rng)];
    for _ in 0..rng.random_range(0..6) {
        let tx = transaction(&mut coins, &mut rng);
        coins.extend(tx.creates.iter().map(|(index, _)| Outpoint::new(tx.id, *index)));
        txs.push(tx);
    }
    Block { header, txs }
}

fn coinbase(recipe: &Recipe, rng: &mut ChaCha8Rng) -> Tx<Output> {
    let repeat = recipe.coinbases.choose(rng).filter(|_| rng.random_ratio(1, 10));
    let id = repeat.map_or_else(|| TxId(rng.random()), |outpoint| outpoint.tx);
    let mut coin = output(rng);
    coin.is_coinbase = true;
    Tx { id, spends: Vec::new(), creates: vec![(0, coin)], is_invalid: false, is_coinbase: true }
}

fn transaction(coins: &mut Vec<Outpoint>, rng: &mut ChaCha8Rng) -> Tx<Output> {
    let mut spends = Vec::new();
    for _ in 0..rng.random_range(0..4) {
        if rng.random_ratio(1, 10) || coins.is_empty() {
            spends.push(Outpoint::new(TxId(rng.random()), 0));
        } else {
            let at = rng.random_range(0..coins.len());
            spends.push(coins.swap_remove(at));
        }
    }
    let id = TxId(rng.random());
    let is_invalid = rng.random_ratio(1, 8);
    let outputs = rng.random_range(0..4);
    let creates = if is_invalid {
        let returned = rng.random_ratio(2, 3).then(|| output(rng));
        let returned = returned.map(|coin| Output { is_collateral_return: true, ..coin });
        returned.map(|coin| (outputs, coin)).into_iter().collect()
    } else {
        // Gaps in the indexes are what unspendable outputs leave.
        (0..outputs).map(|i| (i * 2, output(rng))).collect()
    };
    Tx { id, spends, creates, is_invalid, is_coinbase: false }
}

fn output(rng: &mut ChaCha8Rng) -> Output {
    let mut coin = coin_of(rng.random_range(0..5), rng.random_range(0..10_000));
    if rng.random_ratio(1, 6) {
        let policy = [rng.random_range(0..2); 28];
        let name: Vec<u8> =
            [&b""[..], b"\0", b"tok\0en"].choose(rng).copied().unwrap_or(b"").into();
        coin.assets = vec![Asset { policy, name, quantity: rng.random() }];
    }
    if rng.random_ratio(1, 6) {
        coin.inline_datum = Some(vec![0x01, rng.random()]);
        coin.data_hash = Some(rng.random());
    }
    coin
}
