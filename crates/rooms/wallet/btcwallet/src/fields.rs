//! Numbers and texts one after the other in a value.

use crate::ReadError;

/// What is left of a value.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    left: &'a [u8],
    /// What the value is, for whoever has to look at it.
    what: &'static str,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { left: bytes, what }
    }

    fn short(&self) -> ReadError {
        ReadError::damaged(format!("{} is cut short", self.what))
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let (taken, left) = self.left.split_at_checked(count).ok_or_else(|| self.short())?;
        self.left = left;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let short = self.short();
        self.bytes(N)?.try_into().map_err(|_| short)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ReadError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16_be(&mut self) -> Result<u16, ReadError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32_be(&mut self) -> Result<u32, ReadError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64_be(&mut self) -> Result<u64, ReadError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn u16_le(&mut self) -> Result<u16, ReadError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32_le(&mut self) -> Result<u32, ReadError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64_le(&mut self) -> Result<u64, ReadError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes after their length, as the address manager writes them.
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], ReadError> {
        let count = self.u32_le()?;
        // A length beyond all addresses is one that the value cannot have.
        self.bytes(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), ReadError> {
        if self.left.is_empty() {
            return Ok(());
        }
        Err(ReadError::damaged(format!("{} is too long", self.what)))
    }
}
