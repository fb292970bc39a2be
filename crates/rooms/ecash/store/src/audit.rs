//! Whether everything in a database agrees. It needs no key: nothing sealed is opened.
//!
//! | looked at | must hold |
//! |---|---|
//! | reserved proofs | their holder is there and not at its end |
//! | all proofs | the payment or scan that brought them is there |
//! | entities | transaction, last line of the journal and openness fit the state |
//! | change that is owed | somebody looks after it until it came or was given up |
//! | outputs | below the counter of their keyset, and no counter used twice |
//! | the journal | no gaps |

use std::collections::BTreeMap;

use unspent_model::ecash::{EntityEvent, EntityKind, EntityState, transaction_at_end};
use unspent_sql::{Arg, Door, Options, Row, Tx, Url};

use crate::{details::OutputRange, error::EcashError, schema::SCHEMA, store::sql_int};

/// Entities looked at together.
const PAGE: i64 = 1_000;

const WITHOUT_HOLDER: &str =
    "SELECT p.y AS y FROM proofs p LEFT JOIN entities e ON e.id = p.held_by
    WHERE p.state = 'RESERVED' AND (e.id IS NULL OR NOT e.is_open) ORDER BY p.y";
const WITHOUT_ORIGIN: &str =
    "SELECT p.y AS y FROM proofs p LEFT JOIN entities e ON e.id = p.added_by
    LEFT JOIN scans s ON s.id = p.added_by WHERE e.id IS NULL AND s.id IS NULL ORDER BY p.y";
const ENTITIES: &str = "SELECT e.id AS id, e.kind AS kind, e.state AS state, e.version AS version,
        e.is_open AS is_open, e.outputs AS outputs, t.state AS tx_state, j.to_state AS told_state,
        j.version AS told_version,
        (SELECT COUNT(*) FROM journal WHERE entity_id = e.id AND event = $3) AS owing,
        (SELECT COUNT(*) FROM journal WHERE entity_id = e.id AND event = $4) AS closed
    FROM entities e LEFT JOIN transactions t ON t.id = e.transaction_id
    LEFT JOIN journal j ON j.number = (SELECT MAX(number) FROM journal WHERE entity_id = e.id)
    WHERE e.id > $1 ORDER BY e.id LIMIT $2";
const COUNTERS: &str = "SELECT keyset_id, counter FROM counters ORDER BY keyset_id";
const JOURNAL: &str = "SELECT journal_number, (SELECT COUNT(*) FROM journal) AS lines,
    (SELECT COALESCE(MAX(number), 0) FROM journal) AS last FROM store WHERE one = 1";

/// What doesn't agree, in words; empty when everything does.
///
/// # Errors
///
/// [`EcashError`] when the database can't be read. Nothing is changed.
pub fn audit(url: &Url, options: Options) -> Result<Vec<String>, EcashError> {
    if let Url::Sqlite(path) = url
        && !path.exists()
    {
        return Err(EcashError::Argument(format!("{} is not there", path.display())));
    }
    let door = Door::open(url, &SCHEMA, options)?;
    door.read(|tx| {
        let mut found = Vec::new();
        proofs(tx, WITHOUT_HOLDER, "is reserved by nobody who is under way", &mut found)?;
        proofs(tx, WITHOUT_ORIGIN, "was brought by nobody", &mut found)?;
        let ranges = entities(tx, &mut found)?;
        outputs(tx, ranges, &mut found)?;
        journal(tx, &mut found)?;
        Ok(found)
    })
}

fn proofs(
    tx: &mut Tx<'_>,
    statement: &'static str,
    what: &str,
    found: &mut Vec<String>,
) -> Result<(), EcashError> {
    for row in tx.query(statement, &[])? {
        found.push(format!("proof {} {what}", hex::encode(row.blob("y")?)));
    }
    Ok(())
}

/// Ranges of outputs by keyset: first, behind the last, whose.
type Ranges = BTreeMap<String, Vec<(u64, u64, String)>>;

fn entities(tx: &mut Tx<'_>, found: &mut Vec<String>) -> Result<Ranges, EcashError> {
    let (mut ranges, mut after) = (Ranges::new(), String::new());
    loop {
        let [owing, closed] = [EntityEvent::CompleteOwing, EntityEvent::CloseChange];
        let (owing, closed) = (Arg::Text(owing.name()), Arg::Text(closed.name()));
        let rows = tx.query(ENTITIES, &[Arg::Text(&after), Arg::Int(PAGE), owing, closed])?;
        let Some(last) = rows.last() else { return Ok(ranges) };
        after = last.text("id")?;
        for row in &rows {
            entity(row, &mut ranges, found)?;
        }
    }
}

fn entity(row: &Row, ranges: &mut Ranges, found: &mut Vec<String>) -> Result<(), EcashError> {
    let id = row.text("id")?;
    let kind: EntityKind = row.text("kind")?.parse()?;
    let state: EntityState = row.text("state")?.parse()?;
    let mut differs = |what: String| found.push(format!("{kind} {id} is {state}, but {what}"));
    let is_over = kind.is_terminal(state);
    if !is_over && !row.flag("is_open")? {
        differs("nobody looks after it".into());
    }
    // What is owed is sealed; that it is, the journal tells.
    let is_owed = row.natural("owing")? > row.natural("closed")?;
    match (is_owed, row.flag("is_open")?) {
        (true, false) => differs("nobody looks after the change that is owed".into()),
        (false, true) if is_over && kind == EntityKind::CashuSendQuote => {
            differs("it is still looked after".into());
        }
        (true, true) | (false, _) => {}
    }
    let transaction = row.opt_text("tx_state")?;
    let wanted = transaction_at_end(state).filter(|_| is_over).map(|wanted| wanted.to_string());
    match (&transaction, &wanted) {
        (None, _) => differs("its transaction is missing".into()),
        (Some(there), Some(wanted)) if there != wanted => {
            differs(format!("its transaction is {there}"));
        }
        _ => {}
    }
    // Row and journal are written in one transaction. If they differ, somebody wrote past the
    // store.
    let told = row.opt_text("told_state")?.zip(row.opt_int("told_version")?);
    if told != Some((state.to_string(), sql_int(row.natural("version")?)?)) {
        differs("the journal's last word on it is another".into());
    }
    for range in ranges_of(&row.text("outputs")?)? {
        let (first, count) = (u64::from(range.start), range.amounts.len() as u64);
        let of_keyset = ranges.entry(range.keyset_id.clone()).or_default();
        of_keyset.push((first, first + count, id.clone()));
    }
    Ok(())
}

pub(crate) fn ranges_of(outputs: &str) -> Result<Vec<OutputRange>, EcashError> {
    serde_json::from_str(outputs)
        .map_err(|error| EcashError::Corrupt(format!("outputs of an entity: {error}")))
}

/// A counter used twice would make the same secret twice.
fn outputs(tx: &mut Tx<'_>, mut ranges: Ranges, found: &mut Vec<String>) -> Result<(), EcashError> {
    for row in tx.query(COUNTERS, &[])? {
        let (keyset, counter) = (row.text("keyset_id")?, row.natural("counter")?);
        let mut used = ranges.remove(&keyset).unwrap_or_default();
        used.sort();
        // In the order of their beginnings: if any two overlap, two neighbours do.
        for pair in used.windows(2) {
            if let [(_, end, one), (start, _, other)] = pair
                && start < end
            {
                found.push(format!("{one} and {other} use the same outputs of keyset {keyset}"));
            }
        }
        if let Some((_, end, id)) = used.iter().max_by_key(|(_, end, _)| end)
            && *end > counter
        {
            found.push(format!("{id} uses outputs of keyset {keyset} beyond its counter"));
        }
    }
    let strangers = ranges.into_keys();
    found.extend(strangers.map(|keyset| format!("keyset {keyset} is used, but not known")));
    Ok(())
}

fn journal(tx: &mut Tx<'_>, found: &mut Vec<String>) -> Result<(), EcashError> {
    let Some(row) = tx.maybe(JOURNAL, &[])? else { return Ok(()) };
    let numbers = (row.natural("journal_number")?, row.natural("lines")?, row.natural("last")?);
    if numbers.0 != numbers.1 || numbers.0 != numbers.2 {
        let (number, lines, last) = numbers;
        found.push(format!("the journal has {lines} lines up to {last}, and counts {number}"));
    }
    Ok(())
}
