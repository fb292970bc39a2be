//! What the source would answer about itself, so that a copy can be compared with it.

use std::collections::BTreeSet;

use bitcoin::OutPoint;

use crate::history::{Credit, History, SourceTx};

/// Confirmations that a coinbase needs.
const MATURITY: u32 = 100;

impl History {
    /// Outputs that the source would spend at that time: unspent and not leased.
    ///
    /// `now` is in seconds. Immature coinbases are among them, as in the source.
    pub fn unspent(&self, now: u64) -> Vec<(&SourceTx, &Credit)> {
        let leases = self.leases.iter().filter(|lease| lease.expires > now);
        let held: BTreeSet<OutPoint> = leases.map(|lease| lease.coin).collect();
        let is_free = |(tx, credit): &(&SourceTx, &Credit)| {
            !credit.is_spent && !held.contains(&OutPoint::new(tx.txid, credit.index))
        };
        self.credits().filter(is_free).collect()
    }

    /// The source's balance in satoshis at a tip: outputs with that many confirmations, without
    /// young coinbases and what is leased.
    pub fn balance(&self, minconf: u32, tip: u32, now: u64) -> u64 {
        let deep = |tx: &SourceTx| {
            // A block above the tip has no confirmations.
            let confirmations = tx.block.map_or(0, |block| (tip + 1).saturating_sub(block.height));
            let needed = if tx.tx.is_coinbase() { minconf.max(MATURITY) } else { minconf };
            confirmations >= needed
        };
        let counted = self.unspent(now).into_iter().filter(|(tx, _)| deep(tx));
        // Only a file that holds what isn't money saturates: all there is is less than 2^51.
        counted.map(|(_, credit)| credit.amount).fold(0, u64::saturating_add)
    }
}
