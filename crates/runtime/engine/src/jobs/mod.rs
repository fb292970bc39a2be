//! What is done from time to time, each with a budget.
//!
//! Rooms bring their jobs when they are opened. Jobs that speak to the node run on a thread of
//! their own, so that a slow node keeps no upkeep waiting.

mod job;
mod runner;

pub use self::job::{Job, Lane, MEASURE, Outcome, Run};
pub(crate) use self::runner::{Ask, Runner};
pub use crate::names::JobName;
