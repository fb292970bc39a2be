//! Spending outputs and taking spends back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use unspent_model::{
    Outpoint, TxId,
    txstore::{
        DeletionWindows, ExpectedOutput, OutputHash, Slot, SlotRefusal, SpendTerms, Spender,
        TxRecord,
    },
};
use unspent_sql::Tx;

use crate::{
    error::TxStoreError,
    new_tx::{NewTx, output_hash, parse},
    store::{TxStore, writer_key},
    working::{LoadMode, WorkingSet, bodies},
};

/// One input of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputSpend {
    /// Which input.
    pub vin: u32,
    /// What it spends.
    pub coin: Outpoint,
    /// What the child believes the output to be; nothing when it doesn't care.
    pub output: Option<OutputHash>,
}

/// All that one child spends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxSpends {
    /// The child.
    pub child: TxId,
    /// Its inputs.
    pub inputs: Vec<InputSpend>,
}

impl TxSpends {
    /// What a transaction spends, whatever the outputs are.
    pub fn of(new: &NewTx) -> Self {
        let inputs = new.inputs.iter().zip(0..);
        let inputs = inputs.map(|(coin, vin)| InputSpend { vin, coin: *coin, output: None });
        Self { child: new.txid, inputs: inputs.collect() }
    }
}

/// What a spend may pass over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpendOptions {
    /// Locks and conflicts.
    pub terms: SpendTerms,
    /// Parents that aren't in the store: deleted, or older than it.
    pub allow_absent: bool,
}

/// What came of one input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputOutcome {
    /// The output names the child now, or did before. If another input was refused, it doesn't.
    Spent,
    /// The parent isn't in the store, which was allowed.
    Absent,
    /// It can't be spent.
    Refused(SlotRefusal),
}

/// What came of a child's inputs: all were spent, or none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpendOutcome {
    /// In the order of the request.
    pub inputs: Vec<InputOutcome>,
}

impl SpendOutcome {
    /// Whether everything was spent.
    pub fn is_done(&self) -> bool {
        !self.inputs.iter().any(|input| matches!(input, InputOutcome::Refused(_)))
    }

    /// Parents that aren't in the store.
    pub fn absent(&self) -> usize {
        self.inputs.iter().filter(|input| **input == InputOutcome::Absent).count()
    }
}

/// A spend to be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unspend {
    /// The output.
    pub coin: Outpoint,
    /// Who takes it back: only the spender that the output names can.
    pub by: Spender,
}

impl TxStore {
    /// Spends the inputs of several children at `height`, one child after the other, each wholly or
    /// not at all.
    ///
    /// # Errors
    ///
    /// [`TxStoreError::Argument`] for height 0; whatever the database says.
    pub fn spend(
        &self,
        children: Vec<TxSpends>,
        height: u64,
        options: SpendOptions,
    ) -> Result<Vec<SpendOutcome>, TxStoreError> {
        if height == 0 {
            return Err(TxStoreError::Argument("nothing can be spent at height 0".into()));
        }
        let (windows, children) = (self.windows, Arc::new(children));
        let Some(first) = children.first() else { return Ok(Vec::new()) };
        self.door.write_for(writer_key(first.child), move |tx| {
            let inputs = || children.iter().flat_map(|child| &child.inputs);
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            working.load(tx, inputs().map(|input| input.coin.tx))?;
            working.load_slots(tx, inputs().map(|input| input.coin))?;
            let stored = stored_hashes(tx, &working, inputs())?;
            let lookup = |input: &InputSpend| stored.get(&input.coin).copied();
            let spend =
                |child| spend_inputs(&mut working, child, &lookup, height, options, windows);
            let outcomes = children.iter().map(spend).collect();
            working.save(tx)?;
            Ok(outcomes)
        })
    }

    /// Takes spends back, at `height`. For each whether anything changed: an output that names
    /// another spender, or none, stays as it is.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn unspend(
        &self,
        spends: Vec<Unspend>,
        height: u64,
    ) -> Result<Vec<Result<bool, SlotRefusal>>, TxStoreError> {
        let (retention, spends) = (self.windows.retention, Arc::new(spends));
        let Some(first) = spends.first() else { return Ok(Vec::new()) };
        self.door.write_for(writer_key(first.coin.tx), move |tx| {
            let mut working = WorkingSet::new(LoadMode::ForUpdate);
            working.load(tx, spends.iter().map(|spend| spend.coin.tx))?;
            working.load_slots(tx, spends.iter().map(|spend| spend.coin))?;
            let done = spends.iter().map(|Unspend { coin, by }| {
                let parent = working.get_mut(coin.tx).ok_or(SlotRefusal::TxNotFound)?;
                parent.unspend(coin.index, *by, height, retention)
            });
            let done = done.collect();
            working.save(tx)?;
            Ok(done)
        })
    }
}

/// Spends a child's inputs in the working set; takes all of it back when one is refused.
pub(crate) fn spend_inputs(
    working: &mut WorkingSet,
    child: &TxSpends,
    stored: &dyn Fn(&InputSpend) -> Option<OutputHash>,
    height: u64,
    options: SpendOptions,
    windows: DeletionWindows,
) -> SpendOutcome {
    let mut before: Vec<SlotBefore> = Vec::with_capacity(child.inputs.len());
    let mut outcome = SpendOutcome::default();
    for input in &child.inputs {
        let Some(parent) = working.get_mut(input.coin.tx) else {
            let refused = InputOutcome::Refused(SlotRefusal::TxNotFound);
            outcome.inputs.push(if options.allow_absent { InputOutcome::Absent } else { refused });
            continue;
        };
        before.extend(SlotBefore::of(parent, input.coin));
        let expected = ExpectedOutput { claimed: input.output, stored: stored(input) };
        let by = Spender { tx: child.child, vin: input.vin };
        let terms = options.terms;
        let spent = parent.spend(input.coin.index, by, expected, height, terms, windows.retention);
        outcome.inputs.push(match spent {
            Ok(()) => InputOutcome::Spent,
            Err(refusal) => InputOutcome::Refused(refusal),
        });
    }
    if !outcome.is_done() {
        // Newest first: two inputs on one parent each remember what the one before had left.
        before.into_iter().rev().for_each(|undo| undo.run(working));
    }
    outcome
}

/// What a spend changes of a record, as it was before.
struct SlotBefore {
    coin: Outpoint,
    slot: Slot,
    delete_at: Option<u64>,
    due_at: Option<u64>,
}

impl SlotBefore {
    /// Nothing for an output that isn't there: no spend changes it.
    fn of(parent: &TxRecord, coin: Outpoint) -> Option<Self> {
        let slot = parent.slots.get(coin.index)?;
        Some(Self { coin, slot, delete_at: parent.delete_at, due_at: parent.due_at })
    }

    fn run(self, working: &mut WorkingSet) {
        if let Some(parent) = working.get_mut(self.coin.tx) {
            parent.slots.set(self.coin.index, self.slot);
            (parent.delete_at, parent.due_at) = (self.delete_at, self.due_at);
        }
    }
}

/// What the outputs are of which somebody claims something.
fn stored_hashes<'i>(
    tx: &mut Tx<'_>,
    working: &WorkingSet,
    inputs: impl Iterator<Item = &'i InputSpend>,
) -> Result<BTreeMap<Outpoint, OutputHash>, TxStoreError> {
    // A claim is checked against the parent's bytes, which no other spend has to read.
    let claimed = inputs.filter(|input| input.output.is_some()).map(|input| input.coin);
    let claimed: BTreeSet<Outpoint> =
        claimed.filter(|coin| working.get(coin.tx).is_some()).collect();
    hashes_of(tx, &claimed)
}

/// What stored outputs are.
pub(crate) fn hashes_of(
    tx: &mut Tx<'_>,
    coins: &BTreeSet<Outpoint>,
) -> Result<BTreeMap<Outpoint, OutputHash>, TxStoreError> {
    let mut found = BTreeMap::new();
    let parents: BTreeSet<TxId> = coins.iter().map(|coin| coin.tx).collect();
    for (txid, body) in bodies(tx, &parents)? {
        let parent = parse(&body)?;
        for coin in coins.range(Outpoint::new(txid, 0)..=Outpoint::new(txid, u32::MAX)) {
            if let Some(output) = parent.output.get(coin.index as usize) {
                found.insert(*coin, output_hash(*coin, output));
            }
        }
    }
    Ok(found)
}
