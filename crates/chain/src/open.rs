//! Opening a folder: what it is for, and where it stands.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use unspent_model::{
    Network, Outpoint,
    chain::{Era, GenesisCoin},
};

use crate::{
    codec::{
        Choices, CodecError, Cursor, Hole, Horizon, Identity, Layout, SCHEMA_VERSION, StoredDelta,
        StoredPoint, decode_delta, decode_outpoints, encode_outpoints,
    },
    coin::Coin,
    db::{Batch, Db, Durability, Get},
    error::{OpenError, StoreError},
    options::{Indexes, Options},
    pending::State,
    points,
    schema::{Family, OutpointKey, names},
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
    db: &Db,
    folder: &Path,
    network: Network,
    options: &Options,
    genesis: &[GenesisCoin],
) -> Result<State, OpenError> {
    let mut batch = db.batch();
    identify(db, folder, network, &mut batch)?;
    if options.enabled {
        layout(db, network, options.indexes, genesis, &mut batch)?;
        batch.put(Family::UtxoMeta, names::CHOICES, &choices(options).encode())?;
    }
    batch.commit(Durability::Synced)?;
    Ok(state(db, options.enabled)?)
}

/// The network the folder serves; `None` when it is new.
pub(crate) fn identity(db: &impl Get) -> Result<Option<Identity>, StoreError> {
    read(db, Family::ChainMeta, names::IDENTITY, Identity::decode)
}

fn identify(
    db: &Db,
    folder: &Path,
    wanted: Network,
    batch: &mut Batch<'_>,
) -> Result<(), OpenError> {
    match identity(db)? {
        Some(found) => check_identity(folder, &found, wanted),
        None if points::last(db)?.is_some() => {
            Err(StoreError::absent(Family::ChainMeta.name(), names::IDENTITY).into())
        }
        None => {
            let identity = Identity { schema: SCHEMA_VERSION, network: wanted };
            Ok(batch.put(Family::ChainMeta, names::IDENTITY, &identity.encode())?)
        }
    }
}

pub(crate) fn check_identity(
    folder: &Path,
    found: &Identity,
    wanted: Network,
) -> Result<(), OpenError> {
    if found.schema != SCHEMA_VERSION {
        let folder = folder.display().to_string();
        return Err(OpenError::OtherSchema { folder, found: found.schema, wanted: SCHEMA_VERSION });
    }
    if found.network != wanted {
        return Err(OpenError::OtherNetwork { found: found.network, wanted });
    }
    Ok(())
}

fn choices(options: &Options) -> Choices {
    Choices {
        prune_depth: options.prune_depth,
        rollback_window: options.rollback_window,
        self_contained: options.self_contained,
    }
}

/// What the operator chose last; `None` when there is no index yet.
pub(crate) fn stored_choices(db: &impl Get) -> Result<Option<Choices>, StoreError> {
    read(db, Family::UtxoMeta, names::CHOICES, Choices::decode)
}

/// How the index was built; `None` when there is none yet.
pub(crate) fn stored_layout(db: &impl Get) -> Result<Option<Layout>, StoreError> {
    read(db, Family::UtxoMeta, names::LAYOUT, Layout::decode)
}

fn layout(
    db: &Db,
    network: Network,
    wanted: Indexes,
    genesis: &[GenesisCoin],
    batch: &mut Batch<'_>,
) -> Result<(), OpenError> {
    let digest = (!genesis.is_empty()).then(|| genesis_digest(genesis));
    let Some(found) = stored_layout(db)? else {
        if db.get(Family::UtxoMeta, names::CURSOR)?.is_some() {
            return Err(StoreError::absent(Family::UtxoMeta.name(), names::LAYOUT).into());
        }
        return create(network, wanted, genesis, digest, batch);
    };
    if wanted != found.indexes() {
        let Layout { address_hash, payment_credential, .. } = found;
        return Err(OpenError::OtherIndexes { address_hash, payment_credential });
    }
    match digest {
        None => Ok(()),
        Some(given) if found.genesis == Some(given) => Ok(()),
        // A folder opened before its genesis was at hand may still get it, as long as it is empty.
        Some(_) if found.genesis.is_none() && at_origin(db)? => {
            create(network, wanted, genesis, digest, batch)
        }
        Some(_) => Err(OpenError::OtherGenesis),
    }
}

fn at_origin(db: &Db) -> Result<bool, StoreError> {
    let cursor = read(db, Family::UtxoMeta, names::CURSOR, Cursor::decode)?;
    Ok(cursor.is_none_or(|cursor| cursor.ordinal == 0))
}

fn create(
    network: Network,
    indexes: Indexes,
    genesis: &[GenesisCoin],
    digest: Option<[u8; 32]>,
    batch: &mut Batch<'_>,
) -> Result<(), OpenError> {
    let Indexes { address_hash, payment_credential } = indexes;
    let layout = Layout { address_hash, payment_credential, genesis: digest };
    let mut cursor = Cursor::ORIGIN;
    for GenesisCoin { outpoint, record, .. } in genesis {
        let coin = Coin::new(network.family(), record);
        cursor.coins += 1;
        cursor.value += u128::from(coin.value());
        batch.put(Family::Unspent, &OutpointKey(*outpoint).encode(), coin.stored())?;
        if address_hash {
            batch.put(Family::Address, &coin.address_key(outpoint).encode(), &[])?;
        }
        if let Some(key) = coin.credential_key(outpoint).filter(|_| payment_credential) {
            batch.put(Family::Address, &key.encode(), &[])?;
        }
    }
    let redeem = genesis.iter().filter(|coin| coin.is_redeem).map(|coin| coin.outpoint);
    let mut redeem: Vec<_> = redeem.collect();
    redeem.sort_unstable();
    batch.put(Family::UtxoMeta, names::REDEEM, &encode_outpoints(&redeem))?;
    batch.put(Family::UtxoMeta, names::LAYOUT, &layout.encode())?;
    batch.put(Family::UtxoMeta, names::CURSOR, &cursor.encode())?;
    batch.put(Family::UtxoMeta, names::HORIZON, &Horizon::default().encode())?;
    Ok(())
}

fn genesis_digest(genesis: &[GenesisCoin]) -> [u8; 32] {
    let mut coins: Vec<_> = genesis.iter().collect();
    coins.sort_unstable_by_key(|coin| coin.outpoint);
    let mut hash = Sha256::new();
    for coin in coins {
        hash.update(OutpointKey(coin.outpoint).encode());
        hash.update(coin.record.output.value.to_be_bytes());
        hash.update([u8::from(coin.is_redeem)]);
    }
    hash.finalize().into()
}

/// The coins of genesis that Allegra withdraws if nobody claimed them, sorted.
pub(crate) fn redeem_coins(db: &impl Get) -> Result<Vec<Outpoint>, StoreError> {
    let stored = read(db, Family::UtxoMeta, names::REDEEM, decode_outpoints)?;
    stored.ok_or_else(|| StoreError::absent(Family::UtxoMeta.name(), names::REDEEM))
}

/// Where the store stands on disk.
pub(crate) fn state(db: &impl Get, enabled: bool) -> Result<State, StoreError> {
    let holes = read(db, Family::ChainMeta, names::HOLES, Hole::decode_all)?.unwrap_or_default();
    if !enabled {
        let tip = points::last(db)?;
        let cursor = Cursor {
            ordinal: tip.map_or(0, |(ordinal, _)| ordinal),
            tip: tip.map(|(_, StoredPoint { point, era, .. })| (point, era)),
            ..Cursor::ORIGIN
        };
        let tip = tip.map(|(_, point)| point);
        return Ok(State { cursor, tip, horizon: Horizon::default(), holes });
    }
    let absent = |name: &[u8]| StoreError::absent(Family::UtxoMeta.name(), name);
    let cursor = read(db, Family::UtxoMeta, names::CURSOR, Cursor::decode)?;
    let cursor = cursor.ok_or_else(|| absent(names::CURSOR))?;
    let horizon = read(db, Family::UtxoMeta, names::HORIZON, Horizon::decode)?;
    let horizon = horizon.ok_or_else(|| absent(names::HORIZON))?;
    let tip = points::at(db, cursor.ordinal)?;
    Ok(State { cursor, tip, horizon, holes })
}

/// Moves the cursor of an index whose points are gone: the delta below knows where that is.
pub(crate) fn step_back_detached(db: &Db, state: &mut State) -> Result<(), StoreError> {
    let before = state.cursor.ordinal.saturating_sub(1);
    let key = before.to_be_bytes();
    let delta: Option<StoredDelta> = read(db, Family::Delta, &key, decode_delta)?;
    let known = points::at(db, before)?;
    state.cursor.ordinal = before;
    state.cursor.tip = match (delta, known) {
        (Some(delta), known) => Some((delta.point, known.map_or(Era::Bitcoin, |k| k.era))),
        (None, Some(known)) => Some((known.point, known.era)),
        (None, None) => None,
    };
    state.tip = known;
    state.horizon.swept_spends = state.horizon.swept_spends.min(before);
    state.horizon.spends_floor = state.horizon.spends_floor.min(before);
    Ok(())
}

fn read<T>(
    db: &impl Get,
    family: Family,
    key: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, CodecError>,
) -> Result<Option<T>, StoreError> {
    let stored = db.get(family, key)?;
    let decoded = stored.map(|bytes| decode(&bytes)).transpose();
    decoded.map_err(StoreError::value(family.name(), key))
}
