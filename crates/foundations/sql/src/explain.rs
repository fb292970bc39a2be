//! How the database is going to run a statement.
//!
//! A plan that walks a table shows only once the table is long, and only with the statement that
//! really runs. So a test can ask to be told the plan of every statement that passes the door, with
//! the arguments it passes with, at the moment it passes.

/// Is given a statement as the room wrote it, and its plan, line by line.
pub type PlanHook = fn(sql: &'static str, plan: &str);
