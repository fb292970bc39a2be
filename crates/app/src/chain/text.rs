//! Numbers, amounts and coins as people read them.

use unspent_model::{Family, Network, Outpoint};

/// A number with its thousands set apart.
pub(crate) fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// An amount of base units in the network's own coin.
pub(crate) fn amount(network: Network, base_units: u128) -> String {
    let (digits, unit, coin) = match network.family() {
        Family::Bitcoin => (8, 100_000_000, "BTC"),
        Family::Cardano => (6, 1_000_000, "ADA"),
    };
    let (whole, part) = (grouped(base_units / unit), base_units % unit);
    format!("{whole}.{part:0digits$} {coin}")
}

/// A coin's name.
pub(crate) fn outpoint(network: Network, outpoint: &Outpoint) -> String {
    format!("{}#{}", network.show_hash(&outpoint.tx.0), outpoint.index)
}

/// A size on disk.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

/// A Unix time as people of any time zone read it.
pub(crate) fn time(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The civil date of a day since 1970, counting years from March so that leap days come last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(amount(Network::Bitcoin, 123_456_789_012), "1,234.56789012 BTC");
        assert_eq!(amount(Network::CardanoPreview, 5), "0.000005 ADA");
    }

    #[test]
    fn times_are_civil() {
        assert_eq!(time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(time(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(time(951_868_800), "2000-03-01 00:00:00 UTC");
        assert_eq!(time(1_231_006_505), "2009-01-03 18:15:05 UTC");
        assert_eq!(time(4_102_444_800), "2100-01-01 00:00:00 UTC");
    }
}
