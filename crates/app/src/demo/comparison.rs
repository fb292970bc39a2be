//! What the rooms hold against what the simulator's own books say.

use std::{
    fmt,
    time::{Duration, Instant},
};

use bitcoin::hashes::Hash as _;
use serde::Serialize;
use unspent_chain::{CoinState, Reader};
use unspent_engine::{Engine, RoomState};
use unspent_model::{Outpoint, TxId};
use unspent_server::CliError;
use unspent_sim::Coins;
use unspent_source::sim::SimNetwork;

/// How long the rooms may take to reach the network's tip.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What was compared, and what differed.
#[derive(Serialize)]
pub(super) struct Comparison {
    coins: u64,
    coins_wrong: u64,
    index_differences: u64,
    wallets: u64,
    wallet_differences: u64,
}

impl Comparison {
    pub(super) fn is_right(&self) -> bool {
        self.coins_wrong + self.index_differences + self.wallet_differences == 0
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Checked: {} coins against the simulator's own books, {} wrong; all records of the \
             index\nagainst each other, {} differences; the books of {} wallets, {} differences.",
            self.coins,
            self.coins_wrong,
            self.index_differences,
            self.wallets,
            self.wallet_differences,
        )
    }
}

/// Waits for the rooms, then compares.
pub(super) fn compare(engine: &Engine, network: &SimNetwork) -> anyhow::Result<Comparison> {
    settle(engine, network)?;
    let reader = unspent_chain_room::reader(engine)
        .ok_or_else(|| CliError::bug("the chain room is closed"))?;
    let room = unspent_wallet_room::wallets(engine)
        .ok_or_else(|| CliError::bug("the wallet room is closed"))?;
    let books = network.look(|sim| sim.coins().clone());
    let mut checked = Comparison {
        coins: books.len() as u64,
        coins_wrong: wrong(&reader, &books)?,
        index_differences: reader.verify(&mut |_| ())?.differences,
        wallets: 0,
        wallet_differences: 0,
    };
    for wallet in room.wallets(None)? {
        checked.wallets += 1;
        checked.wallet_differences += room.audit(wallet.id)?.len() as u64;
    }
    Ok(checked)
}

fn settle(engine: &Engine, network: &SimNetwork) -> anyhow::Result<()> {
    let tip = network.look(|sim| sim.tip()).to_string();
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let rooms = engine.status().rooms;
        let is_there = |room: &unspent_engine::RoomStatus| {
            // A room that is switched off has no tip.
            room.state == RoomState::Off
                || room.state == RoomState::Following
                    && room.tip.as_ref().is_some_and(|t| t.block_hash == tip)
        };
        if rooms.iter().all(is_there) {
            return Ok(());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Err(CliError::refused("the rooms did not reach the network's tip").into())
}

/// Coins that differ: missing, too many, or with another owner or amount.
fn wrong(reader: &Reader, books: &Coins) -> anyhow::Result<u64> {
    // Coins that only the room has are in no book: they show in the count alone.
    let mut wrong = reader.digest()?.coins.abs_diff(books.len() as u64);
    for (outpoint, coin) in books {
        let name = Outpoint::new(TxId(outpoint.txid.to_byte_array()), outpoint.vout);
        let is_same = match reader.coin(&name)? {
            CoinState::Unspent(record) => {
                record.output.addr == coin.output.script_pubkey.as_bytes()
                    && record.output.value == coin.output.value.to_sat()
            }
            CoinState::Spent(_) | CoinState::Unknown => false,
        };
        wrong += u64::from(!is_same);
    }
    Ok(wrong)
}
