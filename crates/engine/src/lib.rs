//! What runs and when: block sources, following, events, jobs, recovery.
//!
//! | module | keeps |
//! |---|---|
//! | [`files`] | files of blocks: finding, cataloguing, reading |
//! | [`source`] | the port behind which nodes, files and the simulated network stand |
//!
//! Deliberately absent: an HTTP server, a terminal, rules about coins.

pub mod files;
pub mod source;
