//! A block's undo data: what decodes re-encodes to the same bytes, and what was encoded decodes.
//!
//! The fuzzer can't get past the checksum of a packed value, so it works on what is packed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_chain::{
    Coin, SharedCoin,
    codec::{
        StoredDelta, UndoData, decode_delta, decode_spend, encode_delta, pack_undo, unpack_undo,
    },
};
use unspent_fuzz::{Source, damage};
use unspent_model::{
    Family,
    chain::{BlockDelta, Created, Record, Spent, SpendingInput, TxFlags},
};

fn coin(record: &Record) -> SharedCoin {
    Coin::new(Family::Cardano, record).into()
}

/// What it was made from, as far as it says.
fn rebuild(stored: &StoredDelta) -> BlockDelta<SharedCoin> {
    let same_block = |made: &unspent_chain::codec::StoredCreated| {
        let mut spent = stored.spent.iter();
        let spent = spent.find(|spent| spent.born_here && spent.outpoint == made.outpoint);
        coin(&spent.expect("the decoder compares both lists").record)
    };
    let created = stored.created.iter().map(|made| Created {
        outpoint: made.outpoint,
        coin: match &made.listing {
            Some(listing) => Coin::leaving(listing, stored.point.slot).into(),
            None => same_block(made),
        },
        spent_here: made.listing.is_none(),
    });
    let spent = stored.spent.iter().map(|entry| Spent {
        outpoint: entry.outpoint,
        coin: coin(&entry.record),
        by: entry.by,
        born_here: entry.born_here,
    });
    let lost = stored.overwritten.iter();
    BlockDelta {
        point: stored.point,
        created: created.collect(),
        spent: spent.collect(),
        overwritten: lost.map(|(outpoint, record)| (*outpoint, coin(record))).collect(),
        missing: stored.missing.clone(),
        tx_flags: stored.tx_flags.clone(),
    }
}

/// Compact deltas only: a self-contained one has a hash and the address that it is of, which the
/// decoder doesn't compare.
fn canonical(counts: [u32; 2], inside: &[u8]) {
    let packed = pack_undo(counts, inside).expect("packed");
    let _ = decode_spend(&packed, 0);
    let Ok(stored) = decode_delta(&packed) else { return };
    if stored.self_contained {
        return;
    }
    let StoredDelta { time, epoch, self_contained, .. } = stored;
    let (delta, rewind) = (rebuild(&stored), stored.rewind.as_ref());
    let undo = UndoData { delta: &delta, time, epoch, self_contained, rewind };
    let again = encode_delta(&undo).expect("encoded");
    assert_eq!(unpack_undo(&again).expect("unpacked").1, inside);
}

fn invent(source: &mut Source<'_>) -> BlockDelta<SharedCoin> {
    BlockDelta {
        point: source.point(),
        created: source.list(|source| {
            let mut record = source.record();
            // One transaction at each position.
            record.born.tx_position = u32::from(source.byte());
            let tx = unspent_model::TxId([record.born.tx_position as u8; 32]);
            let outpoint = unspent_model::Outpoint::new(tx, u32::from(source.byte()));
            Created { outpoint, coin: coin(&record), spent_here: false }
        }),
        spent: source.list(|source| Spent {
            outpoint: source.outpoint(),
            coin: coin(&source.record()),
            by: source.maybe(|source| {
                let position = source.byte();
                let tx = unspent_model::TxId([position; 32]);
                SpendingInput { tx, position: position.into(), input: source.byte().into() }
            }),
            born_here: false,
        }),
        overwritten: source.list(|source| (source.outpoint(), coin(&source.record()))),
        missing: source.list(Source::outpoint),
        tx_flags: source.list(|source| TxFlags {
            tx: source.tx(),
            is_invalid: source.flag(),
            had_collateral_return: source.flag(),
        }),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = decode_delta(bytes);
    let mut source = Source(bytes);
    let counts = [u32::from(source.byte()), u32::from(source.byte())];
    canonical(counts, source.0);
    let self_contained = source.flag();
    let (time, epoch, delta) = (source.number(), source.maybe(Source::number), invent(&mut source));
    let undo = UndoData { delta: &delta, time, epoch, self_contained, rewind: None };
    let encoded = encode_delta(&undo).expect("encoded");
    assert!(decode_delta(&encoded).is_ok());
    let (counts, mut inside) = unpack_undo(&encoded).expect("unpacked");
    canonical(counts, &inside);
    damage(&mut inside, &mut source);
    canonical(counts, &inside);
});
