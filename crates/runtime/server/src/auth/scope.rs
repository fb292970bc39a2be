//! Three scopes, each containing the one before.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a sender may do.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum, ToSchema,
)]
/// What a sender may do; each includes the one before.
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Look at everything
    Read,
    /// Also make wallets, hold coins and pay
    Wallet,
    /// Also run jobs and start rooms again
    Admin,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Wallet => "wallet",
            Self::Admin => "admin",
        })
    }
}
