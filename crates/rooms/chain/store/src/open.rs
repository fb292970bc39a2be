//! Opening a folder: what it is for, and where it stands.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use unspent_model::{Network, Outpoint, chain::GenesisCoin};

use crate::{
    codec::{
        CodecError, FolderIdentity, ImportHole, IndexCursor, IndexLayout, MMR_SCHEMA_VERSION,
        OperatorChoices, PruneHorizon, SCHEMA_VERSION, StoredDelta, StoredPoint, TreeCommitment,
        decode_delta, decode_outpoints, encode_outpoints,
    },
    coin::{Coin, SharedCoin},
    db::{Batch, Db, Durability, Get},
    error::{OpenError, StoreError},
    indexes::name::Indexes,
    mmr::{
        TreeBase, TreeChanges,
        bits::chunk_count,
        convert,
        root::{head, read_root},
    },
    options::{Options, StoreKind},
    pending::StoreState,
    points,
    schema::{ColumnFamily, OutpointKey, TreeKind, names},
};

/// RocksDB's own folder inside the data folder.
const DATABASE: &str = "db";

/// The folder of the database, created if need be.
pub(crate) fn database_folder(folder: &Path) -> Result<PathBuf, StoreError> {
    let database = folder.join(DATABASE);
    fs::create_dir_all(&database)
        .map_err(|source| StoreError::Folder { folder: database.display().to_string(), source })?;
    Ok(database)
}

/// Where a database goes that isn't there yet.
pub(crate) fn absent_database(folder: &Path) -> Result<PathBuf, StoreError> {
    fs::create_dir_all(folder)
        .map_err(|source| StoreError::Folder { folder: folder.display().to_string(), source })?;
    Ok(folder.join(DATABASE))
}

/// The folder of a database that must exist.
pub(crate) fn existing_database(folder: &Path) -> Result<PathBuf, OpenError> {
    let database = folder.join(DATABASE);
    if database.join("CURRENT").exists() {
        return Ok(database);
    }
    Err(OpenError::NotFound(folder.display().to_string()))
}

/// Checks or writes what the folder is for, and reads where it stands.
pub(crate) fn prepare(
    db: &mut Db,
    folder: &Path,
    network: Network,
    options: &Options,
    genesis: &[GenesisCoin],
) -> Result<StoreState, OpenError> {
    // Before a family or a switch is written: another network's folder stays as it was found.
    if let Some(found) = identity(db)? {
        check_identity(folder, &found, network)?;
    }
    if options.enabled {
        store_kind(db, options.store)?;
        index_families(db, options.indexes)?;
    }
    let db = &*db;
    let mut batch = db.batch(0);
    identify(db, folder, network, options, &mut batch)?;
    if options.enabled {
        layout(db, network, options, genesis, &mut batch)?;
        batch.put(ColumnFamily::UtxoMeta, names::CHOICES, &choices(options).encode())?;
    }
    batch.commit(Durability::Synced)?;
    let state = state(db, options.enabled)?;
    // Once per start, and it reads the peaks alone: damage below them is left to `verify`.
    check_root(db, network, &state)?;
    Ok(state)
}

/// Refuses a folder of another kind; makes the family that the MMR store needs.
fn store_kind(db: &mut Db, wanted: StoreKind) -> Result<(), OpenError> {
    match (stored_layout(db)?.map(|layout| layout.store), wanted) {
        (Some(found @ StoreKind::Mmr), StoreKind::Classic) => {
            return Err(OpenError::OtherStore { found, wanted });
        }
        (Some(StoreKind::Classic), StoreKind::Mmr) => convert::check(&state(db, true)?)?,
        _ => {}
    }
    if wanted == StoreKind::Mmr {
        db.add(ColumnFamily::MmrNodes)?;
    }
    Ok(())
}

/// Refuses a folder that keeps other indexes; makes the families that those it keeps need.
fn index_families(db: &mut Db, wanted: Indexes) -> Result<(), OpenError> {
    if let Some(found) = stored_layout(db)?.filter(|found| found.indexes != wanted) {
        return Err(OpenError::OtherIndexes(found.indexes));
    }
    for name in wanted.names() {
        db.add(name.row().facts.family)?;
    }
    Ok(())
}

/// The trees must lead to the root that was stored with them.
fn check_root(db: &Db, network: Network, state: &StoreState) -> Result<(), StoreError> {
    let Some(commitment) = &state.commitment else { return Ok(()) };
    let leaves = commitment.leaves;
    let outputs = read_root(db, TreeKind::Outputs, leaves)?;
    let bits = read_root(db, TreeKind::Live, chunk_count(leaves))?;
    let head = head(network, state.cursor.point(), commitment);
    if head.root(&outputs, &bits) == commitment.root {
        return Ok(());
    }
    let place = format!("{}, the peaks", ColumnFamily::MmrNodes.name());
    Err(StoreError::Corrupt { place, what: "the trees don't lead to the stored root".into() })
}

/// The network the folder serves; `None` when it is new.
pub(crate) fn identity(db: &impl Get) -> Result<Option<FolderIdentity>, StoreError> {
    read(db, ColumnFamily::ChainMeta, names::IDENTITY, FolderIdentity::decode)
}

fn identify(
    db: &Db,
    folder: &Path,
    wanted: Network,
    options: &Options,
    batch: &mut Batch<'_>,
) -> Result<(), OpenError> {
    let has_roots = options.enabled && options.store == StoreKind::Mmr;
    let schema = if has_roots { MMR_SCHEMA_VERSION } else { SCHEMA_VERSION };
    let identity_now = FolderIdentity { schema, network: wanted };
    match identity(db)? {
        Some(found) => {
            check_identity(folder, &found, wanted)?;
            if found.schema < schema {
                batch.put(ColumnFamily::ChainMeta, names::IDENTITY, &identity_now.encode())?;
            }
            Ok(())
        }
        // A folder with blocks had an identity once. Guessing one could mix two chains.
        None if points::last(db)?.is_some() => {
            Err(StoreError::absent(ColumnFamily::ChainMeta.name(), names::IDENTITY).into())
        }
        None => Ok(batch.put(ColumnFamily::ChainMeta, names::IDENTITY, &identity_now.encode())?),
    }
}

pub(crate) fn check_identity(
    folder: &Path,
    found: &FolderIdentity,
    wanted: Network,
) -> Result<(), OpenError> {
    if ![SCHEMA_VERSION, MMR_SCHEMA_VERSION].contains(&found.schema) {
        let folder = folder.display().to_string();
        return Err(OpenError::OtherSchema { folder, found: found.schema, wanted: SCHEMA_VERSION });
    }
    if found.network != wanted {
        return Err(OpenError::OtherNetwork { found: found.network, wanted });
    }
    Ok(())
}

fn choices(options: &Options) -> OperatorChoices {
    OperatorChoices {
        prune_depth: options.prune_depth,
        rollback_window: options.rollback_window,
        self_contained: options.self_contained,
    }
}

/// What the operator chose last; `None` when there is no index yet.
pub(crate) fn stored_choices(db: &impl Get) -> Result<Option<OperatorChoices>, StoreError> {
    read(db, ColumnFamily::UtxoMeta, names::CHOICES, OperatorChoices::decode)
}

/// How the index was built; `None` when there is none yet.
pub(crate) fn stored_layout(db: &impl Get) -> Result<Option<IndexLayout>, StoreError> {
    read(db, ColumnFamily::UtxoMeta, names::LAYOUT, IndexLayout::decode)
}

fn layout(
    db: &Db,
    network: Network,
    options: &Options,
    genesis: &[GenesisCoin],
    batch: &mut Batch<'_>,
) -> Result<(), OpenError> {
    let digest = (!genesis.is_empty()).then(|| genesis_digest(genesis));
    let Some(found) = stored_layout(db)? else {
        // A cursor without a layout is damage: making a new index here would lay it over old coins.
        if db.get(ColumnFamily::UtxoMeta, names::CURSOR)?.is_some() {
            return Err(StoreError::absent(ColumnFamily::UtxoMeta.name(), names::LAYOUT).into());
        }
        return create(db, network, options, genesis, digest, batch);
    };
    match digest {
        // A folder opened before its genesis was at hand may still get it, as long as it is empty.
        Some(_) if found.genesis.is_none() && at_origin(db)? => {
            return create(db, network, options, genesis, digest, batch);
        }
        Some(given) if found.genesis != Some(given) => return Err(OpenError::OtherGenesis),
        Some(_) | None => {}
    }
    if found.store != options.store {
        let layout = IndexLayout { store: options.store, ..found };
        batch.put(ColumnFamily::UtxoMeta, names::LAYOUT, &layout.encode())?;
        convert::convert(db, network, &state(db, true)?, batch)?;
    }
    Ok(())
}

fn at_origin(db: &Db) -> Result<bool, StoreError> {
    let cursor = read(db, ColumnFamily::UtxoMeta, names::CURSOR, IndexCursor::decode)?;
    Ok(cursor.is_none_or(|cursor| cursor.ordinal == 0))
}

fn create(
    db: &Db,
    network: Network,
    options: &Options,
    genesis: &[GenesisCoin],
    digest: Option<[u8; 32]>,
    batch: &mut Batch<'_>,
) -> Result<(), OpenError> {
    let layout = IndexLayout { indexes: options.indexes, genesis: digest, store: options.store };
    let mut cursor = IndexCursor::ORIGIN;
    let mut coins: Vec<(Outpoint, SharedCoin)> = genesis
        .iter()
        .map(|coin| (coin.outpoint, Coin::new(network.family(), &coin.record).into()))
        .collect();
    coins.sort_unstable_by_key(|(outpoint, _)| *outpoint);
    if options.store == StoreKind::Mmr {
        (0..).zip(&mut coins).for_each(|(leaf, (_, coin))| Coin::place(coin, leaf));
        first_trees(db, network, &coins, batch)?;
    }
    let indexes = options.indexes.rows(network.family());
    for (outpoint, coin) in &coins {
        cursor.coins += 1;
        cursor.value += u128::from(coin.value());
        let key = OutpointKey(*outpoint).encode();
        match coin.stored_placed() {
            Some(placed) => batch.put(ColumnFamily::Unspent, &key, &placed)?,
            None => batch.put(ColumnFamily::Unspent, &key, coin.stored())?,
        }
        for index in &indexes {
            let mut entries = Vec::new();
            let told = (index.keys)(outpoint, coin, &mut |entry| entries.push(entry.to_vec()));
            told.map_err(StoreError::value(ColumnFamily::Unspent.name(), &key))?;
            let family = index.facts.family;
            entries.iter().try_for_each(|entry| batch.put(family, entry, &[]))?;
        }
    }
    let redeem = genesis.iter().filter(|coin| coin.is_redeem).map(|coin| coin.outpoint);
    let mut redeem: Vec<_> = redeem.collect();
    redeem.sort_unstable();
    batch.put(ColumnFamily::UtxoMeta, names::REDEEM, &encode_outpoints(&redeem))?;
    batch.put(ColumnFamily::UtxoMeta, names::LAYOUT, &layout.encode())?;
    batch.put(ColumnFamily::UtxoMeta, names::CURSOR, &cursor.encode())?;
    batch.put(ColumnFamily::UtxoMeta, names::HORIZON, &PruneHorizon::default().encode())?;
    Ok(())
}

/// The trees over the coins of genesis.
fn first_trees(
    db: &Db,
    network: Network,
    coins: &[(Outpoint, SharedCoin)],
    batch: &mut Batch<'_>,
) -> Result<(), StoreError> {
    let base = TreeBase { db, frozen: None, network };
    let mut trees = TreeChanges::default();
    let mut commitment = TreeCommitment { leaves: 0, live: 0, root: [0; 32] };
    trees.append(base, &mut commitment, coins.iter().map(|(name, coin)| (name, coin, false)))?;
    trees.settle_root(base, &mut commitment, None)?;
    trees.write(batch, commitment.leaves)?;
    batch.put(ColumnFamily::UtxoMeta, names::COMMITMENT, &commitment.encode())
}

fn genesis_digest(genesis: &[GenesisCoin]) -> [u8; 32] {
    let mut coins: Vec<_> = genesis.iter().collect();
    coins.sort_unstable_by_key(|coin| coin.outpoint);
    let mut hash = Sha256::new();
    for coin in coins {
        // Every field here is of fixed length, so no two lists of coins give the same bytes.
        hash.update(OutpointKey(coin.outpoint).encode());
        hash.update(coin.record.output.value.to_be_bytes());
        hash.update([u8::from(coin.is_redeem)]);
    }
    hash.finalize().into()
}

/// The coins of genesis that Allegra withdraws if nobody claimed them, sorted.
pub(crate) fn redeem_coins(db: &impl Get) -> Result<Vec<Outpoint>, StoreError> {
    let stored = read(db, ColumnFamily::UtxoMeta, names::REDEEM, decode_outpoints)?;
    stored.ok_or_else(|| StoreError::absent(ColumnFamily::UtxoMeta.name(), names::REDEEM))
}

/// Where the store stands on disk.
pub(crate) fn state(db: &impl Get, enabled: bool) -> Result<StoreState, StoreError> {
    let holes = read(db, ColumnFamily::ChainMeta, names::HOLES, ImportHole::decode_all)?
        .unwrap_or_default();
    if !enabled {
        let tip = points::last(db)?;
        let cursor = IndexCursor {
            ordinal: tip.map_or(0, |(ordinal, _)| ordinal),
            tip: tip.map(|(_, StoredPoint { point, era, .. })| (point, era)),
            ..IndexCursor::ORIGIN
        };
        let tip = tip.map(|(_, point)| point);
        let (horizon, commitment) = (PruneHorizon::default(), None);
        return Ok(StoreState { cursor, tip, horizon, holes, commitment });
    }
    let absent = |name: &[u8]| StoreError::absent(ColumnFamily::UtxoMeta.name(), name);
    let cursor = read(db, ColumnFamily::UtxoMeta, names::CURSOR, IndexCursor::decode)?;
    let cursor = cursor.ok_or_else(|| absent(names::CURSOR))?;
    let horizon = horizon(db)?;
    let tip = points::at(db, cursor.ordinal)?;
    let commitment = read(db, ColumnFamily::UtxoMeta, names::COMMITMENT, TreeCommitment::decode)?;
    let has_roots = stored_layout(db)?.is_some_and(|layout| layout.store == StoreKind::Mmr);
    if has_roots != commitment.is_some() {
        return Err(absent(names::COMMITMENT));
    }
    Ok(StoreState { cursor, tip, horizon, holes, commitment })
}

/// What has been forgotten, as it stands on disk.
pub(crate) fn horizon(db: &impl Get) -> Result<PruneHorizon, StoreError> {
    let stored = read(db, ColumnFamily::UtxoMeta, names::HORIZON, PruneHorizon::decode)?;
    stored.ok_or_else(|| StoreError::absent(ColumnFamily::UtxoMeta.name(), names::HORIZON))
}

/// Moves the cursor of an index whose points are gone, or belong to another branch: the delta below
/// knows where that is. Where that delta isn't kept any more it can't be told which block the index
/// would stand at: then the answer is no, and nothing has changed.
///
/// A delta knows no era. The block's own point does; without it the era of the block above stands
/// in, which is never the last word: the index goes on down until it meets a point that is kept.
pub(crate) fn step_back_detached(db: &Db, state: &mut StoreState) -> Result<bool, StoreError> {
    let Some((_, era_above)) = state.cursor.tip else { return Ok(false) };
    let Some(before) = state.cursor.ordinal.checked_sub(1) else { return Ok(false) };
    let key = before.to_be_bytes();
    let known = points::at(db, before)?;
    let tip = match read(db, ColumnFamily::Delta, &key, decode_delta)? {
        Some(StoredDelta { point, .. }) => {
            let own = known.filter(|known| known.point == point);
            Some((point, own.map_or(era_above, |known| known.era)))
        }
        None if before == 0 => None,
        None => return Ok(false),
    };
    state.cursor.ordinal = before;
    state.cursor.tip = tip;
    state.tip = known;
    state.horizon.spends_floor = state.horizon.spends_floor.min(before);
    Ok(true)
}

fn read<T>(
    db: &impl Get,
    family: ColumnFamily,
    key: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, CodecError>,
) -> Result<Option<T>, StoreError> {
    let stored = db.get(family, key)?;
    let decoded = stored.map(|bytes| decode(&bytes)).transpose();
    decoded.map_err(StoreError::value(family.name(), key))
}
