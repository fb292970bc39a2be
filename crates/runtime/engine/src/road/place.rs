//! Finding where the room's chain and the source's part.

use std::ops::Range;

use unspent_model::Point;
use unspent_source::Source;

use super::{Follower, Trouble};

/// The last blocks that are offered one by one; below them the steps double.
const DENSE: u64 = 10;
/// Points offered at once when the place is looked for more closely.
const FINER: u64 = 16;

/// Sets the source to the highest block that the room has too. `None` is the origin.
pub(super) fn fork_point<F: Follower>(
    follower: &F,
    source: &mut dyn Source,
    tip: Point,
) -> Result<Option<Point>, Trouble> {
    let mut offered = ladder(follower, tip)?;
    let mut found = source.intersect(&offered)?;
    // The steps of the ladder are wide: the true place lies between the point found and the next
    // higher one, which the source doesn't have.
    loop {
        let refused = match found {
            Some(found) => offered.iter().take_while(|point| **point != found).last(),
            None => offered.last(),
        };
        let low = found.map_or(0, |found| found.height + 1);
        let Some(high) = refused.map(|point| point.height).filter(|high| *high > low) else {
            return Ok(found);
        };
        offered = between(follower, low..high)?;
        if offered.is_empty() {
            return Ok(found);
        }
        // Offered again, so that an answer without any point can only mean that the chain has
        // moved.
        offered.extend(found);
        let finer = source.intersect(&offered)?;
        if finer.is_none() && found.is_some() {
            // The chain moved again under the search.
            return Err(Trouble::Lost("the source changed branches meanwhile".into()));
        }
        found = finer;
    }
}

/// Stored points from the tip down, thinning out.
fn ladder<F: Follower>(follower: &F, tip: Point) -> Result<Vec<Point>, Trouble> {
    let mut points = vec![tip];
    let (mut below, mut step) = (1, 1);
    while let Some(height) = tip.height.checked_sub(below) {
        push(&mut points, follower.stored_at(height)?);
        if below >= DENSE {
            step *= 2;
        }
        below += step;
    }
    // Doubled steps pass the first block by; with it only another chain has nothing in common.
    push(&mut points, follower.stored_at(0)?);
    Ok(points)
}

/// Stored points of these heights, evenly, highest first. There must be a height.
fn between<F: Follower>(follower: &F, heights: Range<u64>) -> Result<Vec<Point>, Trouble> {
    let Range { start: low, end: high } = heights;
    let step = (high - low).div_ceil(FINER).max(1);
    let mut points = Vec::new();
    let mut height = high - 1;
    loop {
        push(&mut points, follower.stored_at(height)?.filter(|point| point.height >= low));
        match height.checked_sub(step).filter(|next| *next >= low) {
            Some(next) => height = next,
            None => return Ok(points),
        }
    }
}

fn push(points: &mut Vec<Point>, point: Option<Point>) {
    points.extend(point.filter(|point| points.last() != Some(point)));
}
