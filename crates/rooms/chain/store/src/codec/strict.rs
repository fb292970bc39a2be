//! A CBOR reader that accepts the one canonical form only.

use minicbor::{Decoder, decode};

use super::CodecError;

/// Reads canonical CBOR; every method fails on what our encoder would not have written.
pub(crate) struct StrictDecoder<'b> {
    inner: Decoder<'b>,
}

impl<'b> StrictDecoder<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { inner: Decoder::new(bytes) }
    }

    pub(crate) fn error(&self, what: &'static str) -> CodecError {
        CodecError::Malformed { what, at: self.inner.position() }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.inner.position()
    }

    /// Passes over one item, whatever it is.
    pub(crate) fn skip(&mut self) -> Result<(), CodecError> {
        self.inner.skip().map_err(|_| self.error("expected an item"))
    }

    /// An unsigned integer comes next.
    pub(crate) fn is_at_number(&self) -> bool {
        let next = self.inner.input().get(self.inner.position());
        next.is_some_and(|first| first >> 5 == 0)
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Result<(), CodecError> {
        let left_over = self.inner.position() != self.inner.input().len();
        if left_over { Err(self.error("trailing bytes")) } else { Ok(()) }
    }

    pub(crate) fn u64(&mut self) -> Result<u64, CodecError> {
        let start = self.inner.position();
        let number = self.inner.u64();
        let number = number.map_err(|_| self.error("expected an unsigned integer"))?;
        self.shortest(start, number, 0)?;
        Ok(number)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, CodecError> {
        u32::try_from(self.u64()?).map_err(|_| self.error("integer above 32 bits"))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'b [u8], CodecError> {
        let start = self.inner.position();
        let bytes = self.inner.bytes();
        let bytes = bytes.map_err(|_| self.error("expected a byte string"))?;
        self.shortest(start, bytes.len() as u64, bytes.len())?;
        Ok(bytes)
    }

    pub(crate) fn array_of<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let bytes = self.bytes()?;
        bytes.try_into().map_err(|_| self.error("byte string of the wrong length"))
    }

    pub(crate) fn text(&mut self) -> Result<&'b str, CodecError> {
        let start = self.inner.position();
        let text = self.inner.str().map_err(|_| self.error("expected a text string"))?;
        self.shortest(start, text.len() as u64, text.len())?;
        Ok(text)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, CodecError> {
        self.inner.bool().map_err(|_| self.error("expected a boolean"))
    }

    /// A flag that is written only when set.
    pub(crate) fn set_flag(&mut self) -> Result<bool, CodecError> {
        if self.bool()? { Ok(true) } else { Err(self.error("an unset flag must be left out")) }
    }

    pub(crate) fn array(&mut self) -> Result<u64, CodecError> {
        self.container(|inner| inner.array(), "expected an array of definite length")
    }

    pub(crate) fn map(&mut self) -> Result<u64, CodecError> {
        self.container(|inner| inner.map(), "expected a map of definite length")
    }

    /// A list of one item or none.
    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Option<T>, CodecError> {
        match self.array()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(self.error("expected one item or none")),
        }
    }

    /// Reads `count` items into a list. The list grows as bytes are really there, so that a forged
    /// count can't reserve memory.
    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Vec<T>, CodecError> {
        let count = self.array()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Reads a map with strictly ascending integer keys, handing each to `field`.
    pub(crate) fn fields(
        &mut self,
        mut field: impl FnMut(&mut Self, u64) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let mut last = None;
        for _ in 0..self.map()? {
            let key = self.u64()?;
            if last.is_some_and(|last| key <= last) {
                return Err(self.error("map keys must ascend"));
            }
            last = Some(key);
            field(self, key)?;
        }
        Ok(())
    }

    fn container(
        &mut self,
        read: impl FnOnce(&mut Decoder<'b>) -> Result<Option<u64>, decode::Error>,
        what: &'static str,
    ) -> Result<u64, CodecError> {
        let start = self.inner.position();
        let length = read(&mut self.inner).ok().flatten().ok_or_else(|| self.error(what))?;
        self.shortest(start, length, 0)?;
        Ok(length)
    }

    /// The head before `payload` bytes must be the shortest that can hold `number`.
    fn shortest(&self, start: usize, number: u64, payload: usize) -> Result<(), CodecError> {
        let head = match number {
            0..=23 => 1,
            24..=0xff => 2,
            0x100..=0xffff => 3,
            0x1_0000..=0xffff_ffff => 5,
            _ => 9,
        };
        let used = self.inner.position() - start - payload;
        if used == head { Ok(()) } else { Err(self.error("integer not in its shortest form")) }
    }
}
