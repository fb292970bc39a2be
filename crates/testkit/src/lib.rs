//! What tests share. Never a dependency of shipped code.
//!
//! | module | for |
//! |---|---|
//! | [`chain`] | the reference model of the chain room, random histories |
//! | [`crash`] | workers that are killed at a bad moment, repeatable choices |
//! | [`data`] | real chains and vectors that lie outside the repository |
//! | [`ecash`] | a Cashu mint, and what can go wrong on the way to it |
//! | [`pages`] | the commands that a page of the documentation shows |
//! | [`peers`] | real nodes, fetched and started for a test |
//! | [`scripted_node`] | a node that says what a script tells it |
//! | [`wallet`] | PostgreSQL for tests, and what the SQL rooms share |

pub mod chain;
pub mod crash;
pub mod data;
pub mod ecash;
pub mod pages;
pub mod peers;
pub mod scripted_node;
pub mod wallet;
