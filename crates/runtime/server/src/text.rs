//! Numbers, values and coins as people read them.

use unspent_model::{Network, Outpoint, network::Currency};

use crate::json::PointJson;

/// A number with its thousands set apart.
pub fn grouped(number: u128) -> String {
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

/// Base units in the network's own coin.
pub fn value(network: Network, base_units: u128) -> String {
    let Currency { ticker, decimals, .. } = network.currency();
    let unit = 10_u128.pow(decimals);
    let (whole, part) = (grouped(base_units / unit), base_units % unit);
    format!("{whole}.{part:0digits$} {ticker}", digits = decimals as usize)
}

/// A coin's name.
pub fn outpoint(network: Network, outpoint: &Outpoint) -> String {
    format!("{}:{}", network.show_hash(&outpoint.tx.0), outpoint.index)
}

/// A size on disk.
pub fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

/// A block.
pub fn point(point: &PointJson) -> String {
    format!("height {}, {}", grouped(u128::from(point.height)), point.block_hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(value(Network::Bitcoin, 123_456_789_012), "1,234.56789012 BTC");
        assert_eq!(value(Network::CardanoPreview, 5), "0.000005 ADA");
    }
}
