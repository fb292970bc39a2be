//! A random but seeded course of events on the simulated network: payments to wallets, fee bumps,
//! double spends, reorganisations, leases and payments by wallets.
//!
//! Each step is chosen from the seed and from what has happened so far, so a scenario that is
//! started again goes on and doesn't repeat itself. Wallets here need no keys: the simulated chain
//! takes signatures of scripts that aren't its own on trust.

mod wallets;

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use bitcoin::{
    Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness,
    absolute::LockTime, transaction::Version,
};
use unspent_engine::{clock, engine::Engine};
use unspent_model::wallet::{CoinState, LockId};
use unspent_sim::ChainSim;
use unspent_source::{
    Answer,
    sim::{SimError, SimNetwork},
};
use unspent_wallet::{
    TxBatch, TxSource, WalletError, WalletId, WalletStore,
    coins::CoinInfo,
    lease::LeaseTerms,
    wallet_info::{KeychainPurpose, WalletInfo},
};

pub use self::wallets::{WALLETS, create_wallets};
use crate::{broadcast::BroadcastError, open_wallets::wallets, room::broadcast};

/// Blocks that a scenario starts with, so that there are coins to spend.
const FIRST_BLOCKS: u32 = 110;
/// Fee of a payment, and of what contradicts it.
const FEE: u64 = 400;
/// Addresses of a wallet that payments go to.
const ADDRESSES: u32 = 8;
/// Coins of a wallet that are looked at.
const COINS: u32 = 50;
/// How long a lease of the scenario lasts, in microseconds.
const LEASE: i64 = 20_000_000;
/// Below this a coin isn't worth spending.
const WORTHWHILE: u64 = 5_000;

/// Why a step of the scenario failed, or its beginning did. The network and the rooms are as they
/// were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The network failed.
    #[error(transparent)]
    Network(#[from] SimError),
    /// The wallet room failed.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// There is no wallet room to take part.
    #[error("the wallet room is off")]
    Off,
    /// The keys of a wallet could not be derived.
    #[error("the keys of a wallet can't be derived: {0}")]
    Keys(#[from] bitcoin::bip32::Error),
    /// A wallet's payment could not be sent.
    #[error(transparent)]
    Broadcast(#[from] BroadcastError),
}

/// What a step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScenarioAction {
    /// Somebody paid.
    Paid {
        /// The wallet that is paid, if it is one of ours.
        wallet: Option<String>,
        /// How much.
        sats: u64,
        /// The payment.
        txid: Txid,
    },
    /// Blocks were mined.
    Mined {
        /// Height of the last.
        height: u64,
    },
    /// A payment's fee was raised.
    Bumped {
        /// The payment that was replaced.
        from: Txid,
        /// The one that replaced it.
        to: Txid,
    },
    /// A block took a payment's coin for something else.
    DoubleSpent {
        /// The payment that lost.
        victim: Txid,
        /// The transaction that won.
        by: Txid,
    },
    /// Blocks were replaced by others.
    Reorganised {
        /// How many went.
        depth: u32,
        /// Height of the new tip.
        height: u64,
    },
    /// The node dropped a payment from its mempool.
    Evicted {
        /// The payment.
        txid: Txid,
    },
    /// A coin was leased.
    Leased {
        /// Whose.
        wallet: String,
        /// Which.
        coin: OutPoint,
    },
    /// A wallet paid.
    Sent {
        /// Which.
        wallet: String,
        /// The payment.
        txid: Txid,
        /// What the node said.
        answer: Answer,
    },
}

impl fmt::Display for ScenarioAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paid { wallet: Some(wallet), sats, txid } => {
                write!(f, "{wallet} is paid {sats} sats by {txid}")
            }
            Self::Paid { wallet: None, sats, txid } => write!(f, "{txid} pays {sats} sats"),
            Self::Mined { height } => write!(f, "block {height} is mined"),
            Self::Bumped { from, to } => write!(f, "the fee of {from} is raised by {to}"),
            Self::DoubleSpent { victim, by } => write!(f, "{victim} is double spent by {by}"),
            Self::Reorganised { depth, height } => {
                write!(f, "the last {depth} blocks are replaced; the tip is now {height}")
            }
            Self::Evicted { txid } => write!(f, "the node drops {txid} from its mempool"),
            Self::Leased { wallet, coin } => write!(f, "{wallet} leases {coin}"),
            Self::Sent { wallet, txid, answer: Answer::Accepted } => {
                write!(f, "{wallet} pays with {txid}")
            }
            Self::Sent { wallet, txid, answer: Answer::Rejected { reason } } => {
                write!(f, "{wallet} tries to pay with {txid}, but the node refuses: {reason}")
            }
        }
    }
}

/// A course of events.
pub struct Scenario {
    engine: Engine,
    network: SimNetwork,
    seed: u64,
    deepest: u32,
    /// Steps so far: not every one is a command to the network.
    turns: AtomicU64,
}

impl Scenario {
    /// A scenario on this network, in which the engine's wallets take part.
    pub fn new(engine: Engine, network: SimNetwork, seed: u64) -> Self {
        Self { engine, network, seed, deepest: 6, turns: AtomicU64::new(0) }
    }

    /// Sets the depth of the deepest reorganisation; 6 unless said otherwise.
    #[must_use]
    pub fn with_deepest(mut self, deepest: u32) -> Self {
        self.deepest = deepest.max(1);
        self
    }

    /// The next thing that happens.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`]; the next step may go well again.
    pub fn step(&self) -> Result<ScenarioAction, ScenarioError> {
        if self.network.height() < u64::from(FIRST_BLOCKS) {
            self.network.mine(FIRST_BLOCKS)?;
            return Ok(ScenarioAction::Mined { height: self.network.height() });
        }
        // Leases and refused steps are no commands: without it
        // the dice would fall the same way again.
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let mut dice = SeededDice::new(self.seed, self.network.commands().wrapping_add(turn));
        let chosen = match dice.below(100) {
            0..36 => None,
            36..62 => Some(self.mine()?),
            62..72 => self.bump(&mut dice)?,
            72..78 => self.double_spend(&mut dice)?,
            78..84 => Some(self.reorganise(&mut dice)?),
            84..87 => self.evict(&mut dice)?,
            87..93 => self.lease(&mut dice)?,
            _ => self.send(&mut dice)?,
        };
        match chosen {
            Some(action) => Ok(action),
            None => self.pay(&mut dice),
        }
    }

    fn mine(&self) -> Result<ScenarioAction, ScenarioError> {
        self.network.mine_mempool()?;
        Ok(ScenarioAction::Mined { height: self.network.height() })
    }

    fn pay(&self, dice: &mut SeededDice) -> Result<ScenarioAction, ScenarioError> {
        let sats = 10_000 + dice.below(500_000);
        let (wallet, script) = match self.somebody(dice)? {
            Some((wallet, script)) => (Some(wallet), script),
            None => (None, unspent_sim::address_script(dice.next())),
        };
        match self.network.pay(&script, sats, FEE) {
            Ok(txid) => Ok(ScenarioAction::Paid { wallet, sats, txid }),
            // All coins are waiting in the mempool or still immature.
            Err(SimError::Refused(_)) => self.mine(),
            Err(error) => Err(error.into()),
        }
    }

    /// A wallet and one of its addresses.
    fn somebody(
        &self,
        dice: &mut SeededDice,
    ) -> Result<Option<(String, ScriptBuf)>, ScenarioError> {
        let Some(room) = wallets(&self.engine) else { return Ok(None) };
        let Some(wallet) = any_wallet(&room, dice)? else { return Ok(None) };
        let addresses = room.addresses(wallet.id, 0, ADDRESSES)?;
        let script = dice.pick(&addresses).map(|address| address.script.clone());
        Ok(script.map(|script| (wallet.name, script)))
    }

    /// A transaction that waits in the mempool.
    fn waiting(&self, dice: &mut SeededDice) -> Option<Txid> {
        let txids = |sim: &ChainSim| sim.mempool().iter().map(|e| e.txid).collect::<Vec<_>>();
        dice.pick(&self.network.look(txids)).copied()
    }

    fn bump(&self, dice: &mut SeededDice) -> Result<Option<ScenarioAction>, ScenarioError> {
        let Some(from) = self.waiting(dice) else { return Ok(None) };
        let bumped = allowed(self.network.bump(from, FEE + dice.below(FEE)))?;
        Ok(bumped.map(|to| ScenarioAction::Bumped { from, to }))
    }

    fn double_spend(&self, dice: &mut SeededDice) -> Result<Option<ScenarioAction>, ScenarioError> {
        let Some(victim) = self.waiting(dice) else { return Ok(None) };
        let by = allowed(self.network.double_spend(victim, FEE))?;
        Ok(by.map(|by| ScenarioAction::DoubleSpent { victim, by }))
    }

    fn evict(&self, dice: &mut SeededDice) -> Result<Option<ScenarioAction>, ScenarioError> {
        let Some(txid) = self.waiting(dice) else { return Ok(None) };
        Ok(allowed(self.network.evict(txid))?.map(|()| ScenarioAction::Evicted { txid }))
    }

    fn reorganise(&self, dice: &mut SeededDice) -> Result<ScenarioAction, ScenarioError> {
        let most = u64::from(self.deepest).min(self.network.height());
        let depth = u32::try_from(1 + dice.below(most.max(1))).unwrap_or(1);
        self.network.fork(depth)?;
        Ok(ScenarioAction::Reorganised { depth, height: self.network.height() })
    }

    /// A wallet with one of its coins that may be spent now.
    fn coin(&self, dice: &mut SeededDice) -> Result<Option<(WalletInfo, CoinInfo)>, ScenarioError> {
        let Some(room) = wallets(&self.engine) else { return Ok(None) };
        let Some(wallet) = any_wallet(&room, dice)? else { return Ok(None) };
        let mut coins = room.coins(wallet.id, None, COINS, clock::now())?;
        coins.retain(|coin| coin.state == CoinState::Confirmed && coin.amount > WORTHWHILE);
        Ok(dice.pick(&coins).cloned().map(|coin| (wallet, coin)))
    }

    fn lease(&self, dice: &mut SeededDice) -> Result<Option<ScenarioAction>, ScenarioError> {
        let Some((wallet, coin)) = self.coin(dice)? else { return Ok(None) };
        let Some(room) = wallets(&self.engine) else { return Ok(None) };
        let Ok(lock) = LockId::new(&dice.bytes()) else { return Ok(None) };
        let terms = LeaseTerms { lock, duration: LEASE, hold_confirmations: None };
        let leased = room.lease(wallet.id, &[coin.outpoint], terms, clock::now());
        let action = ScenarioAction::Leased { wallet: wallet.name, coin: coin.outpoint };
        Ok(willing(leased.map(|_| action))?)
    }

    fn send(&self, dice: &mut SeededDice) -> Result<Option<ScenarioAction>, ScenarioError> {
        let Some((wallet, coin)) = self.coin(dice)? else { return Ok(None) };
        let Some(room) = wallets(&self.engine) else { return Ok(None) };
        let change = room.next_address(wallet.id, None, KeychainPurpose::Change)?.script;
        let tx = payment(&coin, unspent_sim::address_script(dice.next()), change);
        let txid = tx.compute_txid();
        let made = TxBatch::one(tx, TxSource::Created { lock: None, force: false });
        let Some(_) = willing(room.record_for(wallet.id, &made, clock::now()))? else {
            return Ok(None);
        };
        let answer = match broadcast(&self.engine, wallet.id, txid) {
            Ok(answer) => answer,
            // A block or a rival came between.
            Err(BroadcastError::NotLive(why)) => Answer::Rejected { reason: why.into() },
            Err(error) => return Err(error.into()),
        };
        Ok(Some(ScenarioAction::Sent { wallet: wallet.name, txid, answer }))
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// A refusal by the rules is no failure: something else happens instead.
fn allowed<T>(outcome: Result<T, SimError>) -> Result<Option<T>, SimError> {
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(SimError::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same for a wallet that moved on meanwhile.
fn willing<T>(outcome: Result<T, WalletError>) -> Result<Option<T>, WalletError> {
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == unspent_wallet::Kind::Refused => Ok(None),
        Err(error) => Err(error),
    }
}

fn any_wallet(
    room: &WalletStore,
    dice: &mut SeededDice,
) -> Result<Option<WalletInfo>, WalletError> {
    Ok(dice.pick(&room.wallets(None::<WalletId>)?).cloned())
}

/// Half of the coin to somebody, the rest back.
fn payment(coin: &CoinInfo, to: ScriptBuf, change: ScriptBuf) -> Transaction {
    let half = coin.amount / 2;
    let output = |sats, script_pubkey| TxOut { value: Amount::from_sat(sats), script_pubkey };
    Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: vec![TxIn {
            previous_output: coin.outpoint,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
            witness: Witness::from_slice(&[[7_u8; 71].as_slice(), &[2; 33]]),
        }],
        output: vec![output(half, to), output(coin.amount - half - FEE, change)],
    }
}

/// Repeatable choices (SplitMix64). Not for secrets.
struct SeededDice(u64);

impl SeededDice {
    fn new(seed: u64, turn: u64) -> Self {
        let mut dice = Self(seed ^ turn.wrapping_mul(0xd134_2543_de82_ef95));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = self.below(from.len() as u64);
        from.get(usize::try_from(at).ok()?)
    }

    fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.next().to_be_bytes());
        }
        bytes
    }
}
