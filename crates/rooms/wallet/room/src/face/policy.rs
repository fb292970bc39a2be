//! Which coins may be chosen, and how.

use axum::http::StatusCode;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use unspent_engine::Engine;
use unspent_model::wallet::select::{
    FeePerWeight, MAX_STANDARD_WEIGHT, SelectionMethod, SelectionStrategy,
};
use unspent_server::{
    api::error::ApiError,
    random,
    request::{BadRequest, bounded},
};
use unspent_source::FeeEstimate;
use unspent_wallet::{WalletError, choose::CoinPolicy};
use utoipa::ToSchema;

use super::{
    error::RequestError,
    input::{Coin, FeeRate},
    json::ShownRate,
};
use crate::fee_rate;

/// The furthest target that nodes estimate a rate for, in blocks: a week.
const MAX_TARGET: u16 = 1_008;

/// How coins are chosen.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StrategyName {
    /// Try all methods; the least waste wins
    Best,
    /// Branch and bound: no change
    Bnb,
    /// Single random draw
    Random,
    /// Largest coins first
    Largest,
    /// Oldest coins first
    Oldest,
}

impl StrategyName {
    fn strategy(self) -> SelectionStrategy {
        match self {
            Self::Best => SelectionStrategy::Best,
            Self::Bnb => SelectionStrategy::Only(SelectionMethod::BranchAndBound),
            Self::Random => SelectionStrategy::Only(SelectionMethod::RandomDraw),
            Self::Largest => SelectionStrategy::Only(SelectionMethod::LargestFirst),
            Self::Oldest => SelectionStrategy::Only(SelectionMethod::OldestFirst),
        }
    }
}

/// Which coins may be chosen, and how.
#[derive(Clone, Args, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Policy {
    /// Fee rate in sat/vB, with up to two decimals
    #[arg(long, visible_alias = "rate", default_value_t = Policy::default().fee_rate)]
    fee_rate: FeeRate,
    /// Use the node's estimate for a confirmation within this many blocks; only over REST, where
    /// the daemon follows a node
    #[arg(long, value_name = "BLOCKS", conflicts_with = "fee_rate")]
    #[schema(minimum = 1, maximum = 1008)]
    target_blocks: Option<u16>,
    /// How coins are chosen
    #[arg(long, value_enum, default_value_t = Policy::default().strategy)]
    #[schema(inline)]
    strategy: StrategyName,
    /// Confirmations needed for coins received from others
    #[arg(long, default_value_t = Policy::default().minconf)]
    #[schema(minimum = 1, default = 1)]
    minconf: u32,
    // On the command line the flag takes it away, in JSON it may be false.
    /// Don't spend the wallet's own unconfirmed change; in JSON, `false`
    #[arg(long = "no-own-change", action = clap::ArgAction::SetFalse)]
    own_change: bool,
    /// Also spend outputs of transactions that were never sent
    #[arg(long)]
    chain_pending: bool,
    /// Spend all coins of an address together
    #[arg(long)]
    by_address: bool,
    /// Only coins of this account, which also gets the change; by default the wallet's first
    /// account
    #[arg(long)]
    pub(super) account: Option<String>,
    /// Coins that must be chosen, as TXID:VOUT; may be repeated
    #[arg(long, value_name = "OUTPOINT")]
    #[schema(max_items = 1000)]
    require: Vec<Coin>,
    /// Choose only the required coins
    #[arg(long, requires = "require")]
    only_required: bool,
    /// Coins that must not be chosen, as TXID:VOUT; may be repeated
    #[arg(long, value_name = "OUTPOINT")]
    #[schema(max_items = 1000)]
    exclude: Vec<Coin>,
    /// The heaviest transaction allowed, in weight units
    #[arg(long, default_value_t = Policy::default().max_weight)]
    #[schema(minimum = 1, maximum = 400000)]
    max_weight: u64,
    /// The target of the node's estimate, once it was asked
    #[arg(skip)]
    #[serde(skip)]
    estimated_for: Option<u16>,
}

impl Default for Policy {
    fn default() -> Self {
        let base = CoinPolicy::default();
        Self {
            fee_rate: FeeRate::ONE,
            target_blocks: None,
            strategy: StrategyName::Best,
            minconf: base.minconf,
            own_change: base.own_change,
            chain_pending: base.pending_chaining,
            by_address: base.by_address,
            account: None,
            require: Vec::new(),
            only_required: base.only_required,
            exclude: Vec::new(),
            max_weight: base.max_weight,
            estimated_for: None,
        }
    }
}

impl Policy {
    pub(super) fn rate(&self) -> FeePerWeight {
        self.fee_rate.rate()
    }

    /// The rate as answers show it.
    pub(super) fn shown_rate(&self) -> ShownRate {
        ShownRate { fee_rate: self.fee_rate.to_string(), target_blocks: self.estimated_for }
    }

    /// Puts the node's estimate in the place of a target in blocks.
    pub(super) fn ask_node(&mut self, engine: &Engine) -> Result<(), ApiError> {
        let Some(blocks) = self.target_blocks.take() else { return Ok(()) };
        if !(1..=MAX_TARGET).contains(&blocks) {
            return Err(ApiError::invalid(format!("target_blocks must be 1 to {MAX_TARGET}")));
        }
        match fee_rate(engine, blocks) {
            Ok(FeeEstimate::Rate { sat_per_kvb, blocks }) => {
                self.fee_rate = FeeRate::of_sat_per_kvb(sat_per_kvb);
                // A node may answer for another target than the one it was asked for.
                self.estimated_for = u16::try_from(blocks).ok();
            }
            Ok(FeeEstimate::Unknown { reason }) => {
                let message = "no node can estimate the fee rate; give one";
                return Err(ApiError::refused(message).detail(reason));
            }
            Err(error) => {
                tracing::warn!(%error, "can't get a fee rate estimate");
                let message = "the node can't be asked for a fee rate; give one";
                let code = StatusCode::SERVICE_UNAVAILABLE;
                return Err(ApiError::new(code, "unavailable", message).after(5));
            }
        }
        Ok(())
    }

    /// What the room is asked for.
    pub(super) fn coins(&self) -> Result<CoinPolicy, RequestError> {
        if self.target_blocks.is_some() {
            let message = "only the daemon can ask its node for a rate: use REST, or --fee-rate";
            return Err(BadRequest::invalid(message).into());
        }
        bounded(self.require.len(), 0)?;
        bounded(self.exclude.len(), 0)?;
        if !(1..=MAX_STANDARD_WEIGHT).contains(&self.max_weight) {
            let message = format!("max_weight must be 1 to {MAX_STANDARD_WEIGHT}");
            return Err(BadRequest::Invalid(message).into());
        }
        // Where change stands and which coins a draw takes must
        // not be guessed by whoever reads the chain.
        let random = random::bytes().map_err(|_| WalletError::Bug("no source of randomness"))?;
        let names = |coins: &[Coin]| coins.iter().map(|coin| coin.0).collect();
        Ok(CoinPolicy {
            minconf: self.minconf,
            own_change: self.own_change,
            pending_chaining: self.chain_pending,
            account: self.account.clone(),
            exclude: names(&self.exclude),
            require: names(&self.require),
            only_required: self.only_required,
            by_address: self.by_address,
            max_weight: self.max_weight,
            strategy: self.strategy.strategy(),
            seed: random.first_chunk().copied().map_or(0, u64::from_le_bytes),
            ..CoinPolicy::default()
        })
    }
}
