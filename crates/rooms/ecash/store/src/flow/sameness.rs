//! Whether an answer is about the quote that was asked about.
//!
//! A cache on the way, a mix-up at the mint or a lie may answer with another quote, and what that
//! one says would spend our proofs here for a payment that nobody made.

use super::{FlowAnswer, FlowContext, QuoteTerms};
use crate::details::{EntityDetails, SendQuoteDetails, TokenSource};

/// What a quote must be, as it is stored.
struct StoredTerms<'d> {
    id: &'d str,
    amount: Option<u64>,
    invoice: &'d str,
    unit: &'d str,
    /// In seconds since 1970: exactly, or of two quotes the sooner end.
    ends: Option<(i64, bool)>,
}

/// What in an answer isn't of the quote that it should be about; `None` where all fits.
pub(super) fn stranger(context: &FlowContext, answer: &FlowAnswer) -> Option<&'static str> {
    let (stored, said) = match answer {
        FlowAnswer::Melt(view) => (melt_terms(context)?, &view.terms),
        FlowAnswer::MintQuote(view) => (mint_terms(context)?, &view.terms),
        FlowAnswer::Signatures(_)
        | FlowAnswer::Restored(_)
        | FlowAnswer::States(_)
        | FlowAnswer::Spark(_)
        | FlowAnswer::Fault(_) => return None,
    };
    stored.differ(said)
}

fn melt_terms(context: &FlowContext) -> Option<StoredTerms<'_>> {
    match &context.open.entity.details {
        EntityDetails::SendQuote(quote) => Some(of_payment(context, quote)),
        EntityDetails::ReceiveQuote(receive) => {
            Some(of_source(context, receive.source.as_ref()?, &receive.invoice))
        }
        EntityDetails::SparkReceive(receive) => {
            Some(of_source(context, receive.source.as_ref()?, &receive.invoice))
        }
        EntityDetails::SendSwap(_)
        | EntityDetails::ReceiveSwap(_)
        | EntityDetails::SparkSend(_) => None,
    }
}

fn of_payment<'d>(context: &'d FlowContext, quote: &'d SendQuoteDetails) -> StoredTerms<'d> {
    StoredTerms {
        id: &quote.quote_id,
        amount: Some(quote.amount),
        invoice: &quote.invoice,
        unit: &context.environment.unit,
        ends: context.ends().map(|ends| (ends, true)),
    }
}

fn of_source<'d>(
    context: &'d FlowContext,
    source: &'d TokenSource,
    invoice: &'d str,
) -> StoredTerms<'d> {
    StoredTerms {
        id: &source.melt_quote_id,
        amount: source.melt_amount,
        invoice,
        unit: &context.environment.unit,
        ends: context.ends().map(|ends| (ends, false)),
    }
}

fn mint_terms(context: &FlowContext) -> Option<StoredTerms<'_>> {
    let EntityDetails::ReceiveQuote(quote) = &context.open.entity.details else { return None };
    Some(StoredTerms {
        id: &quote.quote_id,
        amount: Some(quote.amount),
        invoice: &quote.invoice,
        unit: &context.environment.unit,
        ends: context.ends().map(|ends| (ends, quote.source.is_none())),
    })
}

impl StoredTerms<'_> {
    fn differ(&self, said: &QuoteTerms) -> Option<&'static str> {
        let amounts = self.amount.zip(said.amount);
        let invoice = said.invoice.as_deref().map(str::trim);
        let is_unit = |unit: &String| unit.eq_ignore_ascii_case(self.unit);
        // Invoices are written in small or in capital letters.
        let is_invoice = |invoice: &str| invoice.eq_ignore_ascii_case(self.invoice.trim());
        let said_end = said.expiry.filter(|end| *end > 0).and_then(|end| i64::try_from(end).ok());
        let is_end = |((stored, is_exact), said): ((i64, bool), i64)| {
            if is_exact { said == stored } else { said >= stored }
        };
        [
            (said.id == self.id, "id"),
            (amounts.is_none_or(|(stored, said)| stored == said), "amount"),
            (said.unit.as_ref().is_none_or(is_unit), "unit"),
            (invoice.is_none_or(is_invoice), "invoice"),
            // The invoice names the payment already. A mint that once said another end, at the
            // beginning or later, would else hold our proofs for ever.
            (invoice.is_some() || self.ends.zip(said_end).is_none_or(is_end), "expiry"),
        ]
        .into_iter()
        .find_map(|(fits, what)| (!fits).then_some(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_term_that_is_said_has_to_be_the_stored_one() {
        let stored = StoredTerms {
            id: "q",
            amount: Some(5),
            invoice: "lnbc1abc",
            unit: "sat",
            ends: Some((70, true)),
        };
        let said = QuoteTerms {
            id: "q".into(),
            amount: Some(5),
            unit: Some("SAT".into()),
            invoice: Some("LNBC1ABC".into()),
            expiry: Some(70),
        };
        assert_eq!(stored.differ(&said), None);
        assert_eq!(stored.differ(&QuoteTerms::of("q")), None);
        assert_eq!(stored.differ(&QuoteTerms { expiry: Some(0), ..said.clone() }), None);
        let moved = QuoteTerms { expiry: Some(71), ..said.clone() };
        assert_eq!(stored.differ(&moved), None, "the invoice is the same");
        let lies = [
            (QuoteTerms { id: "p".into(), ..said.clone() }, "id"),
            (QuoteTerms { amount: Some(6), ..said.clone() }, "amount"),
            (QuoteTerms { unit: Some("msat".into()), ..said.clone() }, "unit"),
            (QuoteTerms { invoice: Some("lnbc1abd".into()), ..said.clone() }, "invoice"),
            (QuoteTerms { invoice: None, expiry: Some(71), ..said.clone() }, "expiry"),
        ];
        for (lie, what) in lies {
            assert_eq!(stored.differ(&lie), Some(what));
        }
        // Of two quotes the sooner end is stored.
        let (stored, said) = (
            StoredTerms { ends: Some((70, false)), ..stored },
            QuoteTerms { invoice: None, ..said },
        );
        assert_eq!(stored.differ(&QuoteTerms { expiry: Some(71), ..said.clone() }), None);
        assert_eq!(stored.differ(&QuoteTerms { expiry: Some(69), ..said }), Some("expiry"));
    }
}
