//! `unspent db copy`: a room's rows into another database.

use clap::Args;
use serde::Serialize;
use unspent_server::{
    CliError, Outcome, Output, RoomFace, Rooms, config::secret, output::table, progress::Show,
    room::RoomTables,
};
use unspent_sql::{
    Url,
    copy::{CopyProgress, copy},
};

const EXAMPLE: &str = "Move to PostgreSQL:
  systemctl stop unspent
  unspent db copy --room wallet sqlite:/var/lib/unspent/wallet.db \\
      postgres://unspent@localhost/unspent
  (set the URL in the configuration)
  systemctl start unspent

The source is copied as it stands at one moment and is not changed. The target must be empty. Every
row is compared before the copy is committed, and the room's audit then runs on it (exit code 3 if
it finds differences). If anything fails, the target is left empty.";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct CopyArgs {
    /// Source: sqlite:PATH or postgres://…, or @FILE for a file that holds the URL
    from: String,
    /// Target, written the same way
    to: String,
    /// The room whose rows to copy, such as wallet or txstore
    #[arg(long, value_name = "ROOM")]
    room: Option<String>,
}

#[derive(Serialize)]
struct CopiedTableJson {
    name: String,
    rows: u64,
    sha256: String,
}

#[derive(Serialize)]
struct CopyJson {
    done: &'static str,
    room: &'static str,
    tables: Vec<CopiedTableJson>,
    /// What the room's audit found in the copy
    differences: Vec<String>,
}

pub(super) fn run(
    rooms: Rooms,
    args: &CopyArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let (room, tables) = chosen(rooms, args.room.as_deref())?;
    let (from, to) = (url(&args.from)?, url(&args.to)?);
    let bar = Show::suitable(output.is_json()).counter(0, "rows");
    let mut tell = |progress: CopyProgress<'_>| {
        let verb = if progress.is_comparing { "compared" } else { "copied" };
        bar.set_message(format!("rows of {} {verb}", progress.table));
        bar.set_position(progress.rows);
    };
    let copied = copy(&from, &to, tables.schema, &mut tell);
    bar.finish_and_clear();
    let copied = copied.map_err(|error| CliError::refused(error.to_string()))?;
    let differences = (tables.audit)(&to)?;
    let is_clean = differences.is_empty();
    let tables = copied.into_iter();
    let tables =
        tables.map(|t| CopiedTableJson { name: t.name, rows: t.rows, sha256: t.sha256 }).collect();
    let answer = CopyJson { done: "copied", room: room.name(), tables, differences };
    output.answer(&answer, || text(&answer))?;
    Ok(if is_clean { Outcome::Done } else { Outcome::Differences })
}

fn text(answer: &CopyJson) -> String {
    let rows = answer.tables.iter().map(|t| [t.name.clone(), t.rows.to_string()]);
    let rows = table(["table", "rows"], rows);
    let found = match answer.differences.as_slice() {
        [] => "every row was compared, and the audit found no differences".to_owned(),
        differences => format!("the audit found:\n{}", differences.join("\n")),
    };
    format!("{rows}\n{found}")
}

/// The room meant, or the only one that has a database.
fn chosen(rooms: Rooms, name: Option<&str>) -> anyhow::Result<(&'static dyn RoomFace, RoomTables)> {
    let all = rooms.iter().filter_map(|room| Some((room, room.tables()?)));
    let mut all: Vec<_> = all.filter(|(room, _)| name.is_none_or(|n| n == room.name())).collect();
    match (all.pop(), all.is_empty(), name) {
        (Some(found), true, _) => Ok(found),
        (None, _, Some(name)) => {
            Err(CliError::usage(format!("no room with a database is called {name}")).into())
        }
        _ => {
            let named = rooms.iter().filter(|room| room.tables().is_some());
            let names: Vec<&str> = named.map(|room| room.name()).collect();
            let error = CliError::usage("name the room with --room");
            Err(error.hint(format!("rooms with a database: {}", names.join(", "))).into())
        }
    }
}

/// A password belongs into a file: arguments are there for everybody to see.
pub(super) fn url(text: &str) -> anyhow::Result<Url> {
    let text = match text.strip_prefix('@') {
        Some(file) => secret(file.as_ref())?,
        None => text.to_owned(),
    };
    text.parse().map_err(|error| CliError::usage(format!("{error}")).into())
}
