//! What an invoice says, against what a mint or a wallet says of it.

use cashu::{Bolt11Invoice, CurrencyUnit};

use super::EcashWorkError;

/// Unless told otherwise a payment's fee reserve may be a share of the amount: one part of so many.
/// Mints reserve 1 % (Nutshell) to 4 % (cdk-mintd before Core Lightning) by their own defaults.
pub const FEE_SHARE: u64 = 20;
/// It may be so much however small the amount is, in satoshis: a mint's least reserve is 2 to 4.
pub const FEE_FLOOR: u64 = 10;
const MSAT_PER_SAT: u64 = 1_000;

fn wrong<T>(what: String) -> Result<T, EcashWorkError> {
    Err(EcashWorkError::Wrong(what))
}

/// Reads an invoice.
pub(super) fn read(invoice: &str) -> Result<Bolt11Invoice, EcashWorkError> {
    let read = invoice.trim().parse();
    read.map_err(|_| EcashWorkError::Wrong("this is no invoice".into()))
}

/// An amount of a unit in thousandths of a satoshi; `None` for a unit whose rate only its mint
/// knows.
fn millisatoshis(amount: u64, unit: &CurrencyUnit) -> Option<u128> {
    let amount = u128::from(amount);
    let in_sat = (*unit == CurrencyUnit::Sat).then_some(amount * u128::from(MSAT_PER_SAT));
    in_sat.or_else(|| (*unit == CurrencyUnit::Msat).then_some(amount))
}

/// An invoice's amount, for people.
fn shown(millisatoshis: u64) -> String {
    if millisatoshis.is_multiple_of(MSAT_PER_SAT) {
        format!("{} sat", millisatoshis / MSAT_PER_SAT)
    } else {
        format!("{millisatoshis} msat")
    }
}

/// Refuses an invoice of a mint that is over something else than was asked for: whoever pays it
/// would pay for another sum than is issued.
pub(super) fn refuse_other_amount(
    invoice: &str,
    amount: u64,
    unit: &CurrencyUnit,
) -> Result<(), EcashWorkError> {
    let Ok(parsed) = read(invoice) else {
        return wrong("the mint's invoice can't be read".into());
    };
    let Some(asked) = millisatoshis(amount, unit) else { return Ok(()) };
    match parsed.amount_milli_satoshis() {
        Some(named) if u128::from(named) == asked => Ok(()),
        Some(named) => {
            let named = shown(named);
            wrong(format!(
                "the mint's invoice is over {named} where {amount} {unit} were asked for"
            ))
        }
        None => wrong("the mint's invoice names no amount".into()),
    }
}

/// Refuses to pay another amount than the invoice names.
pub(super) fn refuse_other_price(
    invoice: &Bolt11Invoice,
    amount: u64,
    unit: &CurrencyUnit,
) -> Result<(), EcashWorkError> {
    let Some(named) = invoice.amount_milli_satoshis() else {
        return wrong("the invoice names no amount".into());
    };
    let Some(priced) = millisatoshis(amount, unit) else { return Ok(()) };
    // Mints round to whole satoshis, up or down.
    if u128::from(named).abs_diff(priced) < u128::from(MSAT_PER_SAT) {
        return Ok(());
    }
    let named = shown(named);
    wrong(format!("the mint asks for {amount} {unit} to pay an invoice over {named}"))
}

/// The most that may be reserved for fees: what was said, or a share of the amount.
pub(super) fn fee_limit(said: Option<u64>, amount: u64, unit: &CurrencyUnit) -> u64 {
    let floor = if *unit == CurrencyUnit::Msat { FEE_FLOOR * MSAT_PER_SAT } else { FEE_FLOOR };
    said.unwrap_or_else(|| (amount / FEE_SHARE).max(floor))
}

/// Refuses a fee beyond the limit.
pub(super) fn refuse_dear(
    fee: u64,
    said: Option<u64>,
    amount: u64,
    unit: &CurrencyUnit,
) -> Result<(), EcashWorkError> {
    let limit = fee_limit(said, amount, unit);
    if fee <= limit {
        return Ok(());
    }
    wrong(format!(
        "up to {fee} {unit} would be paid in fees, and the limit is {limit} {unit} (`max_fee` or \
        `--max-fee` sets another)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over 50 sat.
    const INVOICE: &str = "lnbc500n1pj48ugq9qypqqqdqqxqrrsssp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3z\
        yg3zyg3zyg3zygspp5v68ynuj55vnds5za5u8elvke5awxtfymrej8dksf3dq4q24w6xaq0h68tqays6um78y8j2u\
        03mtazljssu4pzq0a3ua6h80fezwy02ljxs0zzy27g2e8g8rasw689jdwhs2x5cefarpx546tem3jtketj7cqpeme\
        s5";
    /// Over nothing.
    const OPEN: &str = "lnbc1pj48ugq9qypqqqdqqxqrrsssp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3\
        zyg3zygspp5v68ynuj55vnds5za5u8elvke5awxtfymrej8dksf3dq4q24w6xaq0ytf72nkchw68d90ap8qw8yvw4\
        waztemtj5nzql8j77ygl9l9jq4nst9lmuafke6r69azwe67h94l753v37xk0uqa8nr5tn3erslu5sp9aczsg";

    #[test]
    fn an_invoice_of_a_mint_is_over_what_was_asked_for() {
        let is_fit =
            |amount, unit| refuse_other_amount(INVOICE, amount, &unit).map_err(|e| e.to_string());
        assert_eq!(is_fit(50, CurrencyUnit::Sat), Ok(()));
        assert_eq!(is_fit(50_000, CurrencyUnit::Msat), Ok(()));
        // Only the mint knows what a cent is worth.
        assert_eq!(is_fit(3, CurrencyUnit::Usd), Ok(()));
        let error = is_fit(5_000, CurrencyUnit::Sat).unwrap_err();
        assert!(error.contains("over 50 sat where 5000 sat"), "{error}");
        assert!(refuse_other_amount(OPEN, 50, &CurrencyUnit::Sat).is_err());
        assert!(refuse_other_amount("lnbc1", 50, &CurrencyUnit::Sat).is_err());
    }

    #[test]
    fn a_price_is_the_invoices_but_for_rounding() {
        let invoice = read(INVOICE).unwrap();
        let is_fit = |amount, unit| refuse_other_price(&invoice, amount, &unit).is_ok();
        assert!(is_fit(50, CurrencyUnit::Sat) && !is_fit(51, CurrencyUnit::Sat));
        assert!(!is_fit(49, CurrencyUnit::Sat) && !is_fit(300, CurrencyUnit::Sat));
        assert!(is_fit(50_001, CurrencyUnit::Msat) && is_fit(7, CurrencyUnit::Usd));
        let open = read(OPEN).unwrap();
        assert!(refuse_other_price(&open, 1, &CurrencyUnit::Usd).is_err());
    }

    #[test]
    fn the_limit_of_fees_is_a_share_with_a_floor_or_what_was_said() {
        let limit = |said, amount| fee_limit(said, amount, &CurrencyUnit::Sat);
        assert_eq!((limit(None, 1), limit(None, 200), limit(None, 201)), (10, 10, 10));
        assert_eq!((limit(None, 1_000), limit(Some(0), 1_000)), (50, 0));
        assert_eq!(fee_limit(None, 1, &CurrencyUnit::Msat), 10_000);
        let refused = refuse_dear(51, None, 1_000, &CurrencyUnit::Sat).unwrap_err().to_string();
        assert!(refused.contains("51 sat") && refused.contains("50 sat"), "{refused}");
        assert!(refuse_dear(51, Some(51), 1_000, &CurrencyUnit::Sat).is_ok());
    }
}
