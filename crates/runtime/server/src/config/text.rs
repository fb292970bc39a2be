//! Text of a variable or a flag as a value of the configuration.

use toml::{Table, Value};

/// Text as TOML understands it; anything it doesn't is a plain string.
pub(super) fn scalar(text: &str) -> Value {
    let parsed = format!("v = {text}").parse::<Table>().ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("v"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// A list: an array as TOML writes it, texts with commas between them, or a flag given repeatedly.
pub(super) fn list(texts: &[&str]) -> Value {
    if let [text] = texts
        && let Value::Array(array) = scalar(text)
    {
        return Value::Array(array);
    }
    let parts = texts.iter().flat_map(|text| text.split(','));
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    Value::Array(parts.map(|part| Value::String(part.to_owned())).collect())
}
