//! All tables as one document, so that what people read can't differ from what runs.

use std::fmt::Write as _;

use super::{
    birth::{BIRTHS, CounterUse, transaction_at_end},
    departures::DEPARTURES,
    entity::{ENTITY_STATES, EntityEvent, EntityState},
    machine::{EntityEffect, EntityMachine, MACHINES, RefusalReason, RuleCondition, RuleOutcome},
    proof::PROOF_TABLE,
    transaction::TRANSACTION_TABLE,
};

const TOP: &str = "# The machines of the ecash room

This page is written from the tables in `crates/foundations/model/src/ecash` and held equal to them
by a test; `UNSPENT_WRITE_DOCS=1 cargo nextest run -p unspent-ecash machines_page` writes it anew.

*same* is a repetition: nothing changes and no version is raised. An empty cell is a refusal that
changes nothing. Where a cell has several lines, the first whose condition holds counts.
";

/// `docs/machines.md`.
pub fn machines_page() -> String {
    let mut page = String::from(TOP);
    MACHINES.iter().for_each(|machine| write_machine(&mut page, machine));
    write_transactions(&mut page);
    write_proofs(&mut page);
    write_births(&mut page);
    write_departures(&mut page);
    page
}

fn line(page: &mut String, text: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(page, "{text}");
}

fn write_machine(page: &mut String, machine: &EntityMachine) {
    line(page, &format!("\n## {:?}\n", machine.kind));
    let names: Vec<&str> = machine.states.iter().map(|state| state.name()).collect();
    line(page, &format!("| event | {} |", names.join(" | ")));
    line(page, &format!("|---|{}", "---|".repeat(names.len())));
    for event in machine.events {
        let cells: Vec<String> =
            machine.states.iter().map(|state| cell(machine, *state, *event)).collect();
        line(page, &format!("| {event} | {} |", cells.join(" | ")));
    }
    let ends: Vec<&str> = machine.terminal.iter().map(|state| state.name()).collect();
    line(page, &format!("\nEnds: {}.", ends.join(", ")));
}

fn cell(machine: &EntityMachine, state: EntityState, event: EntityEvent) -> String {
    let lines = machine.rules.iter().filter(|rule| (rule.from, rule.on) == (state, event));
    let lines: Vec<String> =
        lines.map(|rule| format!("{}{}", condition(rule.when), outcome(rule.then))).collect();
    lines.join("<br>")
}

fn condition(when: RuleCondition) -> String {
    match when {
        RuleCondition::Always => String::new(),
        RuleCondition::PastExpiry => "past its expiry: ".into(),
        RuleCondition::Is(variant) => format!("{variant}: "),
        RuleCondition::IsWithoutMelt(variant) => format!("{variant}, no melt marked: "),
        RuleCondition::WithoutMelt => "no melt marked: ".into(),
        RuleCondition::MeltMarked => "melt marked: ".into(),
        RuleCondition::Reverses => "takes a token back: ".into(),
        RuleCondition::BeingReversed => "being taken back: ".into(),
        RuleCondition::WithSparkIds => "with Spark's ids: ".into(),
        RuleCondition::FenceTaken => "fence range taken: ".into(),
        RuleCondition::Alarmed => "alarm raised: ".into(),
        RuleCondition::ChangeOpen => "change still to come: ".into(),
        RuleCondition::KnownAlready => "nothing new: ".into(),
        RuleCondition::Cancelled => "given up before: ".into(),
    }
}

fn outcome(then: RuleOutcome) -> String {
    match then {
        RuleOutcome::Same => "*same*".into(),
        RuleOutcome::Refuse(why) => format!("refused ({})", reason(why)),
        RuleOutcome::Go(next, []) => format!("**{next}**"),
        RuleOutcome::Go(next, effects) => {
            let effects: Vec<String> = effects.iter().map(|effect| doing(*effect)).collect();
            format!("**{next}**: {}", effects.join(", "))
        }
    }
}

fn reason(why: RefusalReason) -> &'static str {
    match why {
        RefusalReason::WrongState => "state",
        RefusalReason::WrongKind => "kind",
        RefusalReason::WrongVariant => "variant",
        RefusalReason::NotExpired => "not expired",
        RefusalReason::BeingReversed => "being taken back",
        RefusalReason::NoSparkIds => "no Spark ids",
    }
}

fn doing(effect: EntityEffect) -> String {
    match effect {
        EntityEffect::Transaction(event) => format!("transaction {event}"),
        EntityEffect::SpendReserved => "reserved proofs spent".into(),
        EntityEffect::ReleaseReserved => "reserved proofs released".into(),
        EntityEffect::StoreUnspent => "new proofs stored".into(),
        EntityEffect::StoreReserved => "proofs to send stored as reserved".into(),
        EntityEffect::SpendProven => "proven proofs spent".into(),
        EntityEffect::TakeRange => "counter range taken".into(),
        EntityEffect::TakeFenceRange => "counter range for the fence taken".into(),
        EntityEffect::MarkMelt => "melt marked".into(),
        EntityEffect::StoreSourceChange => "change stored at the source".into(),
        EntityEffect::AddSourceChange => "change stored at the source, more may come".into(),
        EntityEffect::OweChange => "change stays owed".into(),
        EntityEffect::SettleChange => "no more change is waited for".into(),
        EntityEffect::RaiseAlarm => "alarm".into(),
        EntityEffect::MarkCancelled => "marked as given up".into(),
        EntityEffect::Partner(event) => format!("send swap gets {event}"),
    }
}

fn write_transactions(page: &mut String) {
    line(page, "\n## Transaction\n\nNever moves alone. `reverse` is for sent tokens alone.\n");
    line(page, "| from | event | to |\n|---|---|---|");
    for (from, on, to) in TRANSACTION_TABLE {
        line(page, &format!("| {from} | {on} | {to} |"));
    }
    line(page, "\n| entity ends as | transaction |\n|---|---|");
    for (state, name) in ENTITY_STATES {
        if let Some(end) = transaction_at_end(state) {
            line(page, &format!("| {name} | {end} |"));
        }
    }
}

fn write_proofs(page: &mut String) {
    line(page, "\n## Proof\n\n| from | event | to |\n|---|---|---|");
    for (from, on, to) in PROOF_TABLE {
        line(page, &format!("| {from} | {on} | {to} |"));
    }
}

fn write_births(page: &mut String) {
    line(page, "\n## Beginnings\n");
    line(page, "| entity | variant | begins as | transaction | is a | counter range |");
    line(page, "|---|---|---|---|---|---|");
    for birth in BIRTHS {
        let counter = match birth.counter {
            CounterUse::Never => "never",
            CounterUse::AtCreationForChange => "at creation, if change is possible",
            CounterUse::AtCreation => "at creation",
            CounterUse::WhenPaid => "when paid",
        };
        line(
            page,
            &format!(
                "| {:?} | {} | {} | {} | {} {} | {counter} |",
                birth.kind,
                birth.variant,
                birth.state,
                birth.transaction,
                birth.transaction_kind,
                birth.direction
            ),
        );
    }
}

fn write_departures(page: &mut String) {
    line(page, "\n## Departures from the reference\n");
    line(page, "| # | in | the reference | here |\n|---|---|---|---|");
    for departure in DEPARTURES {
        let super::ReferenceDeparture { number, there, here, place } = departure;
        line(page, &format!("| {number} | {place} | {there} | {here} |"));
    }
}
