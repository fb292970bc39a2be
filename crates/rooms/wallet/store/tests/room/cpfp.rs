//! A child that pays for the unconfirmed transactions it rests on.

use bitcoin::{Transaction, Txid};
use unspent_model::{Micros, wallet::select::FeePerWeight};
use unspent_wallet::{
    choose::CoinPolicy,
    pay::{CpfpRequest, PooledTx},
};

use crate::{
    ledger::*,
    spending::{RATE, finish_as},
};

#[test]
fn cpfp_pays_for_a_payment_received() {
    on_both(|l| {
        let incoming = tx(&[foreign(1)], &[(&l.ours(0), 80_000), (&theirs(3), 5_000)]);
        l.mempool(&incoming);
        let rate = FeePerWeight { sat_per_kwu: 5_000 };
        let lift = lift(&l, &incoming, rate);
        let unknown = l.room.build_payment(l.wallet, &lift, Micros(l.now.get())).unwrap_err();
        assert!(unknown.to_string().contains("fee is unknown"), "{unknown}");
        let lift = CpfpRequest { parent_fee: Some(300), ..lift };
        let child = l.room.build_payment(l.wallet, &lift, Micros(l.now.get())).unwrap();
        assert_eq!(child.psbt.unsigned_tx.input[0].previous_output, out(&incoming, 0));
        assert_eq!(child.psbt.unsigned_tx.output.len(), 1);
        let package = child.package.unwrap();
        assert_eq!((package.ancestors, package.unpaid.fee), (1, 300));
        assert_eq!(package.unsure, [incoming.compute_txid()], "what it spends nobody here knows");
        let fee = child.chosen.selection.fee;
        let txid = finish_as(&l, 1, child.psbt).unwrap();
        let sizes = l.room.tx(l.wallet, txid).unwrap().tx.vsize() + incoming.vsize();
        assert!(fee + 300 >= 20 * sizes as u64, "{fee}");
    });
}

fn lift(l: &Ledger, parent: &Transaction, rate: FeePerWeight) -> CpfpRequest {
    CpfpRequest {
        tx: parent.compute_txid(),
        parent_fee: None,
        pool: Vec::new(),
        rate,
        allow_high_fee: false,
        policy: CoinPolicy::default(),
        terms: l.terms(1),
    }
}

/// Own transactions in a row, each with this fee, on a confirmed coin of a million.
fn line_of(l: &Ledger, fees: &[u64]) -> Vec<Transaction> {
    let (mut last, mut sats, mut made) = (l.fund(1, 1_000_000), 1_000_000, Vec::new());
    for (n, fee) in fees.iter().enumerate() {
        sats -= fee;
        let next = tx(&[out(&last, 0)], &[(&l.change(n as u32), sats)]);
        l.mempool(&next);
        made.push(next.clone());
        last = next;
    }
    made
}

#[test]
fn cpfp_pays_for_all_unconfirmed_ancestors() {
    for fees in [&[60, 70][..], &[60, 70, 80]] {
        on_both(|l| {
            let line = line_of(&l, fees);
            let last = line.last().unwrap();
            let child =
                l.room.build_payment(l.wallet, &lift(&l, last, RATE), Micros(l.now.get())).unwrap();
            let package = child.package.unwrap();
            assert_eq!((package.ancestors, package.unpaid.count), (fees.len(), fees.len()));
            assert!(package.unsure.is_empty(), "all of it is ours");
            let fee = child.chosen.selection.fee + fees.iter().sum::<u64>();
            let txid = finish_as(&l, 1, child.psbt).unwrap();
            let below: usize = line.iter().map(Transaction::vsize).sum();
            let size = (l.room.tx(l.wallet, txid).unwrap().tx.vsize() + below) as u64;
            assert!(fee >= 2 * size && fee < 2 * (size + 3), "{fee} for {size} vB at 2 sat/vB");
        });
    }
}

#[test]
fn cpfp_does_not_pay_for_an_ancestor_above_the_rate() {
    on_both(|l| {
        let line = line_of(&l, &[50_000, 70]);
        let child =
            l.room.build_payment(l.wallet, &lift(&l, &line[1], RATE), Micros(l.now.get())).unwrap();
        let package = child.package.unwrap();
        assert_eq!((package.ancestors, package.unpaid.count, package.unpaid.fee), (2, 1, 70));
        let fee = child.chosen.selection.fee + 70;
        let txid = finish_as(&l, 1, child.psbt).unwrap();
        let size = l.room.tx(l.wallet, txid).unwrap().tx.vsize() + line[1].vsize();
        assert!(fee >= 2 * size as u64, "{fee} for {size} vB once the first is mined");
    });
}

#[test]
fn cpfp_takes_fees_of_others_from_the_node_or_names_them_as_unknown() {
    on_both(|l| {
        // Somebody's payment to us, on which our own payment rests.
        let incoming = tx(&[foreign(7)], &[(&l.ours(0), 80_000)]);
        l.mempool(&incoming);
        let own = tx(&[out(&incoming, 0)], &[(&l.change(0), 79_900)]);
        l.mempool(&own);
        let alone = lift(&l, &own, RATE);
        let refused =
            l.room.build_payment(l.wallet, &alone, Micros(l.now.get())).unwrap_err().to_string();
        let name = incoming.compute_txid().to_string();
        assert!(refused.contains(&name) && refused.contains("has an unknown fee"), "{refused}");
        // The node knows both, and one below them that the wallet has never seen.
        let pooled = |txid, fee, virtual_size, parents: &[Txid]| PooledTx {
            txid,
            fee,
            virtual_size,
            parents: parents.to_vec(),
        };
        let stranger = foreign(7).txid;
        let pool = vec![
            pooled(own.compute_txid(), 100, own.vsize() as u64, &[incoming.compute_txid()]),
            pooled(incoming.compute_txid(), 50, incoming.vsize() as u64, &[stranger]),
            pooled(stranger, 200, 1_000, &[]),
        ];
        let asked = CpfpRequest { pool, ..alone };
        let child = l.room.build_payment(l.wallet, &asked, Micros(l.now.get())).unwrap();
        let package = child.package.unwrap();
        assert_eq!((package.ancestors, package.unpaid.fee), (3, 350));
        assert!(package.unsure.is_empty());
        let below = (own.vsize() + incoming.vsize() + 1_000) as u64;
        assert_eq!(package.unpaid.virtual_size, below);
        let fee = child.chosen.selection.fee + 350;
        let txid = finish_as(&l, 1, child.psbt).unwrap();
        let size = l.room.tx(l.wallet, txid).unwrap().tx.vsize() as u64 + below;
        assert!(fee >= 2 * size, "{fee} for {size} vB");
    });
}
