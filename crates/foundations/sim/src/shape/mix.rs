//! The mixture: how many inputs and outputs, how old a spent coin is, who is paid.
//!
//! Figures are those measured on mainnet blocks from height 900,000 on. Weights are integers (per
//! ten thousand, or per thousand), never floats, so that every machine draws the same.

use std::ops::RangeInclusive;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A range of values, both ends included, and how often it is drawn relative to the others.
struct Band {
    weight: u32,
    low: u32,
    high: u32,
}

const fn band(weight: u32, values: RangeInclusive<u32>) -> Band {
    Band { weight, low: *values.start(), high: *values.end() }
}

/// Inputs per transaction; mean 1.87.
const INPUTS: [Band; 8] = [
    band(8_520, 1..=1),
    band(920, 2..=2),
    band(190, 3..=3),
    band(160, 4..=5),
    band(120, 6..=10),
    band(73, 11..=50),
    band(23, 51..=200),
    band(6, 201..=400),
];

/// Outputs per transaction; mean about 2.6.
const OUTPUTS: [Band; 8] = [
    band(1_660, 1..=1),
    band(6_090, 2..=2),
    band(1_760, 3..=3),
    band(220, 4..=5),
    band(140, 6..=10),
    band(130, 11..=40),
    band(17, 51..=200),
    band(2, 201..=260),
];

/// Of transactions with two outputs or more, how many carry an OP_RETURN: with the outputs above
/// these are 17.8 % of all outputs.
const NOTES_PER_THOUSAND: u32 = 560;

/// Bytes of data behind OP_RETURN; with opcode and length two more (7, 21, 40, 70).
const NOTE_BYTES: [Band; 4] =
    [band(12, 5..=5), band(80, 19..=19), band(6, 38..=38), band(2, 68..=68)];

/// Ranks of hot addresses and the share of outputs that pay them: the first gets 1.9 %, the first
/// ten 7.4 %, the first hundred 21 %, the first thousand 34 %.
const HOT: [Band; 4] =
    [band(190, 0..=0), band(550, 1..=9), band(1_360, 10..=99), band(1_300, 100..=999)];
/// How many addresses are hot.
pub(super) const HOT_ADDRESSES: u32 = 1_000;
/// Of the other outputs, how many go back to an address that the transaction spends from.
const BACK_TO_SENDER_PER_THOUSAND: u32 = 80;

/// How long a spent coin has lived, in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// Made by an earlier transaction of the same block.
    SameBlock,
    /// Between so many and so many blocks.
    Between(u32, u32),
}

/// Oldest age of each class but the first and the last.
pub(super) const AGE_LIMITS: [u32; 3] = [10, 144, 2_016];

/// Whom an output pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payee {
    /// The hot address of this rank, 0 being the hottest.
    Hot(u32),
    /// The address of the first coin that the transaction spends.
    Sender,
    /// An address never used before.
    New,
}

pub(super) fn inputs(rng: &mut ChaCha8Rng) -> u32 {
    draw(rng, &INPUTS)
}

pub(super) fn outputs(rng: &mut ChaCha8Rng) -> u32 {
    draw(rng, &OUTPUTS)
}

pub(super) fn carries_note(rng: &mut ChaCha8Rng) -> bool {
    rng.random_ratio(NOTES_PER_THOUSAND, 1_000)
}

pub(super) fn note_bytes(rng: &mut ChaCha8Rng) -> u32 {
    draw(rng, &NOTE_BYTES)
}

pub(super) fn age(rng: &mut ChaCha8Rng) -> Age {
    match rng.random_range(0..100_u32) {
        0..28 => Age::SameBlock,
        28..41 => Age::Between(1, 10),
        41..63 => Age::Between(11, 144),
        63..80 => Age::Between(145, 2_016),
        _ => Age::Between(2_017, u32::MAX),
    }
}

pub(super) fn payee(rng: &mut ChaCha8Rng) -> Payee {
    let mut ticket = rng.random_range(0..10_000_u32);
    for tier in &HOT {
        if ticket < tier.weight {
            return Payee::Hot(rng.random_range(tier.low..=tier.high));
        }
        ticket -= tier.weight;
    }
    if rng.random_ratio(BACK_TO_SENDER_PER_THOUSAND, 1_000) { Payee::Sender } else { Payee::New }
}

fn draw(rng: &mut ChaCha8Rng, bands: &[Band]) -> u32 {
    let all: u32 = bands.iter().map(|band| band.weight).sum();
    let mut ticket = rng.random_range(0..all.max(1));
    for band in bands {
        if ticket < band.weight {
            return harmonic(rng, band.low..=band.high);
        }
        ticket -= band.weight;
    }
    1
}

/// A number of the range with probability proportional to its inverse: the power law of
/// ages and sizes, by rejection, without a logarithm. The lowest must not be 0.
pub(super) fn harmonic(rng: &mut ChaCha8Rng, range: RangeInclusive<u32>) -> u32 {
    /// After so many rejections, which only a range of enormous width needs, take the lowest.
    const PATIENCE: u32 = 64;
    let (low, high) = range.into_inner();
    for _ in 0..PATIENCE {
        let candidate = rng.random_range(low..=high.max(low));
        if rng.random_range(0..candidate.max(1)) < low {
            return candidate;
        }
    }
    low
}
