//! Rows of proofs: candidates, reservation, spending, release, counters.

use unspent_model::{
    Micros,
    ecash::{ProofEvent, ProofOffer, ProofState},
};
use unspent_sql::{Arg, BulkStatement, Column, Row, SqlError, Tx};

use crate::{
    details::OutputRange,
    error::EcashError,
    event::{ProofName, RangeAsk, SealedProof},
    store::sql_int,
};

/// Counters stay below this: version 1 of keyset ids derives by hardened indices.
const COUNTER_LIMIT: u32 = 1 << 31;
/// Outputs in one range.
const MAX_OUTPUTS: usize = 1_000;
/// Proofs of one amount that are looked at.
const PER_AMOUNT: i64 = 16;
/// Proofs looked at when those are too few.
const MAX_INPUTS: i64 = 1_000;
/// Amounts of a keyset are powers of two below this bit.
const AMOUNT_BITS: u32 = 48;

/// Each amount is one short range of the index, so that the cost doesn't grow with the purse. The
/// fee is a subquery and not a join: a planner may begin a join with the keysets.
const BY_AMOUNT: BulkStatement = BulkStatement {
    sqlite: "SELECT found.y AS y, found.amount AS amount, (SELECT k.fee_ppk FROM account_keysets k
            WHERE k.account_id = $1 AND k.keyset_id = found.keyset_id) AS fee_ppk
        FROM (SELECT y, amount, keyset_id FROM proofs
            WHERE account_id = $1 AND state = $2 AND amount = $4 ORDER BY y LIMIT $3) found",
    postgres:
        "SELECT found.y AS y, found.amount AS amount, (SELECT k.fee_ppk FROM account_keysets k
            WHERE k.account_id = $1 AND k.keyset_id = found.keyset_id) AS fee_ppk
        FROM UNNEST($4::bigint[]) a (amount)
        CROSS JOIN LATERAL (SELECT y, amount, keyset_id FROM proofs
            WHERE account_id = $1 AND state = $2 AND amount = a.amount ORDER BY y LIMIT $3) found",
};
const LARGEST: &str =
    "SELECT found.y AS y, found.amount AS amount, (SELECT k.fee_ppk FROM account_keysets k
            WHERE k.account_id = $1 AND k.keyset_id = found.keyset_id) AS fee_ppk
    FROM (SELECT y, amount, keyset_id FROM proofs
        WHERE account_id = $1 AND state = $2 ORDER BY amount DESC, y DESC LIMIT $3) found";
/// `state || ''` has no index, so that the names are looked up and nothing else.
const NAMED: BulkStatement = BulkStatement {
    sqlite: "SELECT p.y AS y, p.amount AS amount, (SELECT k.fee_ppk FROM account_keysets k
            WHERE k.account_id = $1 AND k.keyset_id = p.keyset_id) AS fee_ppk FROM proofs p
        WHERE p.account_id = $1 AND p.y = $3 AND p.state = $2",
    postgres: "SELECT p.y AS y, p.amount AS amount, (SELECT k.fee_ppk FROM account_keysets k
            WHERE k.account_id = $1 AND k.keyset_id = p.keyset_id) AS fee_ppk
        FROM UNNEST($3::bytea[]) n (y)
        JOIN proofs p ON p.account_id = $1 AND p.y = n.y AND p.state || '' = $2",
};
const RESERVE: BulkStatement = BulkStatement {
    sqlite: "UPDATE proofs SET state = $3, held_by = $4, reserved_at = $5, version = version + 1
        WHERE account_id = $1 AND state = $2 AND y = $6",
    postgres: "UPDATE proofs p SET state = $3, held_by = $4, reserved_at = $5,
            version = version + 1
        FROM UNNEST($6::bytea[]) n (y)
        WHERE p.account_id = $1 AND p.state || '' = $2 AND p.y = n.y",
};
const SPEND: &str = "UPDATE proofs SET state = $3, spent_at = $4, version = version + 1
    WHERE held_by = $1 AND state = $2";
// `held_by` stays after the end: if the mint proves a payment that was given up, these are the
// proofs that it spent.
const RELEASE: &str = "UPDATE proofs SET state = $3, version = version + 1
    WHERE held_by = $1 AND state = $2";
const WERE_HELD: &str = "SELECT y FROM proofs WHERE held_by = $1 LIMIT 1";
const HELD_NAMES: &str = "SELECT y FROM proofs WHERE held_by = $1 AND state = $2";
const HELD_SUM: &str = "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS total FROM proofs
    WHERE held_by = $1 AND state = $2";
const PROVE: BulkStatement = BulkStatement {
    sqlite: "UPDATE proofs SET state = $2, spent_at = $3, version = version + 1
        WHERE account_id = $1 AND state <> $2 AND y = $4",
    postgres: "UPDATE proofs p SET state = $2, spent_at = $3, version = version + 1
        FROM UNNEST($4::bytea[]) n (y) WHERE p.account_id = $1 AND p.state <> $2 AND p.y = n.y",
};
const LOSE: BulkStatement = BulkStatement {
    sqlite: "UPDATE proofs SET state = $2, spent_at = $3, version = version + 1
        WHERE account_id = $1 AND state = $4 AND y = $5",
    postgres: "UPDATE proofs p SET state = $2, spent_at = $3, version = version + 1
        FROM UNNEST($5::bytea[]) n (y) WHERE p.account_id = $1 AND p.state = $4 AND p.y = n.y",
};
const INSERT: BulkStatement = BulkStatement {
    sqlite: "INSERT INTO proofs (account_id, added_by, added_at, y, keyset_id, amount, state,
            version, sealed, held_by, reserved_at, spent_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, $10, $11)",
    postgres: "INSERT INTO proofs (account_id, added_by, added_at, y, keyset_id, amount, state,
            version, sealed, held_by, reserved_at, spent_at)
        SELECT $1, $2, $3, n.y, n.keyset, n.amount, n.state, 0, n.sealed, n.held, n.reserved,
            n.spent
        FROM UNNEST($4::bytea[], $5::text[], $6::bigint[], $7::text[], $8::bytea[], $9::text[],
            $10::bigint[], $11::bigint[]) n (y, keyset, amount, state, sealed, held, reserved,
            spent)",
};
const TAKE: &str = "UPDATE counters SET counter = counter + $3
    WHERE keyset_id = $1 AND counter + $3 <= $4 AND EXISTS (SELECT k.keyset_id
        FROM account_keysets k WHERE k.account_id = $2 AND k.keyset_id = $1)
    RETURNING counter";

/// A proof that may be chosen, by name.
pub(crate) struct ProofCandidate {
    pub(crate) y: ProofName,
    pub(crate) offer: ProofOffer,
}

fn candidate(row: &Row) -> Result<ProofCandidate, EcashError> {
    let (amount, fee_ppk) = (row.natural("amount")?, row.natural("fee_ppk")?);
    Ok(ProofCandidate { y: name_of(row)?, offer: ProofOffer { amount, fee_ppk } })
}

pub(crate) fn name_of(row: &Row) -> Result<ProofName, EcashError> {
    let bytes = row.blob("y")?;
    bytes.try_into().map_err(|_| EcashError::Corrupt("a proof's name has a wrong length".into()))
}

fn candidates(rows: &[Row]) -> Result<Vec<ProofCandidate>, EcashError> {
    let mut found: Vec<ProofCandidate> = rows.iter().map(candidate).collect::<Result<_, _>>()?;
    // Rows of a set come in no promised order; a choice should.
    found.sort_by_key(|found| (found.offer.amount, found.y));
    Ok(found)
}

/// Some free proofs of each amount.
pub(crate) fn of_each_amount(
    tx: &mut Tx<'_>,
    account: &str,
) -> Result<Vec<ProofCandidate>, EcashError> {
    let free = Arg::Text(ProofState::Unspent.name());
    let scalars = [Arg::Text(account), free, Arg::Int(PER_AMOUNT)];
    let amounts = Column::ints((0..AMOUNT_BITS).map(|bit| 1_i64 << bit));
    candidates(&tx.query_set(BY_AMOUNT, &scalars, &[amounts])?)
}

pub(crate) fn largest(tx: &mut Tx<'_>, account: &str) -> Result<Vec<ProofCandidate>, EcashError> {
    let free = Arg::Text(ProofState::Unspent.name());
    candidates(&tx.query(LARGEST, &[Arg::Text(account), free, Arg::Int(MAX_INPUTS)])?)
}

/// Those of the named proofs that are free.
pub(crate) fn named(
    tx: &mut Tx<'_>,
    account: &str,
    names: &[ProofName],
) -> Result<Vec<ProofCandidate>, EcashError> {
    let scalars = [Arg::Text(account), Arg::Text(ProofState::Unspent.name())];
    candidates(&tx.query_set(NAMED, &scalars, &[Column::blobs(names)])?)
}

/// Reserves all of them or fails.
pub(crate) fn reserve(
    tx: &mut Tx<'_>,
    account: &str,
    entity: &str,
    names: &[ProofName],
    now: Micros,
) -> Result<(), EcashError> {
    let to = ProofState::Unspent.after(ProofEvent::Reserve)?;
    let scalars = [
        Arg::Text(account),
        Arg::Text(ProofState::Unspent.name()),
        Arg::Text(to.name()),
        Arg::Text(entity),
        Arg::Int(now.get()),
    ];
    // Of several who want one proof all but one write fewer rows than they have names. The error
    // takes back what this one did reserve.
    let done = tx.execute_set(RESERVE, &scalars, &[Column::blobs(names)])?;
    // No more rows than names are written.
    let taken = names.len().saturating_sub(usize::try_from(done).unwrap_or(0));
    if taken > 0 { Err(EcashError::ProofsTaken { taken }) } else { Ok(()) }
}

/// What an entity holds is spent.
pub(crate) fn spend_held(tx: &mut Tx<'_>, entity: &str, now: Micros) -> Result<u64, EcashError> {
    let (from, on) = (ProofState::Reserved, ProofEvent::Spend);
    let to = from.after(on)?;
    let args =
        [Arg::Text(entity), Arg::Text(from.name()), Arg::Text(to.name()), Arg::Int(now.get())];
    Ok(tx.execute(SPEND, &args)?)
}

/// What an entity holds is free again.
pub(crate) fn release_held(tx: &mut Tx<'_>, entity: &str) -> Result<u64, EcashError> {
    let from = ProofState::Reserved;
    let to = from.after(ProofEvent::Release)?;
    let args = [Arg::Text(entity), Arg::Text(from.name()), Arg::Text(to.name())];
    Ok(tx.execute(RELEASE, &args)?)
}

/// Whether an entity was the last to hold some proof, however that stands now.
pub(crate) fn were_held(tx: &mut Tx<'_>, entity: &str) -> Result<bool, SqlError> {
    Ok(tx.maybe(WERE_HELD, &[Arg::Text(entity)])?.is_some())
}

/// Names of the proofs that an entity holds now.
pub(crate) fn held_names(tx: &mut Tx<'_>, entity: &str) -> Result<Vec<ProofName>, EcashError> {
    let args = [Arg::Text(entity), Arg::Text(ProofState::Reserved.name())];
    tx.query(HELD_NAMES, &args)?.iter().map(name_of).collect()
}

/// What those are worth.
pub(crate) fn held_sum(tx: &mut Tx<'_>, entity: &str) -> Result<u64, SqlError> {
    let args = [Arg::Text(entity), Arg::Text(ProofState::Reserved.name())];
    tx.one(HELD_SUM, &args)?.natural("total")
}

/// The mint calls these spent.
pub(crate) fn prove_spent(
    tx: &mut Tx<'_>,
    account: &str,
    names: &[ProofName],
    now: Micros,
) -> Result<u64, SqlError> {
    let scalars = [Arg::Text(account), Arg::Text(ProofState::Spent.name()), Arg::Int(now.get())];
    tx.execute_set(PROVE, &scalars, &[Column::blobs(names)])
}

/// The mint calls these spent, and no payment holds them.
pub(crate) fn lose_spent(
    tx: &mut Tx<'_>,
    account: &str,
    names: &[ProofName],
    now: Micros,
) -> Result<u64, SqlError> {
    let [spent, free] = [ProofState::Spent, ProofState::Unspent].map(ProofState::name);
    let scalars = [Arg::Text(account), Arg::Text(spent), Arg::Int(now.get()), Arg::Text(free)];
    tx.execute_set(LOSE, &scalars, &[Column::blobs(names)])
}

pub(crate) struct InsertTarget<'s> {
    pub(crate) account: &'s str,
    pub(crate) entity: &'s str,
    /// Held by the entity from the start.
    pub(crate) is_reserved: bool,
    pub(crate) now: Micros,
}

/// Stores new proofs. The same proof twice is refused by the primary key.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    target: &InsertTarget<'_>,
    proofs: &[SealedProof],
) -> Result<(), EcashError> {
    let state = |proof: &SealedProof| match (proof.is_spent, target.is_reserved) {
        (true, _) => ProofState::Spent,
        (false, true) => ProofState::Reserved,
        (false, false) => ProofState::Unspent,
    };
    let held = target.is_reserved.then_some(target.entity.to_owned());
    let amounts = proofs.iter().map(|proof| sql_int(proof.amount));
    let count = proofs.len();
    let spent = proofs.iter().map(|proof| proof.is_spent.then_some(target.now.get()));
    let columns = [
        Column::blobs(proofs.iter().map(|proof| proof.y)),
        Column::texts(proofs.iter().map(|proof| proof.keyset_id.as_str())),
        Column::ints(amounts.collect::<Result<Vec<_>, _>>()?),
        Column::texts(proofs.iter().map(|proof| state(proof).name())),
        Column::blobs(proofs.iter().map(|proof| &proof.sealed)),
        Column::Texts(vec![held; count]),
        Column::Ints(vec![target.is_reserved.then_some(target.now.get()); count]),
        Column::Ints(spent.collect()),
    ];
    let scalars = [Arg::Text(target.account), Arg::Text(target.entity), Arg::Int(target.now.get())];
    tx.execute_set(INSERT, &scalars, &columns)?;
    Ok(())
}

/// Takes a range of a keyset's counter: adds and answers in one statement, so that no two ever get
/// the same outputs.
pub(crate) fn take_range(
    tx: &mut Tx<'_>,
    account: &str,
    ask: &RangeAsk,
) -> Result<OutputRange, EcashError> {
    if ask.amounts.is_empty() || ask.amounts.len() > MAX_OUTPUTS {
        return Err(EcashError::argument("a range has 1 to 1,000 outputs"));
    }
    let count = u32::try_from(ask.amounts.len()).unwrap_or(u32::MAX);
    let args = [
        Arg::Text(&ask.keyset_id),
        Arg::Text(account),
        Arg::Int(i64::from(count)),
        Arg::Int(i64::from(COUNTER_LIMIT)),
    ];
    // One whose counter has come to its limit counts as missing: it has nothing left to give.
    let missing = || EcashError::NotFound { what: "keyset", name: ask.keyset_id.clone() };
    let next = tx.maybe(TAKE, &args)?.ok_or_else(missing)?.index("counter")?;
    Ok(OutputRange {
        keyset_id: ask.keyset_id.clone(),
        start: next - count,
        amounts: ask.amounts.clone(),
    })
}
