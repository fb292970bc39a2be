//! Flows: which question comes next, and what its answer means.
//!
//! A flow does no I/O. It is started from what is stored and says what it wants ([`Next`]); whoever
//! runs it asks and hands the [`Answer`] back. A flow is forgotten at a crash: the next one starts
//! from what is stored, with a question that changes nothing or with the same request as before.

pub mod answer;
pub mod request;

pub use answer::{Answer, FaultClass, MeltView, MintFault, SparkAnswer, SparkIds};
pub use request::{Request, SparkRequest};
