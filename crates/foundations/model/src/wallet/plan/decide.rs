//! What each event asks for, before its consequences are drawn.
//!
//! The hard part is not who wins, which the table on the front page of [`super`] says, but that
//! news is partial. A parent may be heard of after its confirmed child, a spend before the
//! transaction that it spends, a coinbase after its block has gone. The chain's word is looked for
//! first, in the transaction itself, its descendants ([`PlanState::anchor`]) and its rivals; only
//! where the chain is silent do mempool and fees decide.

use std::collections::HashSet;

use super::{
    PlanRefusal, SightingPlace, TxSighting, WalletEvent, outcome::JournalEntry, working::PlanState,
};
use crate::{
    Outpoint, TxId,
    wallet::{
        EdgeCause, JournalCause, StatusMove, TxStatus,
        facts::{Coin, Confirmation, Ordered, StoredTx},
    },
};

impl PlanState<'_> {
    pub(super) fn event(&mut self, event: &WalletEvent) -> Result<(), PlanRefusal> {
        match event {
            WalletEvent::Seen(seen) => self.seen(seen)?,
            WalletEvent::Broadcast(txid) => self.broadcast(*txid)?,
            WalletEvent::Withdraw(txid) => self.withdraw(*txid)?,
            WalletEvent::Gone(txid) => self.gone(*txid),
            WalletEvent::Detached(txid) => self.detached(*txid),
            WalletEvent::Evicted(txid) => self.evicted(*txid),
        }
        // Ownership before revival: it settles fees, and fees decide who of several comes back.
        self.reown();
        self.revive();
        Ok(())
    }

    fn seen(&mut self, seen: &TxSighting) -> Result<(), PlanRefusal> {
        check_shape(seen)?;
        if let Some(lock) = seen.lock {
            self.locks.insert(seen.txid, lock);
        }
        let stored = self.tx(seen.txid).map(|tx| (tx.status, tx.confirmed));
        match seen.how {
            SightingPlace::Block(at) => self.in_block(seen, stored, at),
            SightingPlace::Mempool => self.in_mempool(seen, stored),
            SightingPlace::Relayed => self.relayed(seen, stored),
            SightingPlace::Created => self.created(seen, stored),
        }
    }

    /// Stores the transaction with a status, or completes what is stored of it.
    fn store(
        &mut self,
        seen: &TxSighting,
        status: TxStatus,
        cause: JournalCause,
        other: Option<TxId>,
    ) {
        if self.tx(seen.txid).is_none() {
            self.add_tx(StoredTx {
                txid: seen.txid,
                status,
                confirmed: None,
                is_coinbase: seen.is_coinbase,
                ever_published: seen.how != SightingPlace::Created,
                withdrawn: false,
                is_own: false,
                fee: seen.fee,
                output_total: seen.output_total,
                received: self.now,
                evicted_at: None,
                inputs: seen.inputs.clone(),
            });
            self.lines.push(JournalEntry {
                txid: seen.txid,
                output: None,
                from: None,
                to: Some(status),
                cause,
                other,
                height: None,
                lock: None,
            });
            self.touch_inputs(seen.txid);
            if status.is_live() {
                // Children stored as failed for want of this parent are looked at again.
                self.risen.push(seen.txid);
            } else {
                // Children may have come first, when nobody knew what they hang on.
                self.gone(seen.txid);
            }
        }
        self.reowned.insert(seen.txid);
        self.add_credits(seen);
    }

    /// Adds outputs that turn out to be ours, be it on the first sighting or on a later one.
    fn add_credits(&mut self, seen: &TxSighting) {
        let known: HashSet<u32> = self.credits(seen.txid).into_iter().collect();
        for (index, amount, address) in &seen.credits {
            if known.contains(index) {
                continue;
            }
            let outpoint = Outpoint::new(seen.txid, *index);
            let coin = Coin { amount: *amount, address: *address, spent_by: None, holder: None };
            self.put_coin(outpoint, coin);
            self.note_new_credit(outpoint);
            self.touched.insert(outpoint);
            // Stored spenders may turn out to be wholly ours now, with a fee that can be told.
            for child in self.spenders(outpoint) {
                self.reowned.insert(child);
            }
        }
    }

    fn in_block(
        &mut self,
        seen: &TxSighting,
        stored: Option<(TxStatus, Option<Confirmation>)>,
        at: Confirmation,
    ) -> Result<(), PlanRefusal> {
        if let Some((_, Some(before))) = stored {
            if before == at {
                self.store(seen, TxStatus::Published, JournalCause::Confirmed, None);
                return Ok(());
            }
            // Before BIP 30 a coinbase could repeat an older one; the later confirmation counts.
            if !seen.is_coinbase {
                let height = before.height;
                return Err(PlanRefusal::ConfirmedElsewhere { tx: seen.txid, height });
            }
        }
        // Whatever a block says wins, unless the stored chain says the opposite: then a block left
        // unnoticed, and going on would fail transactions that are confirmed.
        let rivals = self.live_rivals(seen);
        let mut anchored = rivals.iter().find_map(|rival| self.anchor(*rival));
        if anchored.is_none() {
            anchored = self.own_ancestor(seen, &rivals);
        }
        if let Some(with) = anchored {
            return Err(PlanRefusal::ConflictsWithConfirmed { tx: seen.txid, with });
        }
        for rival in rivals {
            self.kill(rival, seen.txid, true);
        }
        self.store(seen, TxStatus::Published, JournalCause::Confirmed, None);
        self.confirm(seen.txid, at);
        self.uphold_parents(seen.txid)
    }

    fn confirm(&mut self, txid: TxId, at: Confirmation) {
        let was_live = self.is_live(txid);
        let Some(tx) = self.tx_mut(txid) else { return };
        tx.confirmed = Some(at);
        tx.evicted_at = None;
        tx.withdrawn = false;
        let is_new = !self.facts.txs.get(&txid).is_some_and(Option::is_some);
        // A newcomer already has the line that told of its arrival; it only gets its height.
        if is_new {
            let line = self.lines.iter_mut().rev().find(|line| line.txid == txid);
            if let Some(line) = line {
                line.height = Some(at.height);
            }
        } else {
            self.step(txid, StatusMove::Confirm, JournalCause::Confirmed, None);
        }
        // Its coins change class, so all of them have to be known.
        self.credits(txid);
        if !was_live {
            self.rise(txid);
        }
    }

    fn in_mempool(
        &mut self,
        seen: &TxSighting,
        stored: Option<(TxStatus, Option<Confirmation>)>,
    ) -> Result<(), PlanRefusal> {
        if let Some((status, confirmed)) = stored {
            if status.is_live() {
                self.store(seen, status, JournalCause::Mempool, None);
                self.seen_again(seen.txid, status, confirmed);
                return Ok(());
            }
            // No node relays a coinbase; what says so is confused, and only a block can help.
            if status == TxStatus::Orphaned {
                return Ok(());
            }
        }
        let rivals = self.live_rivals(seen);
        // A node holds no child without its parents: those that we gave up for dead are there too.
        if let Some(parents) = self.vouched_parents(seen, &rivals) {
            // The child first: whoever it beats needn't be beaten by a parent too.
            self.win(seen, rivals, JournalCause::Mempool);
            for parent in parents {
                self.vouch(parent, seen.txid);
            }
        } else if !self.is_settled(seen, &rivals)? {
            self.win(seen, rivals, JournalCause::Mempool);
        }
        Ok(())
    }

    /// What the chain or a dead parent decides, before anybody compares: true when that was it.
    fn is_settled(&mut self, seen: &TxSighting, rivals: &[TxId]) -> Result<bool, PlanRefusal> {
        // It spends an output of what it stands against, so that it can't be valid beside it nor
        // without it.
        if let Some(rival) = self.own_ancestor(seen, rivals) {
            self.store(seen, TxStatus::Failed, JournalCause::ParentInvalid, Some(rival));
            return Ok(true);
        }
        let proof = self.anchor(seen.txid);
        let anchored = rivals.iter().copied().find_map(|r| Some((r, self.anchor(r)?)));
        match (proof, anchored) {
            (Some(_), Some((_, with))) => {
                return Err(PlanRefusal::ConflictsWithConfirmed { tx: seen.txid, with });
            }
            (Some(child), None) => self.win_by_child(seen, rivals, child)?,
            (None, Some((rival, _))) => self.store_loser(seen, rival, EdgeCause::DoubleSpent),
            (None, None) => match self.dead_parent(seen) {
                Some(parent) => {
                    self.store(seen, TxStatus::Failed, JournalCause::ParentInvalid, Some(parent));
                }
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    /// A confirmed child came first: the parent is in the chain, whoever stands against it.
    fn win_by_child(
        &mut self,
        seen: &TxSighting,
        rivals: &[TxId],
        child: TxId,
    ) -> Result<(), PlanRefusal> {
        for rival in rivals {
            self.kill(*rival, seen.txid, true);
        }
        let was_stored = self.tx(seen.txid).is_some();
        self.store(seen, TxStatus::Published, JournalCause::ChildConfirmed, Some(child));
        if was_stored {
            self.step(seen.txid, StatusMove::Publish, JournalCause::ChildConfirmed, Some(child));
            self.rise(seen.txid);
        }
        self.uphold_parents(seen.txid)
    }

    fn seen_again(&mut self, txid: TxId, status: TxStatus, confirmed: Option<Confirmation>) {
        if confirmed.is_some() {
            return;
        }
        if self.tx(txid).is_some_and(|tx| tx.evicted_at.is_some())
            && let Some(tx) = self.tx_mut(txid)
        {
            tx.evicted_at = None;
        }
        if status == TxStatus::Pending {
            self.step(txid, StatusMove::Publish, JournalCause::Mempool, None);
        }
    }

    fn relayed(
        &mut self,
        seen: &TxSighting,
        stored: Option<(TxStatus, Option<Confirmation>)>,
    ) -> Result<(), PlanRefusal> {
        if let Some((status, confirmed)) = stored {
            self.store(seen, status, JournalCause::Relayed, None);
            // Hearsay never brings back what has lost: peers repeat stale transactions for days.
            if status.is_live() {
                self.seen_again(seen.txid, status, confirmed);
            }
            return Ok(());
        }
        let rivals = self.live_rivals(seen);
        if self.is_settled(seen, &rivals)? {
            return Ok(());
        }
        match rivals.first() {
            // Nobody can tell from here which one miners will see. The first one heard of stays,
            // and the edge keeps in mind that it was never decided.
            Some(first) if !self.pays_more(seen, &rivals) => {
                self.store_loser(seen, *first, EdgeCause::Undecided);
            }
            _ => self.win(seen, rivals, JournalCause::Relayed),
        }
        Ok(())
    }

    fn created(
        &mut self,
        seen: &TxSighting,
        stored: Option<(TxStatus, Option<Confirmation>)>,
    ) -> Result<(), PlanRefusal> {
        if let Some((status, _)) = stored {
            if !status.is_live() {
                return Err(PlanRefusal::Dead(seen.txid));
            }
            self.store(seen, status, JournalCause::Created, None);
            return Ok(());
        }
        // What is made here can still be made otherwise, so doubt is a refusal and not a loser.
        let rivals = self.live_rivals(seen);
        let anchored = rivals.iter().copied().find(|rival| self.anchor(*rival).is_some());
        let anchored = anchored.or_else(|| self.own_ancestor(seen, &rivals));
        let outbid = rivals.first().copied().filter(|_| !self.pays_more(seen, &rivals));
        if let Some(by) = anchored.or(outbid) {
            let inputs = seen.inputs.iter().copied();
            let outpoint = inputs.clone().find(|input| self.live_spender(*input) == Some(by));
            let outpoint = outpoint.or_else(|| inputs.clone().next()).unwrap_or_default();
            return Err(PlanRefusal::InputSpent { outpoint, by });
        }
        for outpoint in &seen.inputs {
            let parent = self.tx(outpoint.tx).map(StoredTx::is_live);
            if parent == Some(false) {
                return Err(PlanRefusal::InvalidParent { outpoint: *outpoint });
            }
            let holder = self.coin(*outpoint).and_then(|coin| coin.holder);
            if let Some(holder) = holder.filter(|h| Some(*h) != seen.lock && !seen.force) {
                return Err(PlanRefusal::Leased { outpoint: *outpoint, holder });
            }
        }
        for rival in rivals {
            self.kill(rival, seen.txid, false);
        }
        self.store(seen, TxStatus::Pending, JournalCause::Created, None);
        Ok(())
    }

    /// The newcomer takes its inputs from whoever has them.
    fn win(&mut self, seen: &TxSighting, rivals: Vec<TxId>, cause: JournalCause) {
        for rival in rivals {
            self.kill(rival, seen.txid, false);
        }
        let was_stored = self.tx(seen.txid).is_some();
        self.store(seen, TxStatus::Published, cause, None);
        if was_stored {
            if let Some(tx) = self.tx_mut(seen.txid) {
                tx.withdrawn = false;
                tx.evicted_at = None;
            }
            self.step(seen.txid, StatusMove::Publish, cause, None);
            self.rise(seen.txid);
        }
    }

    fn store_loser(&mut self, seen: &TxSighting, winner: TxId, cause: EdgeCause) {
        let why = match cause {
            EdgeCause::DoubleSpent => JournalCause::DoubleSpent,
            EdgeCause::Replaced | EdgeCause::Undecided => JournalCause::Replaced,
        };
        self.store(seen, TxStatus::Failed, why, Some(winner));
        self.edge(seen.txid, winner, cause);
    }

    /// Live transactions other than itself that spend one of its inputs, each once.
    fn live_rivals(&mut self, seen: &TxSighting) -> Vec<TxId> {
        let mut rivals = Ordered::default();
        for input in &seen.inputs {
            for spender in self.spenders(*input) {
                if spender != seen.txid && self.is_live(spender) {
                    rivals.insert(spender);
                }
            }
        }
        rivals.iter().collect()
    }

    /// A rival that it also descends from: such a transaction can never be valid.
    fn own_ancestor(&mut self, seen: &TxSighting, rivals: &[TxId]) -> Option<TxId> {
        let parents: HashSet<TxId> = seen.inputs.iter().map(|input| input.tx).collect();
        rivals.iter().copied().find(|rival| {
            let mut family = self.descendants(*rival).into_iter().chain([*rival]);
            family.any(|member| parents.contains(&member))
        })
    }

    fn dead_parent(&mut self, seen: &TxSighting) -> Option<TxId> {
        let mut parents = seen.inputs.iter().map(|input| input.tx);
        parents.find(|parent| self.tx(*parent).is_some_and(|tx| !tx.is_live()))
    }

    /// Whether its fee is known and beats the known fees of all rivals together, as rule 3 of
    /// BIP 125 asks. Rates aren't compared: of a transaction that others made we know no weight.
    fn pays_more(&mut self, seen: &TxSighting, rivals: &[TxId]) -> bool {
        let Some(fee) = self.fee_of(seen) else { return false };
        let mut theirs: u64 = 0;
        for rival in rivals {
            match self.tx(*rival).and_then(|tx| tx.fee) {
                // Beyond what can be counted nothing pays more.
                Some(known) => theirs = theirs.saturating_add(known),
                None => return false,
            }
        }
        fee > theirs
    }

    fn fee_of(&mut self, seen: &TxSighting) -> Option<u64> {
        let mut total: u64 = 0;
        for input in &seen.inputs {
            match self.coin(*input) {
                Some(coin) => total = total.checked_add(coin.amount)?,
                // A foreign input: only whoever made the transaction knows what it holds.
                None => return seen.fee,
            }
        }
        total.checked_sub(seen.output_total)
    }

    fn broadcast(&mut self, txid: TxId) -> Result<(), PlanRefusal> {
        let tx = self.tx(txid).ok_or(PlanRefusal::Unknown(txid))?;
        match tx.status {
            TxStatus::Pending => {
                self.step(txid, StatusMove::Publish, JournalCause::Broadcast, None)
            }
            TxStatus::Published => {}
            status @ (TxStatus::Failed | TxStatus::Replaced | TxStatus::Orphaned) => {
                return Err(PlanRefusal::NotPending { tx: txid, status });
            }
        }
        Ok(())
    }

    fn withdraw(&mut self, txid: TxId) -> Result<(), PlanRefusal> {
        let tx = self.tx(txid).ok_or(PlanRefusal::Unknown(txid))?;
        let status = tx.status;
        if status != TxStatus::Pending {
            return Err(PlanRefusal::NotPending { tx: txid, status });
        }
        let family = self.descendants(txid);
        // The mark keeps revival away; only the network itself, which may hold a copy that was
        // sent behind our back, can lift it.
        if let Some(tx) = self.tx_mut(txid) {
            tx.withdrawn = true;
        }
        self.die(txid, StatusMove::Withdraw, JournalCause::Withdrawn, None);
        self.bury(txid, family);
        Ok(())
    }

    /// Without a block to prove it, a transaction lives only as long as its parents do.
    fn detached(&mut self, txid: TxId) {
        let Some(tx) = self.tx(txid).filter(|tx| tx.is_live() && tx.confirmed.is_none()) else {
            return;
        };
        let inputs = tx.inputs.clone();
        let mut parents = inputs.iter().map(|input| input.tx);
        let dead = parents.find(|p| self.tx(*p).is_some_and(|tx| !tx.is_live()));
        if let Some(parent) = dead {
            self.die(txid, StatusMove::LoseParent, JournalCause::ParentInvalid, Some(parent));
            self.gone(txid);
        }
    }

    fn gone(&mut self, txid: TxId) {
        let family = self.descendants(txid);
        self.bury(txid, family);
    }

    /// Eviction changes no status, for whoever still has the transaction may mine it. The mark only
    /// keeps its change from being spent meanwhile.
    fn evicted(&mut self, txid: TxId) {
        let now = self.now;
        let waits = self.tx(txid).is_some_and(|tx| {
            tx.status == TxStatus::Published && tx.confirmed.is_none() && tx.evicted_at.is_none()
        });
        if !waits {
            return;
        }
        if let Some(tx) = self.tx_mut(txid) {
            tx.evicted_at = Some(now);
            let status = Some(tx.status);
            self.lines.push(JournalEntry {
                txid,
                output: None,
                from: status,
                to: status,
                cause: JournalCause::Evicted,
                other: None,
                height: None,
                lock: None,
            });
        }
    }
}

fn check_shape(seen: &TxSighting) -> Result<(), PlanRefusal> {
    if seen.is_coinbase {
        let in_block = matches!(seen.how, SightingPlace::Block(_));
        return if in_block { Ok(()) } else { Err(PlanRefusal::LooseCoinbase) };
    }
    if seen.inputs.is_empty() {
        return Err(PlanRefusal::NoInputs(seen.txid));
    }
    let mut spent = HashSet::with_capacity(seen.inputs.len());
    match seen.inputs.iter().find(|input| !spent.insert(**input)) {
        Some(outpoint) => Err(PlanRefusal::DuplicateInput { tx: seen.txid, outpoint: *outpoint }),
        None => Ok(()),
    }
}
