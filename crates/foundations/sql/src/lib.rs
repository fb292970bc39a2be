//! One small door to both databases.
//!
//! A room writes its statements once, as constants with `$n` placeholders, and opens a [`Door`] on
//! `sqlite:PATH` or `postgres://…`. Everything else that differs between the two stays in here:
//! placeholders, row locks, sets of rows, retries and migrations.
//!
//! | module | keeps |
//! |---|---|
//! | [`url`] | which database is meant |
//! | [`value`] | arguments, columns of arguments, rows |
//! | [`row_id`] | the number by which one table names a row of another |
//! | [`error`] | what can go wrong, and whether trying again may help |
//! | [`explain`] | how a statement is going to be run, for tests |
//! | [`schema`] | what a room declares of its tables, for both databases |
//! | `ddl` | what that declaration says about columns, constraints and keys |
//! | `migrate` | versioned, forward-only migrations |
//! | [`options`] | how a door behaves |
//! | [`door`] | the way in: write and read transactions |
//! | `request`, `worker` | closures on their way; the threads that run them, shared commits |
//! | [`before`] | a SQLite file as it was before it was migrated |
//! | [`copy`](mod@copy) | all rows of a room from one database into another |
//! | [`distribute`] | the tables of a room over the nodes of a Citus cluster |
//! | `tls` | what `sslmode` asks of PostgreSQL |
//! | `turn` | the queue of those who write one SQLite file |
//!
//! Invariant: a write closure commits as a whole or leaves nothing, and may be run more than once,
//! so it takes time and randomness as captured values. A connection lives and dies on the thread
//! that opened it, never on a caller's.
//!
//! Deliberately absent: an object mapper, statements built at run time (each is `&'static str`;
//! copying and distributing whole tables are the exceptions), triggers, and any rule about coins.
//!
//! ```
//! use unspent_sql::{Arg, Door, Migration, Options, Schema, SqlError};
//!
//! const SCHEMA: Schema = Schema {
//!     postgres_enter: "CREATE SCHEMA IF NOT EXISTS shop; SET search_path TO shop",
//!     migrations: &[Migration {
//!         version: 1,
//!         name: "cups",
//!         ddl: "CREATE TABLE cups (id BIGINT PRIMARY KEY, colour TEXT NOT NULL)",
//!     }],
//!     distribution: &[],
//! };
//! # let folder = std::env::temp_dir().join(format!("unspent-sql-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! # let url = format!("sqlite:{}", folder.join("shop.db").display());
//! let door = Door::open(&url.parse()?, &SCHEMA, Options::default())?;
//! door.write(|tx| -> Result<(), SqlError> {
//!     tx.execute("INSERT INTO cups VALUES ($1, $2)", &[Arg::Int(1), Arg::Text("blue")])?;
//!     Ok(())
//! })?;
//! let colour = door.read(|tx| -> Result<String, SqlError> {
//!     tx.one("SELECT colour FROM cups WHERE id = $1", &[Arg::Int(1)])?.text("colour")
//! })?;
//! assert_eq!(colour, "blue");
//! # drop(door);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod before;
mod connection;
pub mod copy;
mod ddl;
pub mod distribute;
pub mod door;
pub mod error;
pub mod explain;
mod migrate;
pub mod options;
mod postgres_side;
mod presence;
mod request;
pub mod row_id;
pub mod schema;
mod sqlite_side;
mod tls;
mod turn;
pub mod url;
pub mod value;
mod worker;

pub use before::keep_before_migration;
pub use connection::{BulkStatement, Tx};
pub use ddl::IndexNames;
pub use door::Door;
pub use error::{Failure, OpenError, SqlError};
pub use explain::PlanHook;
pub use options::Options;
pub use presence::is_there;
pub use row_id::RowId;
pub use schema::{Distribution, Migration, Schema, TablePlacement};
pub use sqlite_side::{SQLITE_BYTES, copy_sqlite};
pub use url::{Backend, Url, without_password};
pub use value::{Arg, Column, ColumnPlace, Row, Value};
