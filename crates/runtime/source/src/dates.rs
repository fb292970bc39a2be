//! From a date to a height: where to begin to read for a wallet of which only a date is known.

use super::{Source, SourceError};

/// Taken off a date, in seconds: a block's time may be hours away from when it was found, and
/// people don't say in which time zone they count.
const LEEWAY: u64 = 86_400;
/// Taken off the tip's height where the date is later than all blocks: a reorganisation may bring
/// others in their place.
const NEAR_TIP: u64 = 100;

/// A height below which no block is of that time or later. `None` when the source can't tell.
///
/// Times of blocks are nearly in order, so the search ends at some block that is too early with
/// one above it that isn't. What lies below is older still, by more than times can be wrong.
///
/// # Errors
///
/// [`SourceError`] when it can't be asked.
pub fn height_of(source: &mut dyn Source, seconds: u64) -> Result<Option<u64>, SourceError> {
    source.intersect(&[])?;
    let Some(tip) = source.tip().map(|tip| tip.height) else { return Ok(None) };
    let wanted = seconds.saturating_sub(LEEWAY);
    let (mut low, mut high) = (0, tip + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        // Files that begin in the middle of the chain don't have what is below.
        match source.time_at(middle)? {
            Some(time) if time >= wanted => high = middle,
            Some(_) | None => low = middle + 1,
        }
    }
    let Some(below) = low.checked_sub(1) else { return Ok(Some(0)) };
    let is_known = source.time_at(below)?.is_some();
    let near = tip.saturating_sub(NEAR_TIP);
    Ok(is_known.then_some(if low > tip { near } else { low }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use unspent_model::{BlockHash, Point};

    use super::*;
    use crate::Step;

    const DAY: u64 = 86_400;
    const START: u64 = 1_600_000_000;

    /// A chain of which only times are known, from a height on.
    struct Times {
        first: u64,
        times: Vec<u64>,
        asked: usize,
    }

    impl Source for Times {
        fn intersect(&mut self, _: &[Point]) -> Result<Option<Point>, SourceError> {
            Ok(None)
        }

        fn next(&mut self, _: Duration) -> Result<Step, SourceError> {
            Ok(Step::Nothing)
        }

        fn tip(&self) -> Option<Point> {
            let height = (self.first + self.times.len() as u64).checked_sub(1)?;
            Some(Point { height, slot: height, hash: BlockHash::default() })
        }

        fn time_at(&mut self, height: u64) -> Result<Option<u64>, SourceError> {
            self.asked += 1;
            let at = height.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
            Ok(at.and_then(|at| self.times.get(at).copied()))
        }
    }

    fn chain(first: u64, times: Vec<u64>) -> Times {
        Times { first, times, asked: 0 }
    }

    /// Blocks every ten minutes, each up to two hours off.
    fn disorderly(count: u64) -> Vec<u64> {
        (0..count).map(|n| START + 600 * n + (n * 7_919) % 14_400 - 7_200).collect()
    }

    #[test]
    fn a_block_not_above_the_first_of_a_date_is_found_among_times_in_disorder() {
        let times = disorderly(50_000);
        for day in 1..340 {
            let date = START + day * DAY;
            let mut source = chain(0, times.clone());
            let found = height_of(&mut source, date).unwrap().unwrap();
            let first = times.iter().position(|time| *time >= date).unwrap() as u64;
            assert!(found <= first, "{found} is above {first}");
            assert!(found + 200 >= first, "{found} is far below {first}");
            assert!(source.asked < 40, "{} questions", source.asked);
        }
    }

    #[test]
    fn dates_beyond_the_chain_give_a_block_below_the_tip_or_none() {
        let times = disorderly(1_000);
        let asked = |first, date| height_of(&mut chain(first, times.clone()), date).unwrap();
        assert_eq!(asked(0, 0), Some(0));
        assert_eq!(asked(0, START - DAY), Some(0));
        assert_eq!(asked(0, START + 100 * DAY), Some(899), "not the tip itself");
        // The chain begins before these files do.
        assert_eq!(asked(500, START - DAY), None);
        assert!(asked(500, START + 4 * DAY).is_some_and(|height| height > 500));
        assert_eq!(height_of(&mut chain(0, Vec::new()), START).unwrap(), None);
    }
}
