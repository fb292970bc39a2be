//! Labels out and in as BIP-329 has them.

use unspent_model::Micros;
use unspent_wallet::{bip329::BadLine, descriptor::show_script, labels::Label};

use crate::ledger::*;

#[test]
fn labels_leave_and_enter_as_bip_329() {
    on_both(|l| {
        let lines = "{\"type\":\"tx\",\"ref\":\"aa\",\"label\":\"rent \\\"\\u00e9\\\"\"}\n\
            {\"type\":\"addr\",\"ref\":\"bb\",\"label\":\"shop\",\"other\":\"x\"}\n\n";
        assert_eq!(l.room.import_labels(l.wallet, lines, Micros(1)).unwrap().taken, 2);
        let out = l.room.export_labels(l.wallet).unwrap();
        assert_eq!(out.lines().count(), 2);
        let other = l.other_wallet("other", 2);
        assert_eq!(l.room.import_labels(other, &out, Micros(1)).unwrap().taken, 2);
        assert_eq!(l.room.export_labels(other).unwrap(), out);
    });
}

#[test]
fn a_bad_line_is_named_by_its_number_and_the_rest_goes_in() {
    on_both(|l| {
        let lines = "{\"type\":\"tx\",\"ref\":\"aa\",\"label\":\"first\"}\n\
            not json\n\n\
            {\"type\":\"coin\",\"ref\":\"bb\",\"label\":\"x\"}\n\
            {\"type\":\"addr\",\"ref\":\"cc\",\"spendable\":false}\n\
            {\"type\":\"tx\",\"ref\":\"dd\",\"label\":\"last\"}\n";
        let done = l.room.import_labels(l.wallet, lines, Micros(1)).unwrap();
        assert_eq!((done.taken, done.left_out), (2, 3));
        assert_eq!(done.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [2, 4, 5]);
        let BadLine { why, .. } = &done.bad[1];
        assert!(why.contains("coin"), "{why}");
        assert_eq!(l.room.labels(l.wallet, None).unwrap().len(), 2);
    });
}

#[test]
fn origins_and_frozen_coins_are_kept_and_a_record_without_label_clears_nothing() {
    on_both(|l| {
        let pay = l.fund(1, 5_000);
        let (txid, coin) = (pay.compute_txid(), out(&pay, 0));
        let label =
            Label { kind: "output".into(), reference: coin.to_string(), label: "gift".into() };
        l.room.set_label(l.wallet, &label).unwrap();
        let origin = "wpkh([d34db33f/84h/0h/0h])";
        let lines = format!(
            "{{\"type\":\"tx\",\"ref\":\"{txid}\",\"origin\":\"{origin}\"}}\n\
             {{\"type\":\"output\",\"ref\":\"{coin}\",\"spendable\":false}}\n\
             {{\"type\":\"output\",\"ref\":\"{}\",\"spendable\":false}}\n",
            foreign(9)
        );
        assert_eq!(l.room.import_labels(l.wallet, &lines, Micros(7)).unwrap().taken, 3);
        let found = l.room.coin(l.wallet, coin, Micros(l.now.get())).unwrap();
        assert_eq!((found.label.as_deref(), found.is_frozen), (Some("gift"), true));
        let out = l.room.export_labels(l.wallet).unwrap();
        let expected = [
            format!(
                "{{\"type\":\"output\",\"ref\":\"{coin}\",\"label\":\"gift\",\"spendable\":false}}"
            ),
            format!("{{\"type\":\"tx\",\"ref\":\"{txid}\",\"origin\":\"{origin}\"}}"),
            format!("{{\"type\":\"output\",\"ref\":\"{}\",\"spendable\":false}}", foreign(9)),
        ];
        assert_eq!(out.lines().collect::<Vec<_>>(), expected);
        let thaw = format!("{{\"type\":\"output\",\"ref\":\"{coin}\",\"spendable\":true}}");
        l.room.import_labels(l.wallet, &thaw, Micros(8)).unwrap();
        assert!(!l.room.coin(l.wallet, coin, Micros(l.now.get())).unwrap().is_frozen);
    });
}

#[test]
fn the_label_of_an_address_shows_in_the_list_of_addresses() {
    on_both(|l| {
        let listed = || l.room.addresses(l.wallet, 0, 2).unwrap();
        let name = show_script(&listed()[1].script, bitcoin::Network::Regtest);
        let label = Label { kind: "addr".into(), reference: name, label: "shop".into() };
        l.room.set_label(l.wallet, &label).unwrap();
        let labels: Vec<_> = listed().into_iter().map(|info| info.label).collect();
        assert_eq!(labels, [None, Some("shop".into())]);
        let own = l.room.own_address(l.wallet, &listed()[1].script).unwrap().unwrap();
        assert_eq!(own.info.label.as_deref(), Some("shop"));
    });
}
