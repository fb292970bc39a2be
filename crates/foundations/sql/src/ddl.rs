//! What the texts of migrations say about their tables: columns and constraints, keys.

use std::collections::BTreeMap;

/// The tables that a text makes, each with its columns and constraints.
pub(crate) fn tables(text: &str) -> Vec<(String, Vec<String>)> {
    let plain: Vec<&str> =
        text.lines().map(|line| line.split("--").next().unwrap_or_default().trim()).collect();
    let plain = plain.join(" ");
    let made = plain.split("CREATE TABLE ").skip(1);
    let made = made.filter_map(|rest| {
        let (name, rest) = rest.split_once('(')?;
        Some((name.trim().to_owned(), parts(rest)))
    });
    made.collect()
}

/// What stands between the commas of the outermost brackets, up to their end.
fn parts(text: &str) -> Vec<String> {
    let (mut found, mut part, mut level) = (Vec::new(), String::new(), 0_u32);
    for letter in text.chars() {
        match (letter, level) {
            (')', 0) => break,
            (',', 0) => found.push(std::mem::take(&mut part)),
            _ => {
                level = match letter {
                    '(' => level + 1,
                    ')' => level.saturating_sub(1),
                    _ => level,
                };
                part.push(letter);
            }
        }
    }
    found.push(part);
    found.iter().map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The names of the indexes that keys of tables have: primary keys and UNIQUE constraints.
///
/// Each goes by the name that the declaration gives it or, where it gives none, by the one that
/// PostgreSQL would. SQLite passes that name over and calls the index `sqlite_autoindex_TABLE_1`,
/// which no statement has to know.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct IndexNames(BTreeMap<String, String>);

impl IndexNames {
    pub(crate) fn of(texts: impl IntoIterator<Item = String>) -> Self {
        let tables = texts.into_iter().flat_map(|text| tables(&text));
        Self(tables.flat_map(|(table, parts)| key_names(&table, &parts)).collect())
    }

    /// What SQLite calls an index. One that a `CREATE INDEX` made has its own name there too.
    pub fn on_sqlite<'n>(&'n self, index: &'n str) -> &'n str {
        self.0.get(index).map_or(index, String::as_str)
    }
}

/// SQLite numbers the keys of a table in the order in which they stand.
fn key_names(table: &str, parts: &[String]) -> Vec<(String, String)> {
    let names = parts.iter().filter_map(|part| key_name(table, part)).enumerate();
    names.map(|(at, name)| (name, format!("sqlite_autoindex_{table}_{}", at + 1))).collect()
}

fn key_name(table: &str, part: &str) -> Option<String> {
    // A CHECK may hold any word.
    let plain = outside_brackets(part);
    let is_primary = plain.contains("PRIMARY KEY");
    // `INTEGER PRIMARY KEY` is the row's own number on SQLite and has no index.
    if (!is_primary && !plain.contains("UNIQUE")) || plain.contains(" INTEGER PRIMARY KEY") {
        return None;
    }
    if let Some(named) = plain.strip_prefix("CONSTRAINT ") {
        return named.split_whitespace().next().map(str::to_owned);
    }
    if is_primary {
        return Some(format!("{table}_pkey"));
    }
    let columns = match part.strip_prefix("UNIQUE (") {
        Some(columns) => columns.trim_end_matches(')').replace(", ", "_"),
        None => plain.split_whitespace().next()?.to_owned(),
    };
    Some(format!("{table}_{columns}_key"))
}

fn outside_brackets(part: &str) -> String {
    let mut level = 0_u32;
    let is_outside = |letter: &char| {
        level = match letter {
            '(' => level + 1,
            ')' => level.saturating_sub(1),
            _ => level,
        };
        level == 0
    };
    part.chars().filter(is_outside).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const DDL: &str = "
        CREATE TABLE shelves (
            id BIGINT NOT NULL PRIMARY KEY, -- UNIQUE, in a comment
            name TEXT NOT NULL CHECK (name <> 'PRIMARY KEY') UNIQUE,
            place BIGINT NOT NULL CHECK (place <> 7),
            CONSTRAINT uidx_shelves_place UNIQUE (place, name)
        );
        CREATE TABLE cups (
            shelf BIGINT NOT NULL REFERENCES shelves (id),
            id BIGINT NOT NULL,
            mark BLOB,
            CONSTRAINT pidx_cups PRIMARY KEY (shelf, id),
            CONSTRAINT check_mark CHECK (mark IS NOT NULL),
            UNIQUE (mark, shelf)
        ) WITHOUT ROWID;
        CREATE TABLE counted (id INTEGER PRIMARY KEY, n BIGINT UNIQUE);";
    const KEYS: [(&str, &str, &[&str]); 6] = [
        ("shelves_pkey", "sqlite_autoindex_shelves_1", &["id"]),
        ("shelves_name_key", "sqlite_autoindex_shelves_2", &["name"]),
        ("uidx_shelves_place", "sqlite_autoindex_shelves_3", &["place", "name"]),
        ("pidx_cups", "sqlite_autoindex_cups_1", &["shelf", "id"]),
        ("cups_mark_shelf_key", "sqlite_autoindex_cups_2", &["mark", "shelf"]),
        ("counted_n_key", "sqlite_autoindex_counted_1", &["n"]),
    ];

    /// The names are asked of a SQLite that has run the text.
    #[test]
    fn keys_are_found_under_the_names_that_sqlite_gives_them() {
        let names = IndexNames::of([DDL.to_owned()]);
        assert_eq!(names.0.len(), KEYS.len(), "{names:?}");
        let memory = rusqlite::Connection::open_in_memory().unwrap();
        memory.execute_batch(DDL).unwrap();
        for (name, private, columns) in KEYS {
            assert_eq!(names.on_sqlite(name), private);
            let sql = "SELECT name FROM pragma_index_info(?1) ORDER BY seqno";
            let mut statement = memory.prepare(sql).unwrap();
            let found = statement.query_map([private], |row| row.get(0)).unwrap();
            let found: Vec<String> = found.map(Result::unwrap).collect();
            assert_eq!(found, columns, "{name}");
        }
        assert_eq!(names.on_sqlite("idx_cups_by_colour"), "idx_cups_by_colour");
    }
}
