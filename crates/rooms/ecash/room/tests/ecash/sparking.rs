//! The eight questions to a Spark wallet, asked of a scripted one in another process.

use std::sync::Arc;

use unspent_ecash_room::{
    spark::{
        ReceiveStanding, SendStanding, SparkBackend, SparkFault, SparkPayment, SparkRemote,
        SparkSearch,
    },
    work::payments::RequestKey,
};
use unspent_model::ecash::EntityState;
use unspent_testkit::ecash::{Fault, FaultProxy, ScriptedSpark, spark};

use crate::wallet::{Setup, Wallet};

/// The other process.
#[test]
fn the_scripted_wallet() {
    spark::serve_if_asked();
}

pub const WORKER: &str = "sparking::the_scripted_wallet";

#[test]
fn a_key_pays_once_however_often_it_is_asked_for() {
    let mut wallet = ScriptedSpark::start(WORKER);
    let proxy = FaultProxy::start(&wallet.url());
    let spark = SparkRemote::new(&proxy.url());
    let before = spark.info().unwrap().balance;
    let bill = spark.create_invoice(1_000, Some("tea"), None).unwrap();
    let estimate = spark.quote_send(&bill.invoice, None).unwrap();
    assert_eq!(estimate.amount, 1_000);
    let payment = SparkPayment {
        key: "ours".into(),
        invoice: bill.invoice.clone(),
        amount: None,
        max_fee: estimate.fee,
    };
    assert_eq!(spark.find_send(&SparkSearch::Key("ours".into())), Ok(None));
    proxy.script("/send", [Fault::DropAnswer]);
    assert!(matches!(spark.send(&payment), Err(SparkFault::Unknown(_))));
    wallet.kill();
    assert!(matches!(spark.send(&payment), Err(SparkFault::Unknown(_))));
    wallet.start_again();
    let found = spark.find_send(&SparkSearch::PaymentHash(bill.payment_hash)).unwrap().unwrap();
    assert_eq!(spark.send(&payment), Ok(found.clone()));
    assert_eq!(found.standing(), SendStanding::Open);
    assert_eq!(wallet.payments(), 1);
    assert_eq!(spark.info().unwrap().balance, before - 1_000 - estimate.fee);

    let other = SparkPayment { key: "another".into(), ..payment.clone() };
    assert_eq!(spark.send(&other), Err(SparkFault::AlreadyPaid));
    wallet.set_send("ours", "LIGHTNING_PAYMENT_FAILED", None);
    let status = || spark.send_status(&found.request_id).unwrap().unwrap().standing();
    assert_eq!(status(), SendStanding::Open);
    wallet.set_send("ours", "USER_SWAP_RETURNED", None);
    assert_eq!(status(), SendStanding::Returned);
    assert_eq!(spark.info().unwrap().balance, before);
    wallet.set_send("ours", "TRANSFER_COMPLETED", Some("ab"));
    assert_eq!(status(), SendStanding::Paid { preimage: "ab".into() });
    assert_eq!(spark.send_status("nobody"), Ok(None));
}

#[test]
fn refusals_are_told_apart_and_invoices_get_paid() {
    let wallet = ScriptedSpark::start(WORKER);
    let spark = SparkRemote::new(&wallet.url());
    let bill = spark.create_invoice(1_000_000, None, Some(60)).unwrap();
    let mut payment = SparkPayment {
        key: "ours".into(),
        invoice: bill.invoice.clone(),
        amount: None,
        max_fee: 0,
    };
    assert_eq!(spark.send(&payment), Err(SparkFault::FeeTooHigh));
    payment.max_fee = 100;
    assert_eq!(spark.send(&payment), Err(SparkFault::InsufficientBalance));
    payment.invoice = "nonsense".into();
    assert!(matches!(spark.send(&payment), Err(SparkFault::Rejected(_))));
    assert_eq!(wallet.payments(), 0);

    let standing = || spark.receive_status(&bill.request_id).unwrap().unwrap().standing();
    assert_eq!(standing(), ReceiveStanding::Open);
    wallet.set_receive(&bill.request_id, "TRANSFER_COMPLETED");
    assert!(matches!(standing(), ReceiveStanding::Paid { .. }));
    assert_eq!(spark.receive_status("nobody"), Ok(None));
}

#[test]
fn a_payment_through_spark_survives_lost_answers_and_restarts_and_is_made_once() {
    let mut scripted = ScriptedSpark::start(WORKER);
    let proxy = FaultProxy::start(&scripted.url());
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let spark: Arc<dyn SparkBackend> = Arc::new(SparkRemote::new(&proxy.url()));
        Wallet::with(folder.path(), Setup { spark: Some(spark), ..Setup::default() })
    };
    let mut wallet = open();
    let account = wallet.executor.add_spark_account("spark").unwrap();
    let direct = SparkRemote::new(&scripted.url());
    let bill = direct.create_invoice(500, None, None).unwrap().invoice;
    let sent = wallet.executor.pay_by_spark(&account.id, &bill, &RequestKey::default()).unwrap();
    proxy.script("/send", [Fault::DropRequest, Fault::DropAnswer]);
    wallet.work_until(&sent.id, EntityState::Pending);
    assert_eq!(scripted.payments(), 1);
    // The money isn't back yet, whatever the word says.
    scripted.set_send(&sent.id, "LIGHTNING_PAYMENT_FAILED", None);
    drop(wallet);
    scripted.kill();
    scripted.start_again();
    let mut wallet = open();
    wallet.work_until(&sent.id, EntityState::Pending);
    scripted.set_send(&sent.id, "TRANSFER_COMPLETED", Some("ab"));
    wallet.work_until(&sent.id, EntityState::Completed);
    assert_eq!(scripted.payments(), 1);

    let other = direct.create_invoice(300, None, None).unwrap().invoice;
    let back = wallet.executor.pay_by_spark(&account.id, &other, &RequestKey::default()).unwrap();
    wallet.work_until(&back.id, EntityState::Pending);
    scripted.set_send(&back.id, "USER_SWAP_RETURNED", None);
    wallet.work_until(&back.id, EntityState::Failed);

    let due = wallet.executor.receive_by_spark(&account.id, 200, &RequestKey::default()).unwrap();
    wallet.work_until(&due.id, EntityState::Unpaid);
    let unspent_ecash::EntityDetails::SparkReceive(details) = &wallet.entity(&due.id).details
    else {
        panic!("it is an invoice of Spark");
    };
    scripted.set_receive(&details.request_id, "TRANSFER_COMPLETED");
    wallet.work_until(&due.id, EntityState::Paid);
}
