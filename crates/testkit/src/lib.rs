//! What tests share. Never a dependency of shipped code.
//!
//! | module | for |
//! |---|---|
//! | [`data`] | real chains and vectors that lie outside the repository |
//! | [`wallet`] | PostgreSQL for tests, and what the SQL rooms share |

pub mod data;
pub mod wallet;
