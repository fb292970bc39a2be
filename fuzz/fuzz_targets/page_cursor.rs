//! Page cursors: what is accepted shows itself as the same text, up to the case of letters.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unspent_chain::PageCursor;

fuzz_target!(|text: &str| {
    if let Ok(cursor) = text.parse::<PageCursor>() {
        assert_eq!(cursor.to_string(), text.to_ascii_lowercase());
    }
});
