//! Invoices, tokens and addresses as QR codes: for a terminal, and as a path that a page draws.

use qrcode::{Color, QrCode, render::unicode::Dense1x2};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::CliError;

/// Light modules around a code, which readers need.
const MARGIN: usize = 4;

/// A QR code to be drawn.
#[derive(Serialize, ToSchema)]
pub struct QrJson {
    /// Modules along each side, margin included
    size: usize,
    /// The dark modules as a path of SVG, a unit square each
    path: String,
}

/// For a terminal.
pub fn drawn(text: &str) -> Result<String, CliError> {
    let code = QrCode::new(text.as_bytes());
    let code = code.map_err(|_| CliError::input("it is too long for a QR code"))?;
    Ok(code.render::<Dense1x2>().quiet_zone(true).build())
}

/// For a page; `None` for what is too long.
pub fn path(text: &str) -> Option<QrJson> {
    let code = QrCode::new(text.as_bytes()).ok()?;
    let width = code.width();
    let colors = code.to_colors();
    let dark = colors.iter().enumerate().filter(|(_, color)| **color == Color::Dark);
    let squares = dark.map(|(at, _)| {
        let (x, y) = (at % width + MARGIN, at / width + MARGIN);
        format!("M{x} {y}h1v1h-1z")
    });
    Some(QrJson { size: width + 2 * MARGIN, path: squares.collect() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_corners_and_too_much_is_no_code() {
        let code = path("lnbc1").unwrap();
        assert_eq!(code.size, 21 + 2 * MARGIN);
        for corner in ["M4 4h", "M24 4h", "M4 24h"] {
            assert!(code.path.contains(corner), "{corner}");
        }
        assert!(path(&"x".repeat(3_000)).is_none());
        assert!(drawn(&"x".repeat(3_000)).is_err());
    }
}
