//! Roots and proofs as JSON. A proof is read back from it field by field, so that nothing stands in
//! one that the root doesn't bind.

use serde::{Deserialize, Serialize};
use unspent_chain::{BlockRoot, CheckedProof};
use unspent_model::Network;
use unspent_server::json::PointJson;
use unspent_verify::{Head, Leaf, LiveChunk, Proof};
use utoipa::ToSchema;

/// The root of a block.
#[derive(Serialize, ToSchema)]
pub(crate) struct RootJson {
    network: &'static str,
    /// What proofs lead to: 64 hex digits
    pub(crate) root: String,
    /// The block; null before the first one
    block: Option<PointJson>,
    /// Outputs ever created, up to this block
    leaves: u64,
    /// Outputs unspent after this block
    live: u64,
}

impl RootJson {
    pub(crate) fn new(network: Network, root: &BlockRoot) -> Self {
        Self {
            network: network.name(),
            root: hex::encode(root.root),
            block: root.point.map(|point| PointJson::new(network, &point)),
            leaves: root.leaves,
            live: root.live,
        }
    }
}

/// What a proof says of a coin.
#[derive(Serialize, ToSchema)]
pub(crate) struct VerdictJson {
    outpoint: String,
    /// `unspent` or `spent`
    state: String,
}

/// A proof with what it says, and the root that it leads to.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProvenJson {
    #[serde(flatten)]
    root: RootJson,
    coins: Vec<VerdictJson>,
    /// Bytes of the proof as CBOR
    bytes: usize,
    proof: CoinProofJson,
}

impl ProvenJson {
    pub(crate) fn new(network: Network, proven: &CheckedProof) -> Self {
        let coins = proven.proof.coins.iter().zip(&proven.verdicts);
        let coins = coins.map(|((_, leaf), verdict)| VerdictJson {
            outpoint: format!("{}:{}", network.show_hash(&leaf.txid), leaf.vout),
            state: verdict.to_string().to_lowercase(),
        });
        Self {
            root: RootJson::new(network, &proven.root),
            coins: coins.collect(),
            bytes: proven.proof.to_bytes().len(),
            proof: CoinProofJson::new(network, &proven.proof),
        }
    }
}

/// A proof. Hashes of blocks and transactions are as people of the network write them.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CoinProofJson {
    network: String,
    height: u64,
    block_hash: String,
    leaves: u64,
    live: u64,
    /// In the order of leaves
    coins: Vec<ProvenCoinJson>,
    /// Nodes of the tree of outputs, in the order in which a checker takes them
    output_nodes: Vec<String>,
    /// 1,024 live bits each, those of the coins
    chunks: Vec<String>,
    /// Nodes of the tree of live bits
    live_nodes: Vec<String>,
}

/// A coin in a proof.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProvenCoinJson {
    leaf: u64,
    txid: String,
    vout: u32,
    /// Canonical CBOR, in hex
    record: String,
}

impl CoinProofJson {
    pub(crate) fn new(network: Network, proof: &Proof) -> Self {
        let Head { network: name, height, block_hash, leaves, live } = &proof.head;
        let coins = proof.coins.iter().map(|(leaf, coin)| ProvenCoinJson {
            leaf: *leaf,
            txid: network.show_hash(&coin.txid),
            vout: coin.vout,
            record: hex::encode(&coin.record),
        });
        Self {
            network: name.clone(),
            height: *height,
            block_hash: network.show_hash(block_hash),
            leaves: *leaves,
            live: *live,
            coins: coins.collect(),
            output_nodes: proof.output_nodes.iter().map(hex::encode).collect(),
            chunks: proof.chunks.iter().map(|chunk| hex::encode(chunk.0)).collect(),
            live_nodes: proof.live_nodes.iter().map(hex::encode).collect(),
        }
    }

    /// The proof that is written here; `None` when it is none.
    pub(crate) fn read(&self) -> Option<Proof> {
        let network: Network = self.network.parse().ok()?;
        let coin = |coin: &ProvenCoinJson| {
            let txid = network.parse_hash(&coin.txid)?;
            let record = hex::decode(&coin.record).ok()?;
            Some((coin.leaf, Leaf { txid, vout: coin.vout, record }))
        };
        let head = Head {
            network: self.network.clone(),
            height: self.height,
            block_hash: network.parse_hash(&self.block_hash)?,
            leaves: self.leaves,
            live: self.live,
        };
        Some(Proof {
            head,
            coins: self.coins.iter().map(coin).collect::<Option<_>>()?,
            output_nodes: pieces(&self.output_nodes)?,
            chunks: pieces(&self.chunks)?.into_iter().map(LiveChunk).collect(),
            live_nodes: pieces(&self.live_nodes)?,
        })
    }
}

fn pieces<const N: usize>(texts: &[String]) -> Option<Vec<[u8; N]>> {
    let piece = |text: &String| {
        let mut bytes = [0; N];
        hex::decode_to_slice(text, &mut bytes).ok().map(|()| bytes)
    };
    texts.iter().map(piece).collect()
}
