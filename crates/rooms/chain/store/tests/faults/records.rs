//! Single entries rot: the checksums of the files are right, what is written in them is not.
//!
//! Each test damages one entry behind the store's back; opening, `verify` or a query must name it.
//! What is opaque to the index and stored once (a datum) has no second copy to compare with: there
//! the files' checksums are the only guard. Undo data has a checksum of its own.

use std::path::Path;

use rocksdb::{DB, IteratorMode, Options};
use unspent_chain::{
    ChainIndex, Kind, Owner, PageOrder, Reader, RollbackError, RollbackTarget, StoreError,
    StoreKind,
    codec::{decode_delta, pack_undo, unpack_undo},
    schema::{AddressKey, ColumnFamily, NodeKey, OutpointKey, SpentKey, TreeKind},
};

use crate::{corruption::Store, driver::data, history::NETWORK};

type Entry = (Vec<u8>, Vec<u8>);

/// A store with one damaged entry.
struct Case {
    store: Store,
    family: &'static str,
    /// The entry's key.
    key: Vec<u8>,
}

/// What happens to the chosen entry.
type Damage = fn(&DB, &'static str, &Entry) -> Vec<u8>;

fn raw(folder: &Path) -> DB {
    let path = data(folder).join("db");
    let families = DB::list_cf(&Options::default(), &path).unwrap();
    DB::open_cf(&Options::default(), &path, families).unwrap()
}

fn put(db: &DB, family: &str, key: &[u8], value: &[u8]) {
    db.put_cf(db.cf_handle(family).unwrap(), key, value).unwrap();
}

impl Case {
    /// Damages the entry in the middle of a family.
    fn middle(family: ColumnFamily, damage: Damage) -> Self {
        Self::new(family, damage, |entries| entries.len() / 2)
    }

    /// Damages the entry with this name.
    fn named(family: ColumnFamily, name: &[u8], damage: Damage) -> Self {
        Self::new(family, damage, |entries| {
            entries.iter().position(|(key, _)| key == name).unwrap()
        })
    }

    fn new(family: ColumnFamily, damage: Damage, choose: impl Fn(&[Entry]) -> usize) -> Self {
        Self::on(Store::build(7, false), family, damage, choose)
    }

    /// Damages the `at`th of the nodes of a tree at a height, or of all bits.
    fn node(tree: TreeKind, height: u8, damage: Damage) -> Self {
        let store = Store::build_on(StoreKind::Mmr, 7, false);
        Self::on(store, ColumnFamily::MmrNodes, damage, |entries| {
            let is_one = |(key, _): &Entry| {
                let node = NodeKey::decode(key).unwrap();
                (node.tree, node.height) == (tree, height)
            };
            let found = (0..entries.len()).filter(|at| is_one(&entries[*at]));
            let found: Vec<usize> = found.collect();
            found[found.len() / 2]
        })
    }

    fn on(
        store: Store,
        family: ColumnFamily,
        damage: Damage,
        choose: impl Fn(&[Entry]) -> usize,
    ) -> Self {
        let family = family.name();
        let db = raw(store.folder.path());
        let all = db.iterator_cf(db.cf_handle(family).unwrap(), IteratorMode::Start);
        let all: Vec<Entry> = all.map(|e| e.map(|(k, v)| (k.into(), v.into())).unwrap()).collect();
        let key = damage(&db, family, &all[choose(&all)]);
        drop(db);
        Self { store, family, key }
    }

    fn hex(&self) -> String {
        hex::encode(&self.key)
    }

    /// Everything that opening, `verify` and the fingerprint have to say.
    fn complaints(&self) -> Vec<String> {
        let options = self.store.history.options(30);
        let folder = data(self.store.folder.path());
        let index = match ChainIndex::open(&folder, NETWORK, options, &[]) {
            Ok((index, _)) => index,
            Err(error) => return vec![error.to_string()],
        };
        let reader = index.reader();
        let mut complaints = match reader.verify(&mut |_| {}) {
            Ok(report) => report.findings.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        };
        complaints.extend(reader.digest().err().map(|error| error.to_string()));
        complaints
    }

    /// Some complaint holds all of these words.
    fn is_named_with(&self, words: &[&str]) {
        let complaints = self.complaints();
        let named = complaints.iter().any(|text| words.iter().all(|word| text.contains(word)));
        assert!(named, "nothing names {words:?} in {complaints:?}");
    }

    /// Some complaint names the damaged entry itself.
    fn is_named(&self) {
        self.is_named_with(&[self.family, &self.hex()]);
    }

    fn ordinal(&self) -> String {
        u64::from_be_bytes(self.key.as_slice().try_into().unwrap()).to_string()
    }

    fn outpoint(&self) -> unspent_model::Outpoint {
        if self.family == ColumnFamily::Spent.name() {
            return SpentKey::decode(&self.key).unwrap().outpoint;
        }
        OutpointKey::decode(&self.key).unwrap().0
    }

    fn reader(&self) -> Reader {
        Reader::open(&data(self.store.folder.path()), 1 << 20).unwrap()
    }
}

/// Breaks the form of a value: its version byte.
fn unreadable(db: &DB, family: &'static str, (key, value): &Entry) -> Vec<u8> {
    let mut value = value.clone();
    value[0] ^= 0x20;
    put(db, family, key, &value);
    key.clone()
}

/// Flips the lowest bit of the byte at `AT`, counted from the end when negative.
fn flipped<const AT: isize>(db: &DB, family: &'static str, (key, value): &Entry) -> Vec<u8> {
    let mut value = value.clone();
    let at = if AT < 0 { value.len() as isize + AT } else { AT };
    value[at as usize] ^= 1;
    put(db, family, key, &value);
    key.clone()
}

fn missing(db: &DB, family: &'static str, (key, _): &Entry) -> Vec<u8> {
    db.delete_cf(db.cf_handle(family).unwrap(), key).unwrap();
    key.clone()
}

/// A second entry with the same value, under a key that nobody wrote.
fn surplus(db: &DB, family: &'static str, (key, value): &Entry) -> Vec<u8> {
    let mut key = key.clone();
    *key.last_mut().unwrap() ^= 0x40;
    put(db, family, &key, value);
    key
}

#[test]
fn an_unreadable_point_is_named() {
    Case::middle(ColumnFamily::Points, unreadable).is_named();
}

#[test]
fn a_point_with_a_flipped_bit_in_its_hash_is_named() {
    let case = Case::middle(ColumnFamily::Points, flipped::<20>);
    case.is_named_with(&["utxo_block_delta", &case.ordinal(), "another block than its point"]);
}

#[test]
fn a_missing_point_is_named() {
    let case = Case::middle(ColumnFamily::Points, missing);
    case.is_named_with(&["chain_points", "points are missing"]);
    case.is_named_with(&["utxo_block_delta", &case.ordinal()]);
}

#[test]
fn a_surplus_point_is_named() {
    let case = Case::middle(ColumnFamily::Points, surplus);
    case.is_named_with(&["chain_points", &case.ordinal()]);
}

#[test]
fn a_hash_with_a_flipped_bit_in_its_ordinal_is_named() {
    Case::middle(ColumnFamily::Hashes, flipped::<7>).is_named();
}

#[test]
fn a_missing_hash_is_named() {
    Case::middle(ColumnFamily::Hashes, missing).is_named();
}

#[test]
fn an_unreadable_identity_is_named() {
    Case::named(ColumnFamily::ChainMeta, b"identity", unreadable).is_named();
}

#[test]
fn an_identity_with_a_flipped_bit_in_its_network_is_named() {
    Case::named(ColumnFamily::ChainMeta, b"identity", flipped::<{ -1 }>).is_named();
}

#[test]
fn an_unreadable_coin_is_named_by_verify_and_by_queries() {
    let case = Case::middle(ColumnFamily::Unspent, unreadable);
    case.is_named();
    let error = case.reader().coin(&case.outpoint()).unwrap_err();
    assert!(error.to_string().contains(&case.hex()), "{error}");
}

#[test]
fn a_coin_with_a_flipped_bit_in_its_address_is_named() {
    let case = Case::middle(ColumnFamily::Unspent, flipped::<8>);
    let id = format!("{:?}", case.outpoint());
    case.is_named_with(&["utxo_addr", &id, "the coin is unspent but not listed"]);
    case.is_named_with(&["utxo_addr", &id, "under the wrong owner"]);
}

#[test]
fn a_coin_with_a_flipped_bit_in_its_amount_is_seen_in_the_totals() {
    // Version, map head, address with its head and key, key and head of the amount.
    let case = Case::middle(ColumnFamily::Unspent, flipped::<40>);
    case.is_named_with(&["utxo_meta", "cursor", "coins worth"]);
}

#[test]
fn a_missing_coin_is_named_by_verify_and_by_pages() {
    let store_with_all = Store::build(7, false);
    let whole = Reader::open(&data(store_with_all.folder.path()), 1 << 20).unwrap();
    let case = Case::middle(ColumnFamily::Unspent, missing);
    case.is_named_with(&["utxo_addr", &format!("{:?}", case.outpoint()), "not unspent"]);
    let unspent_chain::CoinState::Unspent(record) = whole.coin(&case.outpoint()).unwrap() else {
        panic!("the coin was unspent")
    };
    let owner = Owner::address(NETWORK.family(), &record.output.addr);
    let error = case.reader().page(owner, PageOrder::Ascending, 500, None).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let named = format!("utxo_addr[{:?}]", case.outpoint());
    assert!(error.to_string().contains(&named), "{error}");
}

#[test]
fn a_surplus_coin_is_named() {
    let case = Case::middle(ColumnFamily::Unspent, surplus);
    case.is_named_with(&["utxo_addr", &format!("{:?}", case.outpoint()), "not listed"]);
}

#[test]
fn an_unreadable_spend_is_named_by_verify_and_by_queries() {
    let case = Case::middle(ColumnFamily::Spent, unreadable);
    case.is_named();
    let error = case.reader().coin(&case.outpoint()).unwrap_err();
    assert!(error.to_string().contains(&case.hex()), "{error}");
}

#[test]
fn a_spend_that_leads_to_another_one_is_named_by_verify_and_by_queries() {
    // Behind the version byte: the number.
    let case = Case::middle(ColumnFamily::Spent, flipped::<1>);
    case.is_named_with(&["utxo_spent", &format!("{:?}", case.outpoint())]);
    let error = case.reader().coin(&case.outpoint()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}

#[test]
fn a_missing_spend_is_named() {
    let case = Case::middle(ColumnFamily::Spent, missing);
    case.is_named_with(&["utxo_spent", &format!("{:?}", case.outpoint()), "its record is missing"]);
}

#[test]
fn a_list_entry_with_a_value_is_named() {
    let case = Case::middle(ColumnFamily::Address, |db, family, (key, _)| {
        put(db, family, key, &[0]);
        key.clone()
    });
    let entry = AddressKey::decode(&case.key).unwrap();
    case.is_named_with(&["utxo_addr", &entry.to_string(), "has a value"]);
}

#[test]
fn a_missing_list_entry_is_named() {
    let case = Case::middle(ColumnFamily::Address, missing);
    let entry = AddressKey::decode(&case.key).unwrap();
    case.is_named_with(&["utxo_addr", &entry.to_string(), "not listed"]);
}

#[test]
fn a_surplus_list_entry_is_named() {
    let case = Case::middle(ColumnFamily::Address, surplus);
    let entry = AddressKey::decode(&case.key).unwrap();
    case.is_named_with(&["utxo_addr", &entry.to_string(), "not unspent"]);
}

#[test]
fn an_unreadable_delta_is_named_by_verify_and_by_queries() {
    let case = Case::middle(ColumnFamily::Delta, unreadable);
    case.is_named();
    let ordinal = u64::from_be_bytes(case.key.as_slice().try_into().unwrap());
    let error = case.reader().delta(ordinal - 1).unwrap_err();
    assert!(error.to_string().contains(&case.hex()), "{error}");
}

/// Flips a bit of what is packed in a delta, where these bytes stand, and packs it again.
fn repacked(db: &DB, family: &'static str, (key, value): &Entry, marked: &[u8]) -> Vec<u8> {
    let (counts, mut inside) = unpack_undo(value).unwrap();
    let at = inside.windows(marked.len()).position(|bytes| bytes == marked).unwrap();
    inside[at] ^= 1;
    put(db, family, key, &pack_undo(counts, &inside).unwrap());
    key.clone()
}

#[test]
fn a_delta_of_another_block_is_named() {
    let case = Case::middle(ColumnFamily::Delta, |db, family, entry| {
        let hash = decode_delta(&entry.1).unwrap().point.hash.0;
        repacked(db, family, entry, &hash)
    });
    case.is_named_with(&["utxo_block_delta", &case.ordinal(), "another block than its point"]);
}

#[test]
fn a_delta_that_lists_another_owner_is_named() {
    let case = Case::middle(ColumnFamily::Delta, |db, family, entry| {
        let created = decode_delta(&entry.1).unwrap().created;
        let listing = created.iter().find_map(|made| made.listing).unwrap();
        repacked(db, family, entry, &listing.address)
    });
    case.is_named_with(&["utxo_block_delta", "lists an owner or amount that differs"]);
}

#[test]
fn damage_inside_undo_data_is_named_by_verify_and_queries_and_stops_a_rollback() {
    for at in [flipped::<{ -1 }> as Damage, flipped::<40>, flipped::<60>] {
        let store = Store::build(7, false);
        let case = Case::on(store, ColumnFamily::Delta, at, |entries| entries.len() - 1);
        case.is_named();
        let options = case.store.history.options(30);
        let folder = data(case.store.folder.path());
        let (mut index, _) = ChainIndex::open(&folder, NETWORK, options, &[]).unwrap();
        let tip = index.tip();
        let refused = index.rollback(RollbackTarget::Height(tip.unwrap().height - 1)).unwrap_err();
        assert_eq!(refused.kind(), Kind::Corrupt, "{refused}");
        assert!(refused.to_string().contains(&case.hex()), "{refused}");
        assert_eq!(index.tip(), tip);
        let error = index.reader().delta(tip.unwrap().height).unwrap_err();
        assert!(error.to_string().contains(&case.hex()), "{error}");
    }
}

#[test]
fn a_missing_delta_is_named() {
    let case = Case::middle(ColumnFamily::Delta, missing);
    case.is_named_with(&["utxo_block_delta", &case.ordinal(), "is missing inside the window"]);
}

#[test]
fn a_surplus_delta_is_named() {
    let case = Case::middle(ColumnFamily::Delta, surplus);
    case.is_named_with(&["utxo_block_delta", &case.ordinal(), "another block than its point"]);
}

#[test]
fn unreadable_bookkeeping_is_named() {
    for name in [b"cursor".as_slice(), b"horizon", b"layout"] {
        Case::named(ColumnFamily::UtxoMeta, name, unreadable).is_named();
    }
}

#[test]
fn missing_bookkeeping_is_named() {
    for name in [b"cursor".as_slice(), b"horizon"] {
        Case::named(ColumnFamily::UtxoMeta, name, missing).is_named();
    }
}

#[test]
fn a_cursor_with_a_flipped_bit_in_its_totals_is_named() {
    // Behind them: the count of missing inputs with its key.
    let case = Case::named(ColumnFamily::UtxoMeta, b"cursor", flipped::<{ -3 }>);
    case.is_named_with(&["utxo_meta", "cursor", "coins worth"]);
}

#[test]
fn a_surplus_hash_is_named() {
    Case::middle(ColumnFamily::Hashes, surplus).is_named();
}

#[test]
fn a_surplus_spend_is_named() {
    let case = Case::middle(ColumnFamily::Spent, surplus);
    case.is_named_with(&["utxo_spent", &format!("{:?}", case.outpoint())]);
}

#[test]
fn a_missing_identity_is_named() {
    Case::named(ColumnFamily::ChainMeta, b"identity", missing).is_named();
}

#[test]
fn a_missing_layout_is_named() {
    Case::named(ColumnFamily::UtxoMeta, b"layout", missing).is_named();
}

#[test]
fn a_damaged_list_of_redeem_coins_is_named() {
    Case::named(ColumnFamily::UtxoMeta, b"redeem", unreadable).is_named();
}

#[test]
fn damaged_nodes_and_bits_of_the_mmr_store_are_named() {
    for (tree, height) in
        [(TreeKind::Outputs, 0), (TreeKind::Outputs, 3), (TreeKind::Live, 0), (TreeKind::Bits, 0)]
    {
        for damage in [flipped::<5> as Damage, missing] {
            Case::node(tree, height, damage).is_named_with(&["utxo_mmr_nodes"]);
        }
    }
    // A bit that says a spent coin is settled.
    Case::node(TreeKind::Bits, 0, flipped::<200>).is_named_with(&["utxo_mmr_nodes"]);
    Case::node(TreeKind::Outputs, 0, surplus).is_named_with(&["utxo_mmr_nodes"]);
}

/// Changes the root that the last delta says was there before its block.
fn other_root(db: &DB, family: &'static str, entry: &Entry) -> Vec<u8> {
    let root = decode_delta(&entry.1).unwrap().rewind.unwrap().before;
    repacked(db, family, entry, &root)
}

#[test]
fn a_rollback_that_leads_to_another_root_is_refused_and_changes_nothing() {
    let store = Store::build_on(StoreKind::Mmr, 7, false);
    let case = Case::on(store, ColumnFamily::Delta, other_root, |entries| entries.len() - 1);
    case.is_named_with(&["utxo_block_delta"]);
    let options = case.store.history.options(30);
    let folder = data(case.store.folder.path());
    let (mut index, _) = ChainIndex::open(&folder, NETWORK, options, &[]).unwrap();
    let (before, root) = (index.tip(), index.reader().snapshot().root(None).unwrap());
    let refused = index.rollback(RollbackTarget::Height(before.unwrap().height - 1)).unwrap_err();
    assert!(matches!(refused, RollbackError::Store(StoreError::OtherRoot { .. })), "{refused}");
    assert_eq!(refused.kind(), Kind::Corrupt);
    assert_eq!(index.tip(), before);
    assert_eq!(index.reader().snapshot().root(None).unwrap(), root);
}
