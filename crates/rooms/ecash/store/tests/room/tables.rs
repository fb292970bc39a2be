//! The tables say what the seed says, and the document says what the tables say.

use unspent_model::ecash::{
    BIRTHS, CounterUse, EntityKind as K, EntityState as S, EntityVariant as V, PaymentDirection,
    TransactionKind, TransactionState as T, page::machines_page, transaction_at_end,
};

#[test]
fn machines_page_is_what_the_tables_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../docs/machines.md");
    if std::env::var_os("UNSPENT_WRITE_DOCS").is_some() {
        std::fs::write(path, machines_page()).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap();
    assert!(stored == machines_page(), "docs/machines.md is old; set UNSPENT_WRITE_DOCS=1 once");
}

/// "Initial Transaction state by entity".
#[test]
fn transactions_begin_as_the_seed_says() {
    let begins = |kind: K, variant: V| {
        let birth = BIRTHS.iter().find(|birth| (birth.kind, birth.variant) == (kind, variant));
        birth.unwrap().transaction
    };
    assert_eq!(begins(K::CashuSendQuote, V::Plain), T::Pending);
    assert_eq!(begins(K::CashuSendSwap, V::Exact), T::Pending);
    assert_eq!(begins(K::CashuSendSwap, V::NeedsSwap), T::Pending);
    assert_eq!(begins(K::CashuReceiveQuote, V::Lightning), T::Draft);
    assert_eq!(begins(K::CashuReceiveQuote, V::CashuToken), T::Pending);
    assert_eq!(begins(K::CashuReceiveSwap, V::Plain), T::Pending);
    assert_eq!(begins(K::SparkSendQuote, V::Plain), T::Draft);
    assert_eq!(begins(K::SparkReceiveQuote, V::Lightning), T::Draft);
    assert_eq!(begins(K::SparkReceiveQuote, V::CashuToken), T::Pending);
    assert_eq!(BIRTHS.len(), 9);
}

/// "Transaction Type × Direction" and its linked entity.
#[test]
fn transactions_are_linked_as_the_seed_says() {
    use PaymentDirection::{Receive, Send};
    use TransactionKind::{CashuLightning, CashuToken, SparkLightning};
    for birth in BIRTHS {
        let expected = match (birth.kind, birth.variant) {
            (K::CashuSendSwap, _) => (CashuToken, Send),
            (K::CashuReceiveSwap, _) | (_, V::CashuToken) => (CashuToken, Receive),
            (K::CashuSendQuote, _) => (CashuLightning, Send),
            (K::CashuReceiveQuote, _) => (CashuLightning, Receive),
            (K::SparkSendQuote, _) => (SparkLightning, Send),
            (K::SparkReceiveQuote, _) => (SparkLightning, Receive),
        };
        assert_eq!((birth.transaction_kind, birth.direction), expected, "{birth:?}");
    }
}

/// "Terminal state mapping".
#[test]
fn ends_are_mapped_as_the_seed_says() {
    for (end, transaction) in [
        (S::Paid, T::Completed),
        (S::Completed, T::Completed),
        (S::Failed, T::Failed),
        (S::Expired, T::Failed),
        (S::Reversed, T::Reversed),
    ] {
        assert_eq!(transaction_at_end(end), Some(transaction));
    }
}

/// "Keyset Counters".
#[test]
fn counters_are_used_when_the_seed_says() {
    for birth in BIRTHS {
        let expected = match (birth.kind, birth.variant) {
            (K::CashuSendQuote, _) => CounterUse::AtCreationForChange,
            (K::CashuSendSwap, V::NeedsSwap) | (K::CashuReceiveSwap, _) => CounterUse::AtCreation,
            (K::CashuReceiveQuote, _) => CounterUse::WhenPaid,
            _ => CounterUse::Never,
        };
        assert_eq!(birth.counter, expected, "{birth:?}");
    }
}
