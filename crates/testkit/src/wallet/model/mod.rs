//! A plain reference model of one wallet.
//!
//! Everything is a list, every question a scan, every consequence drawn by looking at all of it.
//! It knows nothing of plans, loading or databases, so that it can disagree with them.

mod undo;
mod view;
mod vouched;

use std::collections::{BTreeMap, BTreeSet};

use unspent_model::{Outpoint, TxId, wallet::TxStatus};

/// A transaction of the test's world.
#[derive(Clone, Debug)]
pub struct WorldTx {
    /// Stands for the hash.
    pub txid: TxId,
    /// What it spends; nothing for a coinbase.
    pub inputs: Vec<Outpoint>,
    /// Satoshis and whether they are ours.
    pub outputs: Vec<(u64, bool)>,
    /// Whether it makes new money.
    pub is_coinbase: bool,
}

/// A transaction as the model keeps it.
#[derive(Clone, Debug)]
pub struct Kept {
    tx: WorldTx,
    /// Validity.
    pub status: TxStatus,
    /// Height of its block.
    pub height: Option<u64>,
    seen_outside: bool,
    withdrawn: bool,
    own: bool,
    fee: Option<u64>,
    received: i64,
}

/// The request makes no sense in this state; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelRefused;

/// One wallet.
#[derive(Clone, Debug, Default)]
pub struct Model {
    txs: Vec<Kept>,
    edges: BTreeSet<(TxId, TxId)>,
    leases: BTreeMap<Outpoint, ([u8; 32], i64)>,
    freed: Vec<Outpoint>,
    risen: Vec<TxId>,
    /// What was pruned, with the height that settled it.
    pruned: BTreeMap<TxId, u64>,
    /// The youngest spend of a coin that was pruned.
    last_pruned_spend: Option<u64>,
    /// Height of the tip.
    pub tip: Option<u64>,
}

/// How a transaction was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenHow {
    /// Made here.
    Created,
    /// Heard of.
    Relayed,
    /// In a mempool.
    Mempool,
    /// In a block at a height.
    Block(u64),
}

impl Model {
    fn at(&self, txid: TxId) -> Option<usize> {
        self.txs.iter().position(|kept| kept.tx.txid == txid)
    }

    fn kept(&self, txid: TxId) -> Option<&Kept> {
        self.txs.iter().find(|kept| kept.tx.txid == txid)
    }

    fn live(&self, txid: TxId) -> bool {
        self.kept(txid).is_some_and(|kept| kept.status.is_live())
    }

    fn edit(&mut self, txid: TxId, change: impl FnOnce(&mut Kept)) {
        if let Some(kept) = self.txs.iter_mut().find(|kept| kept.tx.txid == txid) {
            change(kept);
        }
    }

    fn spenders(&self, outpoint: Outpoint) -> Vec<TxId> {
        let spends = |kept: &&Kept| kept.tx.inputs.contains(&outpoint);
        self.txs.iter().filter(spends).map(|kept| kept.tx.txid).collect()
    }

    fn children(&self, txid: TxId) -> Vec<TxId> {
        let spends = |kept: &&Kept| kept.tx.inputs.iter().any(|input| input.tx == txid);
        self.txs.iter().filter(spends).map(|kept| kept.tx.txid).collect()
    }

    fn coin(&self, outpoint: Outpoint) -> Option<u64> {
        let kept = self.kept(outpoint.tx)?;
        let place = usize::try_from(outpoint.index).ok()?;
        kept.tx.outputs.get(place).filter(|(_, ours)| *ours).map(|(sats, _)| *sats)
    }

    fn spender(&self, outpoint: Outpoint) -> Option<TxId> {
        self.spenders(outpoint).into_iter().find(|txid| self.live(*txid))
    }

    /// Whether a transaction concerns the wallet by what is known so far.
    pub fn concerns(&self, tx: &WorldTx) -> bool {
        self.kept(tx.txid).is_some()
            || tx.outputs.iter().any(|(_, ours)| *ours)
            || tx
                .inputs
                .iter()
                .any(|input| self.coin(*input).is_some() || !self.spenders(*input).is_empty())
    }

    /// Sees a transaction.
    ///
    /// # Errors
    ///
    /// [`ModelRefused`] as the room would refuse.
    pub fn see(&mut self, tx: &WorldTx, how: SeenHow, now: i64) -> Result<(), ModelRefused> {
        if !self.concerns(tx) {
            return Ok(());
        }
        self.see_relevant(tx, how, now)
    }

    /// Sees a transaction that is known to concern the wallet.
    ///
    /// # Errors
    ///
    /// [`ModelRefused`] as the room would refuse.
    pub fn see_relevant(
        &mut self,
        tx: &WorldTx,
        how: SeenHow,
        now: i64,
    ) -> Result<(), ModelRefused> {
        if self.pruned.contains_key(&tx.txid) {
            return Ok(());
        }
        match how {
            SeenHow::Block(height) => self.in_block(tx, height, now)?,
            SeenHow::Mempool => self.in_mempool(tx, now)?,
            SeenHow::Relayed => self.relayed(tx, now)?,
            SeenHow::Created => self.created(tx, now)?,
        }
        self.own();
        self.revive();
        Ok(())
    }

    fn store(&mut self, tx: &WorldTx, status: TxStatus, how: SeenHow, now: i64) {
        if self.kept(tx.txid).is_none() {
            self.txs.push(Kept {
                tx: tx.clone(),
                status,
                height: None,
                seen_outside: how != SeenHow::Created,
                withdrawn: false,
                own: false,
                fee: None,
                received: now,
            });
            if status.is_live() {
                self.risen.push(tx.txid);
            } else {
                self.bury(tx.txid);
            }
        }
    }

    fn rivals(&self, tx: &WorldTx) -> Vec<TxId> {
        let mut rivals = Vec::new();
        for input in &tx.inputs {
            for spender in self.spenders(*input) {
                if spender != tx.txid && self.live(spender) && !rivals.contains(&spender) {
                    rivals.push(spender);
                }
            }
        }
        rivals
    }

    fn family(&self, txid: TxId) -> Vec<TxId> {
        let mut all = vec![txid];
        let mut next = 0;
        while let Some(at) = all.get(next).copied() {
            for child in self.children(at) {
                if !all.contains(&child) {
                    all.push(child);
                }
            }
            next += 1;
        }
        all
    }

    fn is_anchored(&self, txid: TxId) -> bool {
        let confirmed = |txid: &TxId| {
            self.kept(*txid).is_some_and(|kept| kept.status.is_live() && kept.height.is_some())
        };
        self.family(txid).iter().any(confirmed)
    }

    /// It spends an output of its own rival, or of something that hangs on it.
    fn is_impossible(&self, tx: &WorldTx, rivals: &[TxId]) -> bool {
        let spends = |member: &TxId| tx.inputs.iter().any(|input| input.tx == *member);
        rivals.iter().any(|rival| self.family(*rival).iter().any(spends))
    }

    fn in_block(&mut self, tx: &WorldTx, height: u64, now: i64) -> Result<(), ModelRefused> {
        if let Some(before) = self.kept(tx.txid).and_then(|kept| kept.height) {
            if before == height {
                return Ok(());
            }
            if !tx.is_coinbase {
                return Err(ModelRefused);
            }
        }
        let rivals = self.rivals(tx);
        let anchored = rivals.iter().any(|rival| self.is_anchored(*rival));
        if anchored || self.is_impossible(tx, &rivals) {
            return Err(ModelRefused);
        }
        for rival in rivals {
            self.kill(rival, tx.txid, true);
        }
        self.store(tx, TxStatus::Published, SeenHow::Block(height), now);
        let was_live = self.live(tx.txid);
        self.edit(tx.txid, |kept| {
            kept.height = Some(height);
            kept.status = TxStatus::Published;
            kept.seen_outside = true;
            kept.withdrawn = false;
        });
        if !was_live {
            self.risen.push(tx.txid);
        }
        self.uphold(tx.txid)
    }

    fn uphold(&mut self, txid: TxId) -> Result<(), ModelRefused> {
        let mut upheld = vec![txid];
        let mut queue = std::collections::VecDeque::from([txid]);
        while let Some(child) = queue.pop_front() {
            let inputs = self.kept(child).map(|kept| kept.tx.inputs.clone()).unwrap_or_default();
            for parent in inputs.into_iter().map(|input| input.tx) {
                let Some(kept) = self.kept(parent).cloned() else { continue };
                if kept.status.is_live() {
                    continue;
                }
                if kept.tx.is_coinbase {
                    return Err(ModelRefused);
                }
                for rival in self.rivals(&kept.tx) {
                    if self.is_anchored(rival) {
                        return Err(ModelRefused);
                    }
                    self.kill(rival, parent, true);
                }
                self.edit(parent, |kept| {
                    kept.status = TxStatus::Published;
                    kept.seen_outside = true;
                    kept.withdrawn = false;
                });
                self.risen.push(parent);
                queue.push_back(parent);
                upheld.push(parent);
            }
        }
        if upheld.iter().all(|txid| self.live(*txid)) { Ok(()) } else { Err(ModelRefused) }
    }

    /// The chain or a dead parent decides: true when that was it.
    fn is_settled(
        &mut self,
        tx: &WorldTx,
        rivals: &[TxId],
        how: SeenHow,
        now: i64,
    ) -> Result<bool, ModelRefused> {
        if self.is_impossible(tx, rivals) {
            self.store(tx, TxStatus::Failed, how, now);
            return Ok(true);
        }
        let proven = self.is_anchored(tx.txid);
        let anchored = rivals.iter().copied().find(|rival| self.is_anchored(*rival));
        match (proven, anchored) {
            (true, Some(_)) => Err(ModelRefused),
            (true, None) => {
                for rival in rivals {
                    self.kill(*rival, tx.txid, true);
                }
                let was_kept = self.kept(tx.txid).is_some();
                self.store(tx, TxStatus::Published, how, now);
                if was_kept {
                    self.edit(tx.txid, |kept| {
                        kept.status = TxStatus::Published;
                        kept.seen_outside = true;
                    });
                    self.risen.push(tx.txid);
                }
                self.uphold(tx.txid).map(|()| true)
            }
            (false, Some(rival)) => {
                self.store(tx, TxStatus::Failed, how, now);
                self.edges.insert((tx.txid, rival));
                Ok(true)
            }
            (false, None) if self.has_dead_parent(tx) => {
                self.store(tx, TxStatus::Failed, how, now);
                Ok(true)
            }
            (false, None) => Ok(false),
        }
    }

    fn in_mempool(&mut self, tx: &WorldTx, now: i64) -> Result<(), ModelRefused> {
        if let Some(kept) = self.kept(tx.txid).cloned() {
            if kept.status.is_live() {
                self.edit(tx.txid, |kept| {
                    kept.status = TxStatus::Published;
                    kept.seen_outside = true;
                });
                return Ok(());
            }
            if kept.status == TxStatus::Orphaned {
                return Ok(());
            }
        }
        if self.has_dead_parent(tx)
            && let Some(vouched) = self.vouched(tx, now)
        {
            *self = vouched;
            return Ok(());
        }
        let rivals = self.rivals(tx);
        if !self.is_settled(tx, &rivals, SeenHow::Mempool, now)? {
            self.win(tx, rivals, SeenHow::Mempool, now);
        }
        Ok(())
    }

    fn win(&mut self, tx: &WorldTx, rivals: Vec<TxId>, how: SeenHow, now: i64) {
        for rival in rivals {
            self.kill(rival, tx.txid, false);
        }
        let was_kept = self.kept(tx.txid).is_some();
        self.store(tx, TxStatus::Published, how, now);
        if was_kept {
            self.edit(tx.txid, |kept| {
                kept.status = TxStatus::Published;
                kept.seen_outside = true;
                kept.withdrawn = false;
            });
            self.risen.push(tx.txid);
        }
    }

    fn fee(&self, tx: &WorldTx) -> Option<u64> {
        let ins = tx.inputs.iter().map(|input| self.coin(*input)).sum::<Option<u64>>()?;
        ins.checked_sub(tx.outputs.iter().map(|(sats, _)| sats).sum())
    }

    fn pays_more(&self, tx: &WorldTx, rivals: &[TxId]) -> bool {
        let theirs = rivals.iter().map(|rival| self.kept(*rival).and_then(|kept| kept.fee));
        match (self.fee(tx), theirs.sum::<Option<u64>>()) {
            (Some(ours), Some(theirs)) => ours > theirs,
            _ => false,
        }
    }

    fn relayed(&mut self, tx: &WorldTx, now: i64) -> Result<(), ModelRefused> {
        if let Some(kept) = self.kept(tx.txid).cloned() {
            if kept.status.is_live() {
                self.edit(tx.txid, |kept| {
                    kept.status = TxStatus::Published;
                    kept.seen_outside = true;
                });
            }
            return Ok(());
        }
        let rivals = self.rivals(tx);
        if self.is_settled(tx, &rivals, SeenHow::Relayed, now)? {
            return Ok(());
        }
        match (rivals.first(), self.pays_more(tx, &rivals)) {
            (Some(first), false) => {
                self.edges.insert((tx.txid, *first));
                self.store(tx, TxStatus::Failed, SeenHow::Relayed, now);
            }
            _ => self.win(tx, rivals, SeenHow::Relayed, now),
        }
        Ok(())
    }

    fn created(&mut self, tx: &WorldTx, now: i64) -> Result<(), ModelRefused> {
        if let Some(kept) = self.kept(tx.txid) {
            return if kept.status.is_live() { Ok(()) } else { Err(ModelRefused) };
        }
        let rivals = self.rivals(tx);
        let anchored =
            rivals.iter().any(|rival| self.is_anchored(*rival)) || self.is_impossible(tx, &rivals);
        if anchored || (!rivals.is_empty() && !self.pays_more(tx, &rivals)) {
            return Err(ModelRefused);
        }
        let leased = tx.inputs.iter().any(|input| {
            self.coin(*input).is_some()
                && self.leases.get(input).is_some_and(|(_, expires)| *expires > now)
        });
        if self.has_dead_parent(tx) || leased {
            return Err(ModelRefused);
        }
        for rival in rivals {
            self.kill(rival, tx.txid, false);
        }
        self.store(tx, TxStatus::Pending, SeenHow::Created, now);
        Ok(())
    }

    fn kill(&mut self, loser: TxId, winner: TxId, by_confirmed: bool) {
        self.edit(loser, |kept| {
            kept.status = match (kept.status, by_confirmed) {
                (TxStatus::Published, false) => TxStatus::Replaced,
                _ => TxStatus::Failed,
            };
        });
        self.edges.insert((loser, winner));
        self.free(loser);
        self.bury(loser);
    }

    fn free(&mut self, txid: TxId) {
        let inputs = self.kept(txid).map(|kept| kept.tx.inputs.clone()).unwrap_or_default();
        self.freed.extend(inputs);
    }

    fn bury(&mut self, root: TxId) {
        let mut queue = vec![root];
        while let Some(parent) = queue.pop() {
            for child in self.children(parent) {
                let falls = self
                    .kept(child)
                    .is_some_and(|kept| kept.status.is_live() && kept.height.is_none());
                if falls {
                    self.edit(child, |kept| kept.status = TxStatus::Failed);
                    self.free(child);
                    queue.push(child);
                }
            }
        }
    }

    fn own(&mut self) {
        for at in 0..self.txs.len() {
            let Some(kept) = self.txs.get(at).cloned() else { continue };
            if kept.own || kept.tx.is_coinbase {
                continue;
            }
            if kept.tx.inputs.iter().all(|input| self.coin(*input).is_some()) {
                let fee = self.fee(&kept.tx);
                self.edit(kept.tx.txid, |kept| {
                    kept.own = true;
                    kept.fee = fee;
                });
            }
        }
    }

    fn revive(&mut self) {
        let mut candidates: Vec<TxId> = Vec::new();
        for outpoint in std::mem::take(&mut self.freed) {
            candidates.extend(self.spenders(outpoint));
        }
        for parent in std::mem::take(&mut self.risen) {
            candidates.extend(self.children(parent));
        }
        let mut queue: std::collections::VecDeque<TxId> = self.preferred(candidates).into();
        while let Some(txid) = queue.pop_front() {
            let Some(kept) = self.kept(txid).cloned() else { continue };
            let dead = matches!(kept.status, TxStatus::Failed | TxStatus::Replaced);
            let open = |input: &Outpoint| {
                self.kept(input.tx).is_none_or(|parent| parent.status.is_live())
                    && self.spender(*input).is_none()
            };
            if dead && !kept.withdrawn && kept.tx.inputs.iter().all(open) {
                let status =
                    if kept.seen_outside { TxStatus::Published } else { TxStatus::Pending };
                self.edit(txid, |kept| kept.status = status);
                queue.extend(self.preferred(self.children(txid)));
            }
        }
    }

    fn preferred(&self, mut candidates: Vec<TxId>) -> Vec<TxId> {
        candidates.sort_by_key(|txid| {
            let known = self.kept(*txid).map(|kept| (kept.fee, kept.received));
            (std::cmp::Reverse(known), *txid)
        });
        candidates.dedup();
        candidates
    }

    /// Marks a pending transaction as sent.
    ///
    /// # Errors
    ///
    /// [`ModelRefused`] when it isn't live.
    pub fn broadcast(&mut self, txid: TxId) -> Result<(), ModelRefused> {
        if !self.live(txid) {
            return Err(ModelRefused);
        }
        self.edit(txid, |kept| {
            kept.status = TxStatus::Published;
            kept.seen_outside = true;
        });
        Ok(())
    }

    /// Takes back a pending transaction.
    ///
    /// # Errors
    ///
    /// [`ModelRefused`] when it isn't pending.
    pub fn withdraw(&mut self, txid: TxId) -> Result<(), ModelRefused> {
        if self.kept(txid).is_none_or(|kept| kept.status != TxStatus::Pending) {
            return Err(ModelRefused);
        }
        self.edit(txid, |kept| {
            kept.status = TxStatus::Failed;
            kept.withdrawn = true;
        });
        self.free(txid);
        self.bury(txid);
        self.revive();
        Ok(())
    }

    /// Leases coins.
    ///
    /// # Errors
    ///
    /// [`ModelRefused`] when one is no live, unspent coin or is held by somebody else.
    pub fn lease(
        &mut self,
        coins: &[Outpoint],
        lock: [u8; 32],
        now: i64,
        until: i64,
    ) -> Result<(), ModelRefused> {
        let fine = |coin: &Outpoint| {
            let held = self.leases.get(coin).filter(|(_, expires)| *expires > now);
            self.coin(*coin).is_some()
                && self.live(coin.tx)
                && self.spender(*coin).is_none()
                && held.is_none_or(|(by, _)| *by == lock)
        };
        if !coins.iter().all(fine) {
            return Err(ModelRefused);
        }
        self.leases.extend(coins.iter().map(|coin| (*coin, (lock, until))));
        Ok(())
    }
}
