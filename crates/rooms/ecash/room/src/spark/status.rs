//! What the words of Spark's servers mean for money.
//!
//! | of a payment | means |
//! |---|---|
//! | TRANSFER_COMPLETED, with a preimage | paid |
//! | USER_SWAP_RETURNED | failed, and the money is back |
//! | anything else | still open |
//!
//! | of an invoice | means |
//! |---|---|
//! | TRANSFER_COMPLETED, with transfer and preimage | paid |
//! | anything else | not paid yet |
//!
//! A word that says that something failed isn't the end of a payment: the money comes back by a
//! transfer of its own, and only then may it be spent again. A word that is new here isn't either.

/// Where a payment stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendStanding {
    /// Still open.
    Open,
    /// Paid, with its proof.
    Paid {
        /// In hex.
        preimage: String,
    },
    /// It failed, and the money is back.
    Returned,
}

/// Where an invoice stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReceiveStanding {
    /// Not paid yet.
    Open,
    /// Paid.
    Paid {
        /// The transfer that brought the money.
        transfer_id: String,
        /// In hex.
        preimage: String,
    },
}

const COMPLETED: &str = "TRANSFER_COMPLETED";
const RETURNED: &str = "USER_SWAP_RETURNED";

/// What the status of a payment means.
pub fn of_send(status: &str, preimage: Option<&str>) -> SendStanding {
    match (status, preimage.filter(|preimage| !preimage.is_empty())) {
        (COMPLETED, Some(preimage)) => SendStanding::Paid { preimage: preimage.to_owned() },
        (RETURNED, _) => SendStanding::Returned,
        _ => SendStanding::Open,
    }
}

/// What the status of an invoice means.
pub fn of_receive(
    status: &str,
    transfer_id: Option<&str>,
    preimage: Option<&str>,
) -> ReceiveStanding {
    let there = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    match (status, there(transfer_id), there(preimage)) {
        (COMPLETED, Some(transfer_id), Some(preimage)) => {
            ReceiveStanding::Paid { transfer_id, preimage }
        }
        _ => ReceiveStanding::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_words_end_a_payment() {
        let paid = SendStanding::Paid { preimage: "ab".into() };
        assert_eq!(of_send("TRANSFER_COMPLETED", Some("ab")), paid);
        assert_eq!(of_send("USER_SWAP_RETURNED", None), SendStanding::Returned);
        let open = [
            "CREATED",
            "REQUEST_VALIDATED",
            "LIGHTNING_PAYMENT_INITIATED",
            "LIGHTNING_PAYMENT_FAILED",
            "LIGHTNING_PAYMENT_SUCCEEDED",
            "PREIMAGE_PROVIDED",
            "PENDING_USER_SWAP_RETURN",
            "TRANSFER_FAILED",
            "USER_SWAP_RETURN_FAILED",
            "",
            "A_WORD_OF_NEXT_YEAR",
        ];
        for status in open {
            assert_eq!(of_send(status, Some("ab")), SendStanding::Open, "{status}");
        }
        // Completed, but without a proof: not yet.
        assert_eq!(of_send("TRANSFER_COMPLETED", None), SendStanding::Open);
        assert_eq!(of_send("TRANSFER_COMPLETED", Some("")), SendStanding::Open);
    }

    #[test]
    fn an_invoice_is_paid_with_transfer_and_preimage_alone() {
        let paid = ReceiveStanding::Paid { transfer_id: "t".into(), preimage: "ab".into() };
        assert_eq!(of_receive("TRANSFER_COMPLETED", Some("t"), Some("ab")), paid);
        for (status, transfer, preimage) in [
            ("INVOICE_CREATED", Some("t"), Some("ab")),
            ("HTLC_FAILED", Some("t"), Some("ab")),
            ("TRANSFER_COMPLETED", None, Some("ab")),
            ("TRANSFER_COMPLETED", Some("t"), Some("")),
        ] {
            assert_eq!(of_receive(status, transfer, preimage), ReceiveStanding::Open, "{status}");
        }
    }
}
