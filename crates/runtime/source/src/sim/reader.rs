//! The port: the simulated network as an origin, its readers, its node.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bitcoin::{Transaction, Txid, consensus::encode, hashes::Hash as _};
use unspent_model::{BlockHash, Network, Point};
use unspent_sim::{ChainSim, SimBlock};

use super::{Command, SimError, SimNetwork};
use crate::{Answer, MempoolTx, MempoolView, Node, Origin, RawBlock, Source, SourceError, Step};

/// What the network is called in status and logs.
const NAME: &str = "the simulated network";

impl Origin for SimNetwork {
    fn network(&self) -> Network {
        Network::BitcoinRegtest
    }

    fn name(&self) -> String {
        NAME.into()
    }

    fn open(&self) -> Result<Box<dyn Source>, SourceError> {
        let tip = self.look(tip);
        Ok(Box::new(SimReader { network: self.clone(), place: None, tip }))
    }

    fn node(&self) -> Option<Arc<dyn Node>> {
        Some(Arc::new(self.clone()))
    }

    fn simulated(&self) -> Option<SimNetwork> {
        Some(self.clone())
    }
}

/// One reader's place.
struct SimReader {
    network: SimNetwork,
    place: Option<Point>,
    tip: Option<Point>,
}

fn model_hash(hash: bitcoin::BlockHash) -> BlockHash {
    BlockHash(hash.to_byte_array())
}

fn point(block: &SimBlock) -> Point {
    let height = u64::from(block.height);
    Point { height, slot: height, hash: model_hash(block.hash) }
}

fn tip(sim: &ChainSim) -> Option<Point> {
    sim.block_at(sim.height()).map(point)
}

fn active_at(sim: &ChainSim, height: u64) -> Option<&SimBlock> {
    sim.block_at(u32::try_from(height).ok()?)
}

fn is_active(sim: &ChainSim, wanted: &Point) -> bool {
    active_at(sim, wanted.height).is_some_and(|block| point(block) == *wanted)
}

/// The highest active block below a place that isn't.
fn last_active(sim: &ChainSim, place: &Point) -> Option<Point> {
    let mut hash = bitcoin::BlockHash::from_byte_array(place.hash.0);
    while let Some(block) = sim.block(&hash) {
        let found = point(block);
        if is_active(sim, &found) {
            return Some(found);
        }
        hash = block.block.header.prev_blockhash;
    }
    None
}

fn raw(block: &SimBlock) -> RawBlock {
    let parent = block.height.checked_sub(1);
    let parent = parent.map(|_| model_hash(block.block.header.prev_blockhash));
    RawBlock::new(point(block), parent, encode::serialize(&block.block))
}

/// The step from a place, if there is one.
fn step(sim: &ChainSim, place: Option<Point>) -> Option<Step> {
    if let Some(place) = place.filter(|place| !is_active(sim, place)) {
        return Some(Step::Backward(last_active(sim, &place)));
    }
    let next = place.map_or(0, |place| place.height + 1);
    active_at(sim, next).map(|block| Step::Forward(raw(block)))
}

impl Source for SimReader {
    fn intersect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError> {
        let network = self.network.clone();
        network.look(|sim| {
            self.tip = tip(sim);
            self.place = points.iter().find(|point| is_active(sim, point)).copied();
        });
        Ok(self.place)
    }

    fn next(&mut self, patience: Duration) -> Result<Step, SourceError> {
        let started = Instant::now();
        let network = self.network.clone();
        let mut world = network.lock();
        loop {
            self.tip = tip(&world.sim);
            if let Some(step) = step(&world.sim, self.place) {
                self.place = match &step {
                    Step::Forward(raw) => Some(raw.point),
                    Step::Backward(to) => *to,
                    Step::Nothing => self.place,
                };
                return Ok(step);
            }
            let rest = patience.saturating_sub(started.elapsed());
            if rest.is_zero() {
                return Ok(Step::Nothing);
            }
            world = network.wait(world, rest);
        }
    }

    fn skip(&mut self, child: Point) -> bool {
        let next = self.place.map_or(0, |place| place.height + 1);
        let is_next = self.network.look(|sim| active_at(sim, next).map(point)) == Some(child);
        if is_next {
            self.place = Some(child);
        }
        is_next
    }

    fn tip(&self) -> Option<Point> {
        self.tip
    }

    fn point_at(&mut self, height: u64) -> Result<Option<Point>, SourceError> {
        Ok(self.network.look(|sim| active_at(sim, height).map(point)))
    }

    fn time_at(&mut self, height: u64) -> Result<Option<u64>, SourceError> {
        let time = |sim: &ChainSim| active_at(sim, height).map(|block| block.block.header.time);
        Ok(self.network.look(time).map(u64::from))
    }
}

impl Node for SimNetwork {
    fn mempool(&self) -> Result<MempoolView, SourceError> {
        Ok(self.look(|sim| MempoolView {
            tip: Some(model_hash(sim.tip())),
            txids: sim.mempool().iter().map(|entry| entry.txid).collect(),
        }))
    }

    fn transactions(&self, txids: &[Txid]) -> Result<Vec<Transaction>, SourceError> {
        Ok(self.look(|sim| {
            let found = txids.iter().filter_map(|txid| sim.mempool().get(txid));
            found.map(|entry| entry.tx.clone()).collect()
        }))
    }

    fn broadcast(&self, tx: &Transaction) -> Result<Answer, SourceError> {
        // As with a real node: what the mempool holds already is accepted, so sending may be
        // repeated.
        let txid = tx.compute_txid();
        if self.look(|sim| sim.mempool().get(&txid).is_some()) {
            return Ok(Answer::Accepted);
        }
        match self.carry_out(&Command::Submit(tx.clone())) {
            Ok(_) => Ok(Answer::Accepted),
            Err(SimError::Refused(reason)) => Ok(Answer::Rejected { reason }),
            Err(error) => {
                Err(SourceError::Unreachable { name: NAME.into(), reason: error.to_string() })
            }
        }
    }

    fn with_ancestors(&self, txid: Txid) -> Result<Vec<MempoolTx>, SourceError> {
        Ok(self.look(|sim| {
            let (mut found, mut next): (Vec<MempoolTx>, _) = (Vec::new(), vec![txid]);
            while let Some(txid) = next.pop() {
                let Some(entry) = sim.mempool().get(&txid) else { continue };
                if found.iter().any(|known| known.txid == txid) {
                    continue;
                }
                let spent = entry.tx.input.iter().map(|input| input.previous_output.txid);
                let mut parents: Vec<Txid> =
                    spent.filter(|spent| sim.mempool().get(spent).is_some()).collect();
                parents.sort_unstable();
                parents.dedup();
                next.extend(&parents);
                let (fee, virtual_size) = (entry.fee.to_sat(), entry.tx.vsize() as u64);
                found.push(MempoolTx { txid, fee, virtual_size, parents });
            }
            found
        }))
    }
}
