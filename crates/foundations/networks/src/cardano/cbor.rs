//! Small steps through CBOR that need no recursion.

use pallas_codec::minicbor::{
    Decoder,
    data::{IanaTag, Type},
    decode::Error as CborError,
};

/// Counts down the items left of an array or a map, or steps over the end of one that doesn't say
/// how many it has.
pub(super) fn has_more(d: &mut Decoder<'_>, left: &mut Option<u64>) -> Result<bool, CborError> {
    match left {
        Some(0) => Ok(false),
        Some(left) => {
            *left -= 1;
            Ok(true)
        }
        None if d.datatype()? == Type::Break => d.skip().map(|()| false),
        None => Ok(true),
    }
}

/// Steps over what is left of an array.
pub(super) fn skip_rest(d: &mut Decoder<'_>, mut left: Option<u64>) -> Result<(), CborError> {
    while has_more(d, &mut left)? {
        d.skip()?;
    }
    Ok(())
}

/// Starts an array of exactly `length` items; the answer goes to [`end`] after the last one.
pub(super) fn start(d: &mut Decoder<'_>, length: u64) -> Result<Option<u64>, CborError> {
    match d.array()? {
        Some(found) if found != length => Err(CborError::message("array has the wrong length")),
        Some(_) => Ok(Some(0)),
        None => Ok(None),
    }
}

/// Ends an array begun with [`start`].
pub(super) fn end(d: &mut Decoder<'_>, mut left: Option<u64>) -> Result<(), CborError> {
    match has_more(d, &mut left)? {
        false => Ok(()),
        true => Err(CborError::message("array has the wrong length")),
    }
}

/// The bytes of CBOR inside CBOR (tag 24): one item and nothing after it.
pub(super) fn wrapped<'b>(d: &mut Decoder<'b>) -> Result<&'b [u8], CborError> {
    if d.tag()? != IanaTag::Cbor.tag() {
        return Err(CborError::message("expected a byte string that holds CBOR"));
    }
    let bytes = d.bytes()?;
    let mut inner = Decoder::new(bytes);
    inner.skip()?;
    match inner.position() == bytes.len() {
        true => Ok(bytes),
        false => Err(CborError::message("trailing bytes after the item")),
    }
}
