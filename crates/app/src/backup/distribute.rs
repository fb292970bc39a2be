//! `unspent db distribute`: the rooms' tables over the nodes of a Citus cluster.

use clap::Args;
use serde::Serialize;
use unspent_server::{CliError, Outcome, Output, Rooms, room::RoomTables};
use unspent_sql::{
    Url,
    distribute::{distribute, statements},
};

use super::copy::url;

const EXAMPLE: &str = "On a coordinator whose workers are known (citus_add_node):
  unspent db distribute                     (prints the statements)
  unspent db distribute --room txstore --run @/etc/unspent/txstore-url

Create the tables first, by opening the room there once (serve, txstore import, wallet create) or
with db copy, and stop the daemon. Each room is distributed in one transaction: if a statement
fails, that room is left as it was. A room can't be distributed twice.";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct DistributeArgs {
    /// Run the statements on this database: postgres://…, or @FILE for a file that holds the URL
    #[arg(long, value_name = "URL")]
    run: Option<String>,
    /// The room whose tables are distributed; by default all rooms with a database
    #[arg(long, value_name = "ROOM")]
    room: Option<String>,
}

#[derive(Serialize)]
struct DistributeJson {
    room: &'static str,
    /// How a session enters the room's own schema
    enter: &'static str,
    statements: Vec<String>,
    done: bool,
}

pub(super) fn run(
    rooms: Rooms,
    args: &DistributeArgs,
    output: &mut Output<'_>,
) -> anyhow::Result<Outcome> {
    let target = args.run.as_deref().map(url).transpose()?;
    let rooms = rooms.iter().filter_map(|room| Some((room.name(), room.tables()?)));
    let wanted = args.room.as_deref();
    let rooms: Vec<_> = rooms.filter(|(name, _)| wanted.is_none_or(|w| w == *name)).collect();
    if rooms.is_empty() {
        let name = wanted.unwrap_or_default();
        return Err(CliError::usage(format!("no room with a database is called {name}")).into());
    }
    let mut shown = Vec::new();
    for (room, tables) in rooms {
        shown.push(one(room, &tables, target.as_ref())?);
    }
    output
        .answer(&shown, || shown.iter().map(DistributeJson::text).collect::<Vec<_>>().join("\n"))?;
    Ok(Outcome::Done)
}

fn one(
    room: &'static str,
    tables: &RoomTables,
    target: Option<&Url>,
) -> anyhow::Result<DistributeJson> {
    if let Some(target) = target {
        let done = distribute(target, tables.schema);
        done.map_err(|error| CliError::refused(format!("the {room} room: {error}")))?;
    }
    Ok(DistributeJson {
        room,
        enter: tables.schema.postgres_enter,
        statements: statements(tables.schema),
        done: target.is_some(),
    })
}

impl DistributeJson {
    /// A script for psql.
    fn text(&self) -> String {
        let Self { room, enter, statements, done } = self;
        if *done {
            return format!("-- {room}: {} statements run", statements.len());
        }
        format!("-- {room}\n{enter};\nBEGIN;\n{};\nCOMMIT;", statements.join(";\n"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use unspent_sql::{Options, TablePlacement, Url, distribute::forgotten};

    use super::*;
    use crate::ROOMS;

    #[test]
    fn every_table_of_every_room_has_its_place() {
        for room in ROOMS.iter() {
            let Some(tables) = room.tables() else { continue };
            assert_eq!(forgotten(tables.schema), Vec::<String>::new());
        }
    }

    #[test]
    fn foreign_keys_go_before_their_tables_move_and_come_back_after() {
        let wallet = ROOMS.iter().find(|room| room.name() == "wallet").unwrap().tables().unwrap();
        let found = statements(wallet.schema);
        let at = |text: &str| found.iter().position(|one| one.contains(text)).expect(text);
        let gone = at("ALTER TABLE keychains DROP CONSTRAINT fkey_keychains_account");
        let moved =
            at("create_distributed_table('keychains', 'wallet_id', colocate_with => 'accounts')");
        let back = at("ALTER TABLE keychains ADD CONSTRAINT fkey_keychains_account FOREIGN KEY \
             (wallet_id, account_id) REFERENCES accounts (wallet_id, id) ON DELETE RESTRICT");
        assert!(gone < moved && moved < back);
        at("ALTER TABLE accounts ADD CONSTRAINT accounts_wallet_id_fkey FOREIGN KEY (wallet_id) \
            REFERENCES wallets (id) ON DELETE RESTRICT");
        assert!(at("create_reference_table('wallets')") < moved);
    }

    /// On a plain server, with functions that only bear Citus' names: every statement runs, and the
    /// foreign keys are the same afterwards. Without the functions everything stays.
    #[test]
    fn the_statements_run_and_leave_the_same_foreign_keys() {
        let Some(database) = unspent_testkit::wallet::postgres::database() else { return };
        let url: Url = database.parse().unwrap();
        for room in ROOMS.iter() {
            let Some(tables) = room.tables() else { continue };
            let door = unspent_sql::Door::open(&url, tables.schema, Options::default()).unwrap();
            let keys = || -> Vec<String> {
                let found: Result<_, unspent_sql::SqlError> = door.read(|tx| {
                    let rows = tx.query(KEYS, &[])?;
                    rows.iter().map(|row| row.text("key")).collect()
                });
                found.unwrap()
            };
            let before = keys();
            assert_eq!(before.is_empty(), room.name() != "wallet", "{before:?}");
            // A room that stays in one place has nothing that a plain server could refuse.
            if tables.schema.distribution.iter().any(|(_, place)| *place != TablePlacement::Local) {
                let refused = distribute(&url, tables.schema).unwrap_err();
                assert!(refused.to_string().contains("everything was undone"), "{refused}");
                assert_eq!(keys(), before);
            }
            let made: Result<(), unspent_sql::SqlError> = door.write(|tx| {
                tx.execute(REFERENCE, &[])?;
                tx.execute(DISTRIBUTED, &[])?;
                Ok(())
            });
            made.unwrap();
            distribute(&url, tables.schema).unwrap();
            assert_eq!(keys(), before, "{}", room.name());
        }
    }

    const KEYS: &str = "WITH keys AS (SELECT conrelid::regclass || ' ' || conname || ' ' ||
        pg_get_constraintdef(oid) AS key FROM pg_constraint
        WHERE contype = 'f' AND connamespace = current_schema()::regnamespace)
        SELECT key FROM keys ORDER BY key";
    const REFERENCE: &str = "CREATE FUNCTION create_reference_table(name regclass) RETURNS void
        LANGUAGE sql AS 'SELECT NULL::void'";
    const DISTRIBUTED: &str = "CREATE FUNCTION create_distributed_table(name regclass, key text,
        colocate_with text) RETURNS void LANGUAGE sql AS 'SELECT NULL::void'";
}
