//! What the tests of the SQL rooms share.
//!
//! | module | for |
//! |---|---|
//! | [`postgres`] | a real PostgreSQL server, started for the test run and gone after it |

pub mod postgres;
