//! A block's undo data: what decodes re-encodes to the same bytes, and what was encoded decodes.
//!
//! The decoder also reads deltas in which only some entries carry a body, which no encoder writes;
//! those are left out of the comparison.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_chain::{
    Coin, SharedCoin,
    codec::{StoredDelta, decode_delta, encode_delta},
};
use unspent_fuzz::{Source, damage};
use unspent_model::chain::{BlockDelta, Created, Record, Spent, TxFlags};

/// Never looked at in a compact delta.
fn coin(record: Option<&Record>) -> SharedCoin {
    let nothing = Source(&[]).record();
    Coin::new(record.unwrap_or(&nothing)).into()
}

fn rebuild(stored: &StoredDelta) -> BlockDelta<SharedCoin> {
    let created = stored.created.iter().map(|entry| Created {
        outpoint: entry.outpoint,
        coin: coin(entry.record.as_ref()),
        spent_here: false,
    });
    let spent = stored.spent.iter().map(|entry| Spent {
        outpoint: entry.outpoint,
        coin: coin(entry.record.as_ref()),
        by: entry.by,
        born_here: false,
    });
    let lost = stored.overwritten.iter();
    BlockDelta {
        point: stored.point,
        created: created.collect(),
        spent: spent.collect(),
        overwritten: lost.map(|(outpoint, record)| (*outpoint, coin(Some(record)))).collect(),
        missing: stored.missing.clone(),
        tx_flags: stored.tx_flags.clone(),
    }
}

fn canonical(bytes: &[u8]) {
    let Ok(stored) = decode_delta(bytes) else { return };
    let compact = stored.created.iter().all(|entry| entry.record.is_none())
        && stored.spent.iter().all(|entry| entry.record.is_none() && entry.by.is_none());
    if compact || stored.is_self_contained() {
        let encoded = encode_delta(&rebuild(&stored), !compact, stored.rewind.as_ref());
        assert_eq!(encoded, bytes);
    }
}

fn invent(source: &mut Source<'_>) -> BlockDelta<SharedCoin> {
    BlockDelta {
        point: source.point(),
        created: source.list(|source| Created {
            outpoint: source.outpoint(),
            coin: coin(Some(&source.record())),
            spent_here: false,
        }),
        spent: source.list(|source| Spent {
            outpoint: source.outpoint(),
            coin: coin(Some(&source.record())),
            by: source.maybe(Source::tx),
            born_here: false,
        }),
        overwritten: source.list(|source| (source.outpoint(), coin(Some(&source.record())))),
        missing: source.list(Source::outpoint),
        tx_flags: source.list(|source| TxFlags {
            tx: source.tx(),
            is_invalid: source.flag(),
            had_collateral_return: source.flag(),
        }),
    }
}

fuzz_target!(|bytes: &[u8]| {
    canonical(bytes);
    let mut source = Source(bytes);
    let self_contained = source.flag();
    let mut encoded = encode_delta(&invent(&mut source), self_contained, None);
    assert!(decode_delta(&encoded).is_ok());
    canonical(&encoded);
    damage(&mut encoded, &mut source);
    canonical(&encoded);
});
