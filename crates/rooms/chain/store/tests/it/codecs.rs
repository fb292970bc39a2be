//! Golden bytes of every key and value, and strictness: one value, one encoding.

use proptest::prelude::*;
use unspent_chain::{
    Coin, SharedCoin,
    codec::{
        CodecError, StoredDelta, UndoData, decode_counts, decode_delta, decode_pointer,
        decode_record, decode_spend, encode_delta, encode_pointer, encode_record, pack_undo,
        unpack_undo,
    },
    schema::{AddressKey, OutpointKey, Owner, SpentKey},
};
use unspent_model::{
    BlockHash, Family, Network, Outpoint, Point, TxId,
    chain::{
        Asset, BlockDelta, Born, Created, Era, Header, Output, Record, SpendingInput, Spent,
        TxFlags, Work,
    },
};
use unspent_testkit::chain::{coin_of, payment};

use crate::driver::{Store, bytes, genesis, small_windows};

fn full_record() -> Record {
    Record {
        output: Output {
            addr: vec![0x61; 29],
            value: 1_500_000,
            assets: vec![Asset { policy: [2; 28], name: b"\0t".to_vec(), quantity: 7 }],
            data_hash: Some([3; 32]),
            inline_datum: Some(vec![0xd8, 0x79, 0x80]),
            script_ref: Some(vec![0x82, 0x01, 0x41, 0x00]),
            reference_script_hash: Some([4; 28]),
            is_collateral_return: true,
            is_coinbase: true,
            payment_credential: Some([5; 28]),
            stake_credential: Some([6; 28]),
            stake_addr: Some(vec![0xe1; 29]),
        },
        born: Born {
            slot: 70_000,
            block_number: 300,
            block_hash: BlockHash([8; 32]),
            epoch: Some(9),
            block_time: 1_700_000_000,
            tx_position: 24,
        },
    }
}

fn header() -> Header {
    Header {
        point: Point { height: 301, slot: 70_020, hash: BlockHash([9; 32]) },
        parent: BlockHash([8; 32]),
        era: Era::Babbage,
        is_boundary: false,
        epoch: Some(9),
        time: 1_700_000_020,
        work: Work::default(),
    }
}

#[test]
fn a_record_has_these_bytes() {
    let expected = concat!(
        "b2", // 18 fields
        "00581d6161616161616161616161616161616161616161616161616161616161",
        "011a0016e360",
        "028183581c02020202020202020202020202020202020202020202020202020202",
        "42007407",
        "0358200303030303030303030303030303030303030303030303030303030303030303",
        "0443d87980",
        "054482014100",
        "06581c04040404040404040404040404040404040404040404040404040404",
        "07f5",
        "081a00011170",
        "0919012c",
        "0a58200808080808080808080808080808080808080808080808080808080808080808",
        "0b09",
        "0c1a6553f100",
        "0d581c05050505050505050505050505050505050505050505050505050505",
        "0e581c06060606060606060606060606060606060606060606060606060606",
        "0f581de1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1e1",
        "10f5",
        "111818",
    );
    assert_eq!(hex::encode(encode_record(&full_record())), expected);
    assert_eq!(decode_record(&hex::decode(expected).unwrap()), Ok(full_record()));
}

#[test]
fn a_bare_record_leaves_out_what_is_absent() {
    let record = Record {
        output: coin_of(4, 0),
        born: Born { epoch: None, tx_position: 0, ..full_record().born },
    };
    let expected = concat!(
        "a7",
        "00581e600202020202020202020202020202020202020202020202020202020204",
        "0100",
        "081a00011170",
        "0919012c",
        "0a58200808080808080808080808080808080808080808080808080808080808080808",
        "0c1a6553f100",
        "1100",
    );
    assert_eq!(hex::encode(encode_record(&record)), expected);
}

#[test]
fn a_pointer_has_these_bytes() {
    assert_eq!(hex::encode(encode_pointer(5)), "0105");
    assert_eq!(hex::encode(encode_pointer(6_000)), "01191770");
    assert_eq!(decode_pointer(&[0x01, 0x19, 0x17, 0x70]), Ok(6_000));
    // Not in its shortest form, cut short, followed by more.
    for wrong in [&[0x01, 0x19, 0x00, 0x05][..], &[0x01], &[0x01, 0x05, 0x00]] {
        assert!(decode_pointer(wrong).is_err(), "{wrong:?}");
    }
}

fn whole(record: &Record) -> SharedCoin {
    Coin::new(Family::Cardano, record).into()
}

/// A block that spends an older coin and one of its own, overwrites one, creates one that stays.
fn small_delta() -> BlockDelta<SharedCoin> {
    let header = header();
    let own = |position| Record {
        output: Output { payment_credential: Some([5; 28]), ..coin_of(0, 3) },
        born: Born::in_block(&header, position),
    };
    let name = |id, index| Outpoint::new(TxId([id; 32]), index);
    let by = |id, position, input| Some(SpendingInput { tx: TxId([id; 32]), position, input });
    let created = |at: (u8, u32), spent_here| Created {
        outpoint: name(at.0, at.1),
        coin: whole(&own(u32::from(at.0))),
        spent_here,
    };
    let spent = |at: (u8, u32), record: &Record, by, born_here| Spent {
        outpoint: name(at.0, at.1),
        coin: whole(record),
        by,
        born_here,
    };
    BlockDelta {
        point: header.point,
        created: vec![created((1, 0), true), created((1, 2), false), created((4, 0), false)],
        spent: vec![
            spent((0xaa, 7), &full_record(), by(2, 2, 1), false),
            spent((1, 0), &own(1), by(2, 2, 0), true),
            spent((0xbb, 0), &full_record(), None, false),
        ],
        overwritten: vec![(name(0xcc, 0), whole(&full_record()))],
        missing: vec![name(0xdd, 1)],
        tx_flags: vec![TxFlags {
            tx: TxId([4; 32]),
            is_invalid: true,
            had_collateral_return: true,
        }],
    }
}

fn encoded(delta: &BlockDelta<SharedCoin>, self_contained: bool) -> Vec<u8> {
    let Header { time, epoch, .. } = header();
    encode_delta(&UndoData { delta, time, epoch, self_contained, rewind: None }).unwrap()
}

/// What it was made from, as far as it says.
fn rebuilt(stored: &StoredDelta) -> Vec<u8> {
    let of_spent = |name: &Outpoint| {
        let found = stored.spent.iter().find(|spent| spent.born_here && spent.outpoint == *name);
        whole(&found.unwrap().record)
    };
    let created = stored.created.iter().map(|made| Created {
        outpoint: made.outpoint,
        coin: match (&made.record, &made.listing) {
            (Some(record), Some(_)) => whole(record),
            (None, Some(listing)) => Coin::leaving(listing, stored.point.slot).into(),
            (_, None) => of_spent(&made.outpoint),
        },
        spent_here: made.listing.is_none(),
    });
    let spent = stored.spent.iter().map(|spent| Spent {
        outpoint: spent.outpoint,
        coin: whole(&spent.record),
        by: spent.by,
        born_here: spent.born_here,
    });
    let delta = BlockDelta {
        point: stored.point,
        created: created.collect(),
        spent: spent.collect(),
        overwritten: stored.overwritten.iter().map(|(at, lost)| (*at, whole(lost))).collect(),
        missing: stored.missing.clone(),
        tx_flags: stored.tx_flags.clone(),
    };
    let StoredDelta { time, epoch, self_contained, .. } = *stored;
    let (delta, rewind) = (&delta, stored.rewind.as_ref());
    encode_delta(&UndoData { delta, time, epoch, self_contained, rewind }).unwrap()
}

#[test]
fn a_delta_has_these_bytes() {
    for (name, self_contained) in [("compact_delta", false), ("self_contained_delta", true)] {
        let value = encoded(&small_delta(), self_contained);
        let (counts, inside) = unpack_undo(&value).unwrap();
        assert_eq!(counts, [3, 3]);
        assert_eq!(value, pack_undo(counts, &inside).unwrap(), "packed the same way each time");
        insta::assert_snapshot!(name, hex::encode(inside));
    }
}

#[test]
fn a_delta_tells_what_it_was_told() {
    let delta = small_delta();
    for self_contained in [false, true] {
        let value = encoded(&delta, self_contained);
        let stored = decode_delta(&value).unwrap();
        assert_eq!(stored.self_contained, self_contained);
        assert_eq!(
            (stored.point, stored.time, stored.epoch),
            (delta.point, 1_700_000_020, Some(9))
        );
        let counts = decode_counts(&value).unwrap();
        assert_eq!((counts.created, counts.spent), (3, 3));
        for (number, (told, spent)) in (0..).zip(stored.spent.iter().zip(&delta.spent)) {
            assert_eq!((told.outpoint, told.by), (spent.outpoint, spent.by));
            assert_eq!(whole(&told.record), spent.coin);
            assert_eq!(told.born_here, spent.born_here);
            let (name, alone) = decode_spend(&value, number).unwrap();
            assert_eq!((name, alone.by, alone.at), (told.outpoint, told.by, delta.point));
            assert_eq!(
                (alone.record, alone.time, alone.epoch),
                (told.record.clone(), 1_700_000_020, Some(9))
            );
        }
        assert!(decode_spend(&value, 3).is_err(), "there are three");
        for (told, made) in stored.created.iter().zip(&delta.created) {
            assert_eq!(told.outpoint, made.outpoint);
            assert_eq!(told.listing.is_none(), made.spent_here);
            assert_eq!(told.record.is_some(), self_contained);
            if let Some(listing) = &told.listing {
                let leaving = Coin::leaving(listing, delta.point.slot);
                let keys = |coin: &Coin| coin.list_keys(&told.outpoint).collect::<Vec<_>>();
                assert_eq!((keys(&leaving), leaving.value()), (keys(&made.coin), 3));
            }
        }
        assert_eq!((&stored.missing, &stored.tx_flags), (&delta.missing, &delta.tx_flags));
        assert_eq!(stored.overwritten, [(delta.overwritten[0].0, full_record())]);
        assert_eq!(rebuilt(&stored), value);
    }
}

#[test]
fn a_flipped_bit_of_a_delta_is_noticed_or_makes_no_difference() {
    for self_contained in [false, true] {
        let value = encoded(&small_delta(), self_contained);
        let (right, mut unnoticed) = (decode_delta(&value).unwrap(), 0);
        for at in 0..value.len() {
            for bit in 0..8 {
                let mut damaged = value.clone();
                damaged[at] ^= 1 << bit;
                if let Ok(stored) = decode_delta(&damaged) {
                    assert_eq!(stored, right, "bit {bit} of byte {at}");
                    unnoticed += 1;
                }
            }
        }
        // A frame has bits without a meaning, and says some things in two ways.
        assert!(unnoticed * 100 < value.len() * 8, "{unnoticed}");
    }
}

#[test]
fn keys_have_these_bytes() {
    let outpoint = Outpoint::new(TxId([1; 32]), 0x0102_0304);
    let key = OutpointKey(outpoint).encode();
    assert_eq!(hex::encode(key), format!("{}01020304", "01".repeat(32)));
    assert_eq!(OutpointKey::decode(&key).unwrap().0, outpoint);
    let key = SpentKey { outpoint, ordinal: 0x0506 };
    let expected = format!("{}010203040000000000000506", "01".repeat(32));
    assert_eq!(hex::encode(key.encode()), expected);
    assert_eq!(SpentKey::decode(&key.encode()).unwrap(), key);
    let owner = Owner::Credential([0xcc; 28]);
    let key = AddressKey { owner, slot: 5, tx_position: 6, outpoint };
    let expected =
        format!("63{}000000000000000500000006{}01020304", "cc".repeat(28), "01".repeat(32));
    assert_eq!(hex::encode(key.encode()), expected);
    assert_eq!(AddressKey::decode(&key.encode()).unwrap(), key);
    // Blake2b-224 of the raw address, checked against an independent implementation.
    let raw = hex::decode("6033c378cee41b2e15ac848f7f6f1d2f78155ab12d93b713de898d855f").unwrap();
    let hash = "e139e9a9966f21b8d3e48282a55f4e0c8d195099e854aa86670539ec";
    let owner = Owner::address(Family::Cardano, &raw);
    assert_eq!(hex::encode(owner.encode()), format!("61{hash}"));
    // The first 28 bytes of SHA-256 of the script; the example of Electrum's protocol, which shows
    // the hash reversed: 8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161.
    let script = hex::decode("76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac").unwrap();
    let owner = Owner::address(Family::Bitcoin, &script);
    let hash = "6191c3b590bfcfa0475e877c302da1e323497acf3b42c08d8fa28e36";
    assert_eq!(hex::encode(owner.encode()), format!("61{hash}"));
    let whole = hex::decode(format!("{hash}4edf018b")).unwrap().try_into().unwrap();
    assert_eq!(Owner::script_hash(&whole), owner);
    for length in [0, 35, 37, 76, 78] {
        assert!(OutpointKey::decode(&vec![0; length]).is_err());
        assert!(SpentKey::decode(&vec![0; length]).is_err());
        assert!(AddressKey::decode(&vec![0x61; length]).is_err());
    }
    assert!(AddressKey::decode(&[0x62; AddressKey::LEN]).is_err(), "unknown tag");
}

/// The whole store after a tiny history, every byte: a change here is a change of format.
#[test]
fn a_small_store_has_these_bytes() {
    let options = unspent_chain::Options { self_contained: true, ..small_windows(5, 5) };
    let mut store = Store::new(Network::CardanoPreview, options, &genesis());
    let create = payment(1, vec![], vec![(0, coin_of(0, 3)), (1, coin_of(4, 4))]);
    let spend = payment(2, vec![Outpoint::new(create.id, 0)], vec![]);
    let stray = payment(3, vec![Outpoint::new(TxId([0x77; 32]), 1)], vec![]);
    let mut header = header();
    header.point = Point { height: 0, slot: 0, hash: BlockHash([9; 32]) };
    let block = unspent_model::chain::Block { header, txs: vec![create, spend, stray] };
    store.apply(&block);
    let mut digest = String::new();
    for (family, entries) in bytes(&store.reader()) {
        for (key, value) in entries {
            digest += &format!("{family} {} {}\n", hex::encode(key), hex::encode(value));
        }
    }
    insta::assert_snapshot!("small_store", digest);
}

#[test]
fn what_is_not_canonical_is_refused() {
    let good = encode_record(&full_record());
    let mut long_integer = good.clone();
    // 0919012c (300) written in four bytes instead of two.
    let at = long_integer.windows(4).position(|w| w == [0x09, 0x19, 0x01, 0x2c]).unwrap();
    long_integer.splice(at..at + 4, [0x09, 0x1a, 0, 0, 0x01, 0x2c]);
    let mut unset_flag = good.clone();
    let at = unset_flag.windows(2).position(|w| w == [0x07, 0xf5]).unwrap();
    unset_flag[at + 1] = 0xf4;
    let mut trailing = good.clone();
    trailing.push(0);
    let mut indefinite = good.clone();
    indefinite[0] = 0xbf;
    indefinite.push(0xff);
    let missing_field = [&[0xa1, 0x01, 0x00][..]].concat();
    let descending = [&[0xa2, 0x01, 0x00, 0x00, 0x40][..]].concat();
    for (what, bytes) in [
        ("a long integer", long_integer),
        ("an unset flag", unset_flag),
        ("trailing bytes", trailing),
        ("an indefinite map", indefinite),
        ("a missing field", missing_field),
        ("descending keys", descending),
        ("nothing", vec![]),
    ] {
        assert!(decode_record(&bytes).is_err(), "{what}");
    }
    assert_eq!(decode_pointer(&[]), Err(CodecError::Version(None)));
    assert_eq!(decode_delta(&[2]), Err(CodecError::Version(Some(2))));
}

prop_compose! {
    fn records()(
        addr in proptest::collection::vec(any::<u8>(), 0..80),
        value: u64,
        assets in proptest::collection::vec(
            (any::<[u8; 28]>(), proptest::collection::vec(any::<u8>(), 0..32), any::<u64>()),
            0..4,
        ),
        data_hash: Option<[u8; 32]>,
        inline_datum in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
        script_ref in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
        flags in any::<(bool, bool)>(),
        credentials in any::<(Option<[u8; 28]>, Option<[u8; 28]>, Option<[u8; 28]>)>(),
        place in any::<(u64, u64, [u8; 32], Option<u64>, u64, u32)>(),
    ) -> Record {
        let assets = assets.into_iter();
        Record {
            output: Output {
                addr,
                value,
                assets: assets
                    .map(|(policy, name, quantity)| Asset { policy, name, quantity })
                    .collect(),
                data_hash,
                inline_datum,
                script_ref,
                reference_script_hash: credentials.2,
                is_collateral_return: flags.0,
                is_coinbase: flags.1,
                payment_credential: credentials.0,
                stake_credential: credentials.1,
                stake_addr: credentials.1.map(|hash| hash.to_vec()),
            },
            born: Born {
                slot: place.0,
                block_number: place.1,
                block_hash: BlockHash(place.2),
                epoch: place.3,
                block_time: place.4,
                tx_position: place.5,
            },
        }
    }
}

proptest! {
    #[test]
    fn records_survive_the_round_trip_alone_and_as_spends(
        records in proptest::collection::vec(records(), 1..6),
        by: Option<([u8; 32], u32, u32)>,
        self_contained: bool,
    ) {
        let by = by.map(|(tx, position, input)| SpendingInput { tx: TxId(tx), position, input });
        let mut delta = BlockDelta { spent: vec![], created: vec![], ..small_delta() };
        for (index, record) in (0..).zip(&records) {
            prop_assert_eq!(decode_record(&encode_record(record)), Ok(record.clone()));
            let (outpoint, coin) = (Outpoint::new(TxId([9; 32]), index), whole(record));
            delta.spent.push(Spent { outpoint, coin, by, born_here: false });
        }
        let value = encoded(&delta, self_contained);
        let stored = decode_delta(&value).unwrap();
        prop_assert!(stored.spent.iter().all(|spent| spent.by == by));
        prop_assert_eq!(stored.spent.into_iter().map(|spent| spent.record).collect::<Vec<_>>(), records);
    }

    #[test]
    fn insides_of_deltas_that_decode_encode_to_themselves(
        self_contained: bool,
        at: prop::sample::Index,
        flip in 1..=255_u8,
    ) {
        let (counts, mut inside) = unpack_undo(&encoded(&small_delta(), self_contained)).unwrap();
        let at = at.index(inside.len());
        inside[at] ^= flip;
        let value = pack_undo(counts, &inside).unwrap();
        if let Ok(changed) = decode_delta(&value) {
            let again = unpack_undo(&rebuilt(&changed)).unwrap().1;
            if !self_contained {
                prop_assert_eq!(again, inside);
                return Ok(());
            }
            // Both an address and its hash are there; `verify` compares them.
            prop_assert_eq!(again.len(), inside.len());
            let again = decode_delta(&pack_undo(counts, &again).unwrap()).unwrap();
            prop_assert_eq!(again.spent, changed.spent);
        }
    }

    #[test]
    fn bytes_that_decode_encode_to_themselves(
        record in records(),
        at: prop::sample::Index,
        flip in 1..=255_u8,
    ) {
        let mut bytes = encode_record(&record);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(changed) = decode_record(&bytes) {
            prop_assert_eq!(encode_record(&changed), bytes);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_record(&bytes);
        let _ = decode_pointer(&bytes);
        let _ = decode_delta(&bytes);
        let _ = decode_delta(&pack_undo([0, 0], &bytes).unwrap());
        let _ = decode_spend(&pack_undo([1, 1], &bytes).unwrap(), 0);
        let _ = OutpointKey::decode(&bytes);
        let _ = SpentKey::decode(&bytes);
        let _ = AddressKey::decode(&bytes);
    }
}
