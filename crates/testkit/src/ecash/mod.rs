//! Real mints for tests, and a bad line to them.
//!
//! | module | for |
//! |---|---|
//! | [`cdk`] | a mint of another make, for `make test-cdk-mintd` |
//! | [`nutshell`] | a Cashu mint on loopback whose Lightning side does as it is told |
//! | [`proxy`] | faults between a client and a mint: lost, late, doubled, cut, refused |
//! | [`spark`] | a scripted wallet in a process of its own, in the place of Spark |
//! | `http` | as much of HTTP/1.1 as the proxy needs |
//!
//! Where the mint can't be had a test says SKIPPED, unless `UNSPENT_REQUIRE_PEERS=1`.

pub mod cdk;
mod http;
pub mod nutshell;
pub mod proxy;
pub mod spark;

pub use cdk::{CdkMint, CdkSettings};
pub use nutshell::{Lightning, MintSettings, Nutshell};
pub use proxy::{Fault, FaultProxy};
pub use spark::ScriptedSpark;
