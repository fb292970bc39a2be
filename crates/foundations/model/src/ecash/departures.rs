//! Where our machines differ on purpose from the reference that the seed describes.
//!
//! The numbers are those of the findings about the reference; each says what it does, what we do,
//! and why. A test over the reference's own transitions fails for a difference that isn't here.

/// A difference with its reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReferenceDeparture {
    /// `D1` to `D16`.
    pub number: &'static str,
    /// What the reference does.
    pub there: &'static str,
    /// What we do.
    pub here: &'static str,
    /// Where it is done: `table`, `store`, `flow` or `driver`.
    pub place: &'static str,
}

const fn departure(
    number: &'static str,
    place: &'static str,
    there: &'static str,
    here: &'static str,
) -> ReferenceDeparture {
    ReferenceDeparture { number, there, here, place }
}

/// All differences.
pub const DEPARTURES: [ReferenceDeparture; 16] = [
    departure(
        "D1",
        "table",
        "marking a PAID send quote pending is an error",
        "it is a repetition: a slow event must not look like a fault",
    ),
    departure(
        "D2",
        "table",
        "a token that the receiver claimed while we took it back leaves its proofs RESERVED",
        "they become SPENT in the step that completes the send swap",
    ),
    departure(
        "D3",
        "store",
        "a reversal that failed can never be tried again",
        "only an attempt that has not failed keeps others out",
    ),
    departure(
        "D4",
        "store",
        "a repeated commit returns no change proofs",
        "a repetition answers with the same proofs as the first time",
    ),
    departure(
        "D5",
        "flow",
        "a PENDING quote that the mint calls UNPAID again stays for ever",
        "if the mint also calls every input UNSPENT, it FAILED",
    ),
    departure(
        "D6",
        "flow",
        "a DRAFT send swap never fails",
        "after a definite refusal, with inputs UNSPENT and outputs unsigned, it FAILED",
    ),
    departure("D7", "store", "a send quote without proofs is accepted", "it is refused"),
    departure(
        "D8",
        "table",
        "completing an UNPAID Spark send breaks a constraint",
        "it completes if the event brings Spark's ids, and is refused by name otherwise",
    ),
    departure(
        "D9",
        "table",
        "a payment seen after EXPIRED can't be claimed",
        "`late_payment` reopens the quote; its transaction goes from FAILED to PENDING",
    ),
    departure(
        "D10",
        "table",
        "marking a melt raises the version of quotes that are over",
        "only an UNPAID quote can be marked",
    ),
    departure(
        "D11",
        "store",
        "the cleaning of send quotes names an unknown state and always fails",
        "nothing is deleted: entities are the history of money",
    ),
    departure(
        "D12",
        "driver",
        "polling never backs off, and a closed socket stays closed",
        "back-off, reconnection and a read after every gap are the drivers' duty",
    ),
    departure(
        "D13",
        "flow",
        "proofs or outputs that are pending at the mint count as failure",
        "the same request is repeated later",
    ),
    departure(
        "D14",
        "table",
        "a keyset that rotates between reservation and use blocks the entity",
        "`take_new_range` reserves outputs of the active keyset; the old range stays burnt",
    ),
    departure(
        "D15",
        "flow",
        "restored signatures are taken as they come",
        "a restore counts only if it covers every output, and the mint's view of the proofs is asked",
    ),
    departure(
        "D16",
        "table",
        "what the melt of a claimed token leaves over is thrown away",
        "outputs are reserved for it where we have an account at the token's mint",
    ),
];
