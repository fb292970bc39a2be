//! Cashu and Spark payments that survive a crash at any point.

pub mod flow;
