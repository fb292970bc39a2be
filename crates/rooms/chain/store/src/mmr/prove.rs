//! Roots and proofs for those who ask, at the tip or at an older block of the window.
//!
//! The trees on disk are those of the tip. For an older block the deltas above it are gone through,
//! newest first: they tell which bits were 1 then and how many leaves there were. Only the changed
//! paths of the second tree are hashed again, in memory. The effort grows with the distance from
//! the tip, up to the window.
//!
//! Invariant: what is given away was checked first, against the root that was stored when the block
//! was applied.

use std::collections::{BTreeMap, BTreeSet};

use unspent_model::{Family, Network, Outpoint, Point};
use unspent_verify::{
    Hash, Head, Leaf, LiveChunk, Proof, Verdict,
    hash::Domain,
    proof::CHUNK_BITS,
    tree::{self, Node, needed},
};

use super::{
    bits::{Bits, chunk_count, chunk_of},
    changes::key,
    root::{head, read_node, read_root},
};
use crate::{
    codec::{StoredDelta, TreeCommitment, decode_delta, encode_record},
    coin,
    db::{Get as _, View},
    error::{QueryError, StoreError},
    open,
    pending::StoreState,
    points,
    schema::{ColumnFamily, OutpointKey, TreeKind},
    snapshot::ChainSnapshot,
};

/// Most coins that one proof is about.
pub const PROOF_LIMIT: usize = 1_000;

/// The root of a block, and how many outputs it commits to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRoot {
    /// The block; `None` before the first one.
    pub point: Option<Point>,
    /// What proofs lead to.
    pub root: Hash,
    /// Outputs ever created, up to this block.
    pub leaves: u64,
    /// Outputs unspent after this block.
    pub live: u64,
}

/// A proof that has been checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckedProof {
    /// What to hand out.
    pub proof: Proof,
    /// The root that it leads to.
    pub root: BlockRoot,
    /// What it says of each of its coins, in its own order: by leaf.
    pub verdicts: Vec<Verdict>,
}

const CREATED_LATER: &str = "it was created only after that block";
const UNKNOWN: &str = "it is unknown: either it never existed, which can't be proved, or it was \
                       spent so long ago that its record is pruned and nothing about it can be \
                       proved";

/// The trees as they stood after a block.
struct PastBlock {
    point: Option<Point>,
    commitment: TreeCommitment,
    /// Leaves that were live then and are not now.
    regained: BTreeSet<u64>,
    is_tip: bool,
}

impl ChainSnapshot<'_> {
    /// The root of the block at a height, of the last block without one.
    ///
    /// # Errors
    ///
    /// [`QueryError::NoRoots`] in a classic store, [`QueryError::NoRoot`] outside the window.
    pub fn root(&self, at: Option<u64>) -> Result<BlockRoot, QueryError> {
        Ok(self.past(at)?.block_root())
    }

    /// A proof of what some coins were at a block: the last one, unless another is named. Nodes
    /// that several coins need are in it once.
    ///
    /// # Errors
    ///
    /// As [`Self::root`]; [`QueryError::NoProof`] names a coin of which nothing can be proved.
    pub fn prove(&self, coins: &[Outpoint], at: Option<u64>) -> Result<CheckedProof, QueryError> {
        if !(1..=PROOF_LIMIT).contains(&coins.len()) {
            return Err(QueryError::ProofSize { asked: coins.len(), most: PROOF_LIMIT });
        }
        let past = self.past(at)?;
        let mut found = BTreeMap::new();
        for outpoint in coins {
            let (place, leaf) = self.locate(&past, outpoint)?;
            // A proof is refused unless its coins ascend by leaf, however they were asked for.
            found.insert(place, leaf);
        }
        let trees = PastTrees::new(&self.view, self.network(), &past)?;
        let proof = trees.proof(found.into_iter().collect())?;
        // By the code that a client runs: no proof leaves that we would refuse ourselves.
        let verdicts = proof.check(&past.commitment.root).map_err(|_| past.corrupt())?;
        Ok(CheckedProof { proof, root: past.block_root(), verdicts })
    }

    fn past(&self, at: Option<u64>) -> Result<PastBlock, QueryError> {
        self.reader.enabled()?;
        let view = &self.view;
        let state = open::state(view, true)?;
        let commitment = state.commitment.ok_or(QueryError::NoRoots)?;
        let target = match at {
            None => state.cursor.ordinal,
            Some(height) => rooted(view, &state, height)?,
        };
        let mut past = PastBlock {
            point: points::at(view, target)?.map(|stored| stored.point),
            commitment,
            regained: BTreeSet::new(),
            is_tip: target == state.cursor.ordinal,
        };
        for ordinal in (target + 1..=state.cursor.ordinal).rev() {
            let delta = delta(view, ordinal)?;
            let delta = delta.ok_or_else(|| absent(ColumnFamily::Delta, &ordinal.to_be_bytes()))?;
            past.undo(&delta)?;
        }
        // What was created after that block and is spent by now was gone through too.
        past.regained.split_off(&past.commitment.leaves);
        Ok(past)
    }

    /// A coin's leaf and what it is made over: of several coins of one name, the last one that was
    /// there by then.
    fn locate(&self, past: &PastBlock, outpoint: &Outpoint) -> Result<(u64, Leaf), QueryError> {
        let leaf = |record| Leaf { txid: outpoint.tx.0, vout: outpoint.index, record };
        let is_there = |place: u64| place < past.commitment.leaves;
        let key = OutpointKey(*outpoint).encode();
        let mut later = false;
        if let Some(value) = self.view.get(ColumnFamily::Unspent, &key)? {
            let broken = StoreError::value(ColumnFamily::Unspent.name(), &key);
            let (place, record) = coin::parts(&value).map_err(broken)?;
            let place = place.ok_or_else(|| absent(ColumnFamily::MmrNodes, &key))?;
            // A repeated coinbase has the name of an earlier coin, which may be the one of then.
            if is_there(place) {
                return Ok((place, leaf(record.to_vec())));
            }
            later = true;
        }
        for (place, record) in self.spends(outpoint)? {
            if is_there(place) {
                return Ok((place, leaf(record)));
            }
            later = true;
        }
        let why = if later { CREATED_LATER } else { UNKNOWN };
        Err(QueryError::NoProof { coin: name(self.network(), outpoint), why })
    }

    /// The spends of a coin, the latest first: its leaf and its record.
    fn spends(&self, outpoint: &Outpoint) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let mut spends = Vec::new();
        self.view.scan_spends(outpoint, |key, number| {
            let ordinal = key.ordinal.to_be_bytes();
            let delta = delta(&self.view, key.ordinal)?;
            let delta = delta.ok_or_else(|| absent(ColumnFamily::Delta, &ordinal))?;
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            let spent = delta.spent.get(number).filter(|spent| spent.outpoint == *outpoint);
            let leaf = delta.rewind.as_ref().and_then(|rewind| rewind.spent.get(number));
            let (spent, leaf) =
                spent.zip(leaf).ok_or_else(|| absent(ColumnFamily::Spent, &key.encode()))?;
            spends.push((*leaf, encode_record(&spent.record)));
            Ok(true)
        })?;
        Ok(spends)
    }
}

impl PastBlock {
    /// Goes one block further back.
    fn undo(&mut self, delta: &StoredDelta) -> Result<(), StoreError> {
        let rewind = delta.rewind.as_ref().ok_or_else(|| self.corrupt())?;
        let taken = rewind.taken().count() as u64;
        let live = (self.commitment.live + taken).checked_sub(delta.created.len() as u64);
        let live = live.ok_or_else(|| self.corrupt())?;
        self.commitment = TreeCommitment { leaves: rewind.first, live, root: rewind.before };
        // Those that this block created itself too: `past` cuts them off in the end.
        self.regained.extend(rewind.taken());
        Ok(())
    }

    fn block_root(&self) -> BlockRoot {
        let TreeCommitment { leaves, live, root } = self.commitment;
        BlockRoot { point: self.point, root, leaves, live }
    }

    fn head(&self, network: Network) -> Head {
        head(network, self.point, &self.commitment)
    }

    fn corrupt(&self) -> StoreError {
        let height = self.point.map_or(0, |point| point.height);
        let place = format!("{}, height {height}", ColumnFamily::MmrNodes.name());
        StoreError::Corrupt { place, what: "the trees don't lead to the stored root".into() }
    }
}

/// Both trees as they stood, over those on disk.
struct PastTrees<'a> {
    view: &'a View<'a>,
    head: Head,
    chunks: BTreeMap<u64, Bits>,
    live: BTreeMap<Node, Hash>,
}

impl<'a> PastTrees<'a> {
    fn new(view: &'a View<'a>, network: Network, past: &PastBlock) -> Result<Self, StoreError> {
        let leaves = past.commitment.leaves;
        let (chunks, live) = (BTreeMap::new(), BTreeMap::new());
        let mut trees = Self { view, head: past.head(network), chunks, live };
        // The last chunk of then may have gone on since: its bits on disk know of later leaves. At
        // the tip, or where a chunk was just full, there is nothing to take away.
        let edge = (!past.is_tip && !leaves.is_multiple_of(CHUNK_BITS)).then_some(leaves);
        for leaf in past.regained.iter().copied().chain(edge) {
            let bits = trees.chunk(chunk_of(leaf))?;
            trees.chunks.insert(chunk_of(leaf), bits);
        }
        if let Some(bits) = edge.and_then(|leaf| trees.chunks.get_mut(&chunk_of(leaf))) {
            bits.cut(leaves);
        }
        for leaf in &past.regained {
            if let Some(bits) = trees.chunks.get_mut(&chunk_of(*leaf)) {
                bits.set_live(*leaf, true);
            }
        }
        // All other chunks are as they were: their hashes on disk still hold.
        let touched = trees.chunks.iter().map(|(number, bits)| (*number, bits.hash(*number)));
        let touched = touched.collect();
        let get = |node| read_node(view, TreeKind::Live, node);
        let mut made = BTreeMap::new();
        let bits = tree::update(Domain::LIVE, chunk_count(leaves), touched, get, |node, hash| {
            made.insert(node, hash);
        })?;
        trees.live = made;
        // The tree of outputs only grows, so what were its peaks then are nodes of it now.
        let outputs = read_root(view, TreeKind::Outputs, leaves)?;
        // The root was stored apart from bits and nodes: damage to any of these shows here, before
        // a proof is made of them.
        if trees.head.root(&outputs, &bits) != past.commitment.root {
            return Err(past.corrupt());
        }
        Ok(trees)
    }

    fn chunk(&self, number: u64) -> Result<Bits, StoreError> {
        // As it was then, where it differs from what is on disk.
        if let Some(bits) = self.chunks.get(&number) {
            return Ok(*bits);
        }
        let key = key(TreeKind::Bits, 0, number);
        let value = self.view.get(ColumnFamily::MmrNodes, &key)?;
        Bits::decode(&key, &value.ok_or_else(|| absent(ColumnFamily::MmrNodes, &key))?)
    }

    fn proof(&self, coins: Vec<(u64, Leaf)>) -> Result<Proof, StoreError> {
        let places: Vec<u64> = coins.iter().map(|(place, _)| *place).collect();
        let mut numbers: Vec<u64> = places.iter().map(|place| chunk_of(*place)).collect();
        // Coins come by leaf, so equal chunks are neighbours.
        numbers.dedup();
        let output_nodes = needed(self.head.leaves, &places).into_iter();
        let live_nodes = needed(chunk_count(self.head.leaves), &numbers).into_iter();
        let live = |node: Node| match self.live.get(&node) {
            Some(hash) => Ok(*hash),
            None => read_node(self.view, TreeKind::Live, node),
        };
        Ok(Proof {
            head: self.head.clone(),
            coins,
            output_nodes: output_nodes
                .map(|node| read_node(self.view, TreeKind::Outputs, node))
                .collect::<Result<_, _>>()?,
            chunks: numbers
                .iter()
                .map(|number| Ok(LiveChunk(self.chunk(*number)?.live)))
                .collect::<Result<_, StoreError>>()?,
            live_nodes: live_nodes.map(live).collect::<Result<_, _>>()?,
        })
    }
}

/// The ordinal of a height that has a root.
fn rooted(view: &View<'_>, state: &StoreState, height: u64) -> Result<u64, QueryError> {
    let tip = state.cursor.ordinal;
    let ordinal = points::last_where(view, tip, |stored| stored.point.height <= height)?;
    let found = points::at(view, ordinal)?.filter(|stored| stored.point.height == height);
    // The floor itself has one though its delta is gone: the block above it tells the root before.
    if found.is_some() && ordinal >= state.horizon.floor {
        return Ok(ordinal);
    }
    let lowest = points::at(view, state.horizon.floor.max(1))?;
    let from = lowest.map_or(0, |stored| stored.point.height);
    let to = state.cursor.point().map_or(0, |point| point.height);
    Err(QueryError::NoRoot { height, from, to })
}

fn delta(view: &View<'_>, ordinal: u64) -> Result<Option<StoredDelta>, StoreError> {
    let key = ordinal.to_be_bytes();
    let stored = view.get(ColumnFamily::Delta, &key)?.map(|value| decode_delta(&value)).transpose();
    stored.map_err(StoreError::value(ColumnFamily::Delta.name(), &key))
}

fn absent(family: ColumnFamily, key: &[u8]) -> StoreError {
    StoreError::absent(family.name(), key)
}

/// A coin as people of the network write it.
fn name(network: Network, outpoint: &Outpoint) -> String {
    let mut txid = outpoint.tx.0;
    if network.family() == Family::Bitcoin {
        txid.reverse();
    }
    let txid: String = txid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{txid}#{}", outpoint.index)
}
