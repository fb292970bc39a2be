//! The reader's place on a node's chain.
//!
//! Nodes name points by slot and hash. The height of a rollback's target is known because the
//! reader remembers the points it gave out and those it was told; a target below them ends the
//! connection, and the caller's next intersection finds a point that both know.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use pallas_network::miniprotocols::{Point as Wire, chainsync::Tip};
use unspent_model::{BlockHash, Point};
use unspent_networks::cardano::head::Head;

use super::{Shared, line::Line, stream::StreamEvent};
use crate::{RawBlock, Source, SourceError, Step};

/// Points remembered: more than any node rolls back (2160).
const POINTS_KEPT: usize = 4400;
/// Points of one question; more would not fit into one segment.
const POINTS_ASKED: usize = 1000;
/// A node that is not at its tip tells of the next block earlier than this.
const STALLED: Duration = Duration::from_secs(40);

/// A reader of one node.
pub(super) struct CardanoSource {
    shared: Arc<Shared>,
    line: Option<Line>,
    /// `None` is the origin.
    place: Option<Point>,
    tip: Option<Point>,
    /// Points known to be below the place, oldest first, ending with the place.
    passed: VecDeque<Point>,
    at_tip: bool,
}

impl CardanoSource {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let passed = VecDeque::new();
        Self { shared, line: None, place: None, tip: None, passed, at_tip: false }
    }

    fn connect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError> {
        let mut asked: Vec<Wire> = thinned(points).map(|point| wire(&point)).collect();
        // All chains of a network share it, so that an answer without any point isn't the usual
        // one.
        asked.push(Wire::Origin);
        let line = Line::open(self.shared.clone(), asked)?;
        let (found, tip) = match line.wait(STALLED)? {
            Some(StreamEvent::Standing(found, tip)) => (found, tip),
            Some(StreamEvent::Forward { .. } | StreamEvent::Backward(..) | StreamEvent::AtTip)
            | None => {
                return Err(self.shared.unreachable("it doesn't say where it is on the chain"));
            }
        };
        let at = match found {
            Some(Wire::Origin) | None => None,
            Some(found) => {
                let at = points.iter().position(|point| wire(point) == found);
                Some(at.ok_or_else(|| self.shared.malformed("a point that was not asked for"))?)
            }
        };
        let below = at.and_then(|at| points.get(at..)).unwrap_or_default();
        self.passed = below.iter().rev().copied().collect();
        self.place = below.first().copied();
        self.hear(&tip);
        self.at_tip = false;
        self.line = Some(line);
        Ok(self.place)
    }

    fn hear(&mut self, tip: &Tip) {
        let Tip(point, height) = tip;
        self.tip = match point {
            Wire::Origin => None,
            Wire::Specific(slot, hash) => hash.as_slice().try_into().ok().map(|hash| Point {
                height: *height,
                slot: *slot,
                hash: BlockHash(hash),
            }),
        };
    }

    fn step(&mut self, patience: Duration) -> Result<Step, SourceError> {
        let until = Instant::now() + patience;
        loop {
            let line = self.line.as_ref().ok_or_else(|| self.shared.unreachable("it hung up"))?;
            let time = match self.at_tip {
                true => until.saturating_duration_since(Instant::now()),
                false => STALLED,
            };
            match line.wait(time)? {
                Some(StreamEvent::Forward { bytes, head, tip }) => {
                    self.hear(&tip);
                    return self.forward(bytes, &head);
                }
                Some(StreamEvent::Backward(point, tip)) => {
                    self.hear(&tip);
                    if let Some(step) = self.backward(&point)? {
                        return Ok(step);
                    }
                }
                Some(StreamEvent::AtTip) => self.at_tip = true,
                Some(StreamEvent::Standing(..)) => {
                    return Err(self.shared.malformed("an answer that was not asked for"));
                }
                None if self.at_tip => return Ok(Step::Nothing),
                None => return Err(self.shared.unreachable("it sends nothing more")),
            }
        }
    }

    fn forward(&mut self, bytes: Vec<u8>, head: &Head) -> Result<Step, SourceError> {
        let parent = self.place.map(|place| place.hash);
        // A chain's first block names no block.
        if parent.is_some_and(|parent| parent != head.parent) {
            let height = head.point.height;
            let reason = format!("block {height} isn't the child of the block below it");
            return Err(self.shared.malformed(reason));
        }
        self.place = Some(head.point);
        self.passed.push_back(head.point);
        if self.passed.len() > POINTS_KEPT {
            self.passed.pop_front();
        }
        self.at_tip = false;
        Ok(Step::Forward(RawBlock::new(head.point, parent, bytes)))
    }

    /// `None` when the reader stands there: nodes begin with the intersection itself.
    fn backward(&mut self, point: &Wire) -> Result<Option<Step>, SourceError> {
        self.at_tip = false;
        let place = match point {
            Wire::Origin => None,
            Wire::Specific(..) => {
                let at = self.passed.iter().rposition(|passed| wire(passed) == *point);
                let unknown = "it rolls back below the points that are remembered";
                let at = at.ok_or_else(|| self.shared.unreachable(unknown))?;
                self.passed.get(at).copied()
            }
        };
        if place == self.place {
            return Ok(None);
        }
        while self.passed.back().is_some_and(|last| Some(*last) != place) {
            self.passed.pop_back();
        }
        self.place = place;
        Ok(Some(Step::Backward(place)))
    }
}

fn wire(point: &Point) -> Wire {
    Wire::Specific(point.slot, point.hash.0.to_vec())
}

/// As many points as fit: the newest half of the room densely, the rest thinly, the oldest always.
fn thinned(points: &[Point]) -> impl Iterator<Item = Point> {
    let dense = POINTS_ASKED / 2;
    let rest = points.len().saturating_sub(dense);
    let every = rest.div_ceil(dense - 1).max(1);
    let last = points.len().saturating_sub(1);
    let keeps = move |at: usize| at < dense || (at - dense).is_multiple_of(every) || at == last;
    points.iter().copied().enumerate().filter(move |(at, _)| keeps(*at)).map(|(_, point)| point)
}

impl Source for CardanoSource {
    fn intersect(&mut self, points: &[Point]) -> Result<Option<Point>, SourceError> {
        self.line = None;
        self.connect(points)
    }

    fn next(&mut self, patience: Duration) -> Result<Step, SourceError> {
        let step = self.step(patience);
        // Nobody knows what is still on its way there; the next intersection opens another line.
        if step.is_err() {
            self.line = None;
        }
        step
    }

    fn tip(&self) -> Option<Point> {
        self.tip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_thinned_to_what_fits() {
        for count in [0, 1, 499, 500, 501, 1000, 1001, 4320, 100_000] {
            let point = |n| Point { height: n, slot: n, hash: BlockHash([0; 32]) };
            let points: Vec<_> = (0..count).rev().map(point).collect();
            let kept: Vec<_> = thinned(&points).collect();
            assert!(kept.len() <= POINTS_ASKED, "{count}: {}", kept.len());
            assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
            assert!(kept.is_sorted_by(|a, b| a.height > b.height));
        }
    }
}
