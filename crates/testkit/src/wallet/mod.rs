//! What the tests of the SQL rooms share.
//!
//! | module | for |
//! |---|---|
//! | [`postgres`] | a real PostgreSQL server, started for the test run and gone after it |
//! | [`model`] | a plain reference model of one wallet |

pub mod model;
pub mod postgres;
