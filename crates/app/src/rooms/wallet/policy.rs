//! Which coins may be chosen, and how.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use unspent_model::wallet::select::{MAX_STANDARD_WEIGHT, Method, Rate, Strategy};
use unspent_wallet::{WalletError, choose::CoinPolicy};
use utoipa::ToSchema;

use super::{
    error::RequestError,
    input::{Coin, FeeRate},
};
use crate::{
    random,
    request::{BadRequest, bounded},
};

/// How coins are chosen.
#[derive(Clone, Copy, Deserialize, Serialize, ToSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StrategyName {
    /// All methods, the least waste wins
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
    fn strategy(self) -> Strategy {
        match self {
            Self::Best => Strategy::Best,
            Self::Bnb => Strategy::Only(Method::BranchAndBound),
            Self::Random => Strategy::Only(Method::RandomDraw),
            Self::Largest => Strategy::Only(Method::LargestFirst),
            Self::Oldest => Strategy::Only(Method::OldestFirst),
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
    /// How coins are chosen
    #[arg(long, value_enum, default_value_t = Policy::default().strategy)]
    #[schema(inline)]
    strategy: StrategyName,
    /// Confirmations that other people's coins need
    #[arg(long, default_value_t = Policy::default().minconf)]
    #[schema(minimum = 1, default = 1)]
    minconf: u32,
    // On the command line the flag takes it away, in JSON it may be false.
    /// Don't spend own unconfirmed change; in JSON: `false` for that
    #[arg(long = "no-own-change", action = clap::ArgAction::SetFalse)]
    own_change: bool,
    /// Also spend outputs of transactions that were never sent
    #[arg(long)]
    chain_pending: bool,
    /// Spend all coins of an address together
    #[arg(long)]
    by_address: bool,
    /// Only coins of this account
    #[arg(long)]
    pub(super) account: Option<String>,
    /// Coins that must be chosen, as TXID:VOUT; may be repeated
    #[arg(long, value_name = "OUTPOINT")]
    #[schema(max_items = 1000)]
    require: Vec<Coin>,
    /// Coins that must not be chosen, as TXID:VOUT; may be repeated
    #[arg(long, value_name = "OUTPOINT")]
    #[schema(max_items = 1000)]
    exclude: Vec<Coin>,
    /// The heaviest transaction allowed, in weight units
    #[arg(long, default_value_t = Policy::default().max_weight)]
    #[schema(minimum = 1, maximum = 400000)]
    max_weight: u64,
}

impl Default for Policy {
    fn default() -> Self {
        let base = CoinPolicy::default();
        Self {
            fee_rate: FeeRate::ONE,
            strategy: StrategyName::Best,
            minconf: base.minconf,
            own_change: base.own_change,
            chain_pending: base.pending_chaining,
            by_address: base.by_address,
            account: None,
            require: Vec::new(),
            exclude: Vec::new(),
            max_weight: base.max_weight,
        }
    }
}

impl Policy {
    pub(super) fn rate(&self) -> Rate {
        self.fee_rate.rate()
    }

    /// What the room is asked for.
    pub(super) fn coins(&self) -> Result<CoinPolicy, RequestError> {
        bounded(self.require.len(), 0)?;
        bounded(self.exclude.len(), 0)?;
        if !(1..=MAX_STANDARD_WEIGHT).contains(&self.max_weight) {
            let message = format!("max_weight must be 1 to {MAX_STANDARD_WEIGHT}");
            return Err(BadRequest::Invalid(message).into());
        }
        let random = random::bytes().map_err(|_| WalletError::Bug("no source of randomness"))?;
        let names = |coins: &[Coin]| coins.iter().map(|coin| coin.0).collect();
        Ok(CoinPolicy {
            minconf: self.minconf,
            own_change: self.own_change,
            pending_chaining: self.chain_pending,
            account: self.account.clone(),
            exclude: names(&self.exclude),
            require: names(&self.require),
            by_address: self.by_address,
            max_weight: self.max_weight,
            strategy: self.strategy.strategy(),
            seed: random.first_chunk().copied().map_or(0, u64::from_le_bytes),
            ..CoinPolicy::default()
        })
    }
}
