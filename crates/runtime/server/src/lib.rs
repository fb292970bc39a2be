//! What every room is served by: the settings, the REST interface, who may call, and the forms in
//! which answers and errors reach people and programs.
//!
//! | module | what |
//! |---|---|
//! | [`room`] | the port of a room towards its users, and the rooms that a program has |
//! | [`command`] | the commands that a room registers |
//! | [`config`] | the settings of the daemon and of every command |
//! | [`api`] | the REST interface |
//! | [`auth`] | who may do what |
//! | [`request`], [`input`], [`argument`] | what every request is checked for, and how it is written |
//! | [`json`] | the words that all rooms use in JSON |
//! | [`asset`] | the dashboard's files, a table of each room |
//! | [`text`], [`output`], [`qr`] | numbers, tables and codes as people read them |
//! | [`error`] | errors as people and programs read them, and exit codes |
//! | [`listener`] | where it listens: addresses, TLS, what a connection may take |
//! | [`progress`], [`interrupt`] | how far a long command is, and how it is stopped |
//! | [`folder_lock`], [`private`], [`reached`] | the data folder: who writes, who reads, who has it |
//! | [`random`] | bytes that nobody can guess |
//!
//! Invariant: nothing here names a room. Results go to the writer passed in (standard output),
//! everything else to standard error.

pub mod api;
pub mod argument;
pub mod asset;
pub mod auth;
pub mod command;
pub mod config;
pub mod error;
pub mod folder_lock;
pub mod input;
pub mod interrupt;
pub mod json;
pub mod listener;
pub mod output;
pub mod private;
pub mod progress;
pub mod qr;
pub mod random;
pub mod reached;
pub mod request;
pub mod room;
pub mod text;

pub use config::Config;
pub use error::{CliError, Outcome};
pub use output::Output;
pub use room::{RoomFace, Rooms};
