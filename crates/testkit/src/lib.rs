//! What tests share. Never a dependency of shipped code.
//!
//! | module | for |
//! |---|---|
//! | [`data`] | real chains and vectors that lie outside the repository |

pub mod data;
