//! A child in a mempool proves its parents; tried out on a copy.

use unspent_model::wallet::TxStatus;

use super::{Model, SeenHow, WorldTx};

impl Model {
    /// The wallet after believing a mempool that holds a child of the dead, if all that the child
    /// leans on can live together and nothing confirmed stands against it.
    pub(super) fn vouched(&self, tx: &WorldTx, now: i64) -> Option<Self> {
        let mut trial = self.clone();
        let rivals = trial.rivals(tx);
        let is_decided = trial.is_anchored(tx.txid);
        if is_decided || rivals.iter().any(|rival| trial.is_anchored(*rival)) {
            return None;
        }
        trial.win(tx, rivals, SeenHow::Mempool, now);
        let mut upheld = vec![tx.txid];
        let mut next = 0;
        while let Some(child) = upheld.get(next).copied() {
            next += 1;
            let inputs = trial.kept(child).map(|kept| kept.tx.inputs.clone()).unwrap_or_default();
            for parent in inputs.into_iter().map(|input| input.tx) {
                let Some(kept) = trial.kept(parent).cloned() else { continue };
                if kept.status.is_live() {
                    continue;
                }
                // Upheld once and dead again: the two exclude each other.
                if kept.tx.is_coinbase || upheld.contains(&parent) {
                    return None;
                }
                for rival in trial.rivals(&kept.tx) {
                    if trial.is_anchored(rival) {
                        return None;
                    }
                    trial.kill(rival, parent, false);
                }
                trial.edit(parent, |kept| {
                    kept.status = TxStatus::Published;
                    kept.seen_outside = true;
                    kept.withdrawn = false;
                });
                trial.risen.push(parent);
                upheld.push(parent);
            }
        }
        upheld.iter().all(|txid| trial.live(*txid)).then_some(trial)
    }

    pub(super) fn has_dead_parent(&self, tx: &WorldTx) -> bool {
        tx.inputs
            .iter()
            .any(|input| self.kept(input.tx).is_some_and(|parent| !parent.status.is_live()))
    }
}
