//! bbolt, the file below: a copy-on-write B+tree of pages, with buckets inside buckets.
//!
//! Two meta pages take turns; the one with the higher transaction and a right checksum names the
//! root. A page holds a header and a table of elements, each of which says how far from itself its
//! key and value lie. A bucket is a value that names the root page of another tree, or, when small,
//! holds that page itself. The list of free pages is of no interest to a reader, and is often not
//! there at all.
//!
//! The whole tree is read in one go, without copying keys or values. That makes the guards simple:
//! a page that was entered once isn't entered again, and there can't be more elements than fit
//! into the file, whatever overlaps.

use std::collections::HashSet;

use crate::{ReadError, fields::Fields};

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const HEADER: usize = 16;
const ELEMENT: usize = 16;
/// Bytes of a meta page that its checksum covers.
const META: usize = 56;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
/// Flag of an element whose value is a bucket.
const IS_BUCKET: u32 = 1;
/// Page sizes that a writer's system may have had.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 10..=24;
/// Branches above a leaf, at most; a tree of real data has four.
const MAX_HEIGHT: u32 = 64;
/// Buckets inside buckets, at most; a wallet has five.
const MAX_NESTING: u32 = 32;

/// A bucket: keys in order, each with a value or a bucket.
#[derive(Debug, Default)]
pub struct Bucket<'a> {
    entries: Vec<(&'a [u8], Item<'a>)>,
}

/// What stands under a key.
#[derive(Debug)]
pub enum Item<'a> {
    /// Bytes.
    Value(&'a [u8]),
    /// Another bucket.
    Bucket(Bucket<'a>),
}

impl<'a> Bucket<'a> {
    /// Its entries, in the order of their keys.
    pub fn entries(&self) -> impl Iterator<Item = (&'a [u8], &Item<'a>)> {
        self.entries.iter().map(|(key, item)| (*key, item))
    }

    /// Its plain values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.entries.iter().filter_map(|(key, item)| match item {
            Item::Value(value) => Some((*key, *value)),
            Item::Bucket(_) => None,
        })
    }

    fn get(&self, key: &[u8]) -> Option<&Item<'a>> {
        let at = self.entries.binary_search_by(|(known, _)| (*known).cmp(key)).ok()?;
        self.entries.get(at).map(|(_, item)| item)
    }

    /// The value under a key.
    pub fn value(&self, key: &[u8]) -> Option<&'a [u8]> {
        match self.get(key)? {
            Item::Value(value) => Some(value),
            Item::Bucket(_) => None,
        }
    }

    /// The bucket under a key.
    pub fn bucket(&self, key: &[u8]) -> Option<&Bucket<'a>> {
        match self.get(key)? {
            Item::Value(_) => None,
            Item::Bucket(bucket) => Some(bucket),
        }
    }
}

/// Reads the bytes of a whole file.
///
/// # Errors
///
/// [`ReadError::NotAWallet`] when it is no bbolt file, [`ReadError::Damaged`] when it was one.
pub fn read(bytes: &[u8]) -> Result<Bucket<'_>, ReadError> {
    let meta = best_meta(bytes)?;
    // A writer lengthens the file before any meta page speaks of the new pages.
    let needed = u128::from(meta.pages) * u128::from(meta.page_size);
    if needed > bytes.len() as u128 {
        let why = format!("it has only {} of {needed} bytes: it was cut short", bytes.len());
        return Err(ReadError::Damaged(why));
    }
    let most = bytes.len() / ELEMENT;
    let mut reader = Reader { bytes, meta, entered: HashSet::new(), left: most };
    reader.tree(meta.root, NestingDepth(0))
}

#[derive(Clone, Copy)]
struct Meta {
    page_size: u32,
    root: u64,
    /// Pages in use: the first number that was never given.
    pages: u64,
    transaction: u64,
}

/// The valid meta page of the later transaction.
fn best_meta(bytes: &[u8]) -> Result<Meta, ReadError> {
    let first = meta_at(bytes, 0);
    // The second lies one page further, and only a valid meta page says how large a page is.
    let sizes = PAGE_SIZES.map(|bits| 1_u32 << bits);
    let sizes = sizes.filter(|size| first.is_none_or(|meta| meta.page_size == *size));
    let second = sizes.filter_map(|size| {
        let at = usize::try_from(size).ok()?;
        meta_at(bytes, at).filter(|meta| meta.page_size == size)
    });
    let found = first.into_iter().chain(second).max_by_key(|meta| meta.transaction);
    found.ok_or_else(|| ReadError::NotAWallet("no valid bbolt meta page found".into()))
}

fn meta_at(bytes: &[u8], page: usize) -> Option<Meta> {
    let body = bytes.get(page.checked_add(HEADER)?..)?.get(..META + 8)?;
    let (covered, sum) = body.split_at_checked(META)?;
    // A crash within a commit tears one meta page; the other still names the commit before it.
    if fnv_1a(covered).to_le_bytes() != *sum {
        return None;
    }
    let mut fields = Fields::new(covered, "a meta page");
    let (magic, version) = (fields.u32_le().ok()?, fields.u32_le().ok()?);
    let (page_size, _flags) = (fields.u32_le().ok()?, fields.u32_le().ok()?);
    let (root, _sequence) = (fields.u64_le().ok()?, fields.u64_le().ok()?);
    let (_freelist, pages) = (fields.u64_le().ok()?, fields.u64_le().ok()?);
    let transaction = fields.u64_le().ok()?;
    let bits = page_size.checked_ilog2()?;
    let sound = magic == MAGIC
        && version == VERSION
        && page_size.is_power_of_two()
        && PAGE_SIZES.contains(&bits);
    sound.then_some(Meta { page_size, root, pages, transaction })
}

fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// Where bytes of an element lie.
struct ByteSpan {
    /// How far from the element.
    far: u32,
    /// How many.
    long: u32,
}

/// Buckets around a bucket.
#[derive(Clone, Copy)]
struct NestingDepth(u32);

struct Reader<'a> {
    bytes: &'a [u8],
    meta: Meta,
    /// Pages that belong to some bucket already.
    entered: HashSet<u64>,
    /// Elements that may still come.
    left: usize,
}

/// A page with its header taken off: its elements count from its start.
struct Page<'a> {
    bytes: &'a [u8],
    flags: u16,
    count: u16,
    name: String,
}

impl<'a> Page<'a> {
    fn damaged(&self, why: &str) -> ReadError {
        ReadError::Damaged(format!("{}: {why}", self.name))
    }

    /// Where the n-th element stands.
    fn element(&self, n: u16) -> Result<(usize, Fields<'a>), ReadError> {
        let start = HEADER + usize::from(n) * ELEMENT;
        let found = self.bytes.get(start..start + ELEMENT);
        let found = found.ok_or_else(|| self.damaged("its table is longer than the page"))?;
        Ok((start, Fields::new(found, "an element of a page")))
    }

    /// Bytes of an element.
    fn span(&self, start: usize, ByteSpan { far, long }: ByteSpan) -> Result<&'a [u8], ReadError> {
        let outside = || self.damaged("a key or value lies outside it");
        let (far, long) = (usize::try_from(far).ok(), usize::try_from(long).ok());
        let from = far.and_then(|far| start.checked_add(far)).ok_or_else(outside)?;
        let to = long.and_then(|long| from.checked_add(long)).ok_or_else(outside)?;
        self.bytes.get(from..to).ok_or_else(outside)
    }
}

impl<'a> Reader<'a> {
    /// The bucket whose root page has that number.
    fn tree(&mut self, root: u64, nesting: NestingDepth) -> Result<Bucket<'a>, ReadError> {
        let mut bucket = Bucket::default();
        self.page(root, MAX_HEIGHT, nesting, &mut bucket)?;
        Ok(bucket)
    }

    fn page(
        &mut self,
        number: u64,
        height: u32,
        nesting: NestingDepth,
        into: &mut Bucket<'a>,
    ) -> Result<(), ReadError> {
        let page = self.enter(number)?;
        if page.flags == LEAF {
            return self.leaf(&page, nesting, into);
        }
        if page.flags != BRANCH {
            return Err(page.damaged("it is neither branch nor leaf"));
        }
        let below = height.checked_sub(1).ok_or_else(|| page.damaged("the tree is too deep"))?;
        for n in 0..page.count {
            self.spend(&page)?;
            let (start, mut fields) = page.element(n)?;
            let (far, long, child) = (fields.u32_le()?, fields.u32_le()?, fields.u64_le()?);
            // Whoever reads everything needs no key of a branch;
            // one outside the page is damage all the same.
            page.span(start, ByteSpan { far, long })?;
            self.page(child, below, nesting, into)?;
        }
        Ok(())
    }

    /// A page by its number, which nobody may have entered before.
    fn enter(&mut self, number: u64) -> Result<Page<'a>, ReadError> {
        let wrong = |why: &str| ReadError::Damaged(format!("page {number}: {why}"));
        // The first two are meta pages.
        if number < 2 || number >= self.meta.pages {
            return Err(wrong("there is no such page"));
        }
        let size = u64::from(self.meta.page_size);
        let start = number.checked_mul(size).and_then(|start| usize::try_from(start).ok());
        let start = start.ok_or_else(|| wrong("it lies outside the file"))?;
        let rest = self.bytes.get(start..).ok_or_else(|| wrong("it lies outside the file"))?;
        let mut fields = Fields::new(rest, "a page");
        let (id, flags, count) = (fields.u64_le()?, fields.u16_le()?, fields.u16_le()?);
        let overflow = u64::from(fields.u32_le()?);
        if id != number {
            return Err(wrong("it carries the number of another page"));
        }
        if number + overflow >= self.meta.pages {
            return Err(wrong("it extends beyond the last page"));
        }
        for taken in number..=number + overflow {
            if !self.entered.insert(taken) {
                return Err(wrong("two places refer to it"));
            }
        }
        // A length that saturates lies outside the file.
        let long = usize::try_from((overflow + 1).saturating_mul(size)).unwrap_or(usize::MAX);
        let bytes = rest.get(..long).ok_or_else(|| wrong("it lies outside the file"))?;
        Ok(Page { bytes, flags, count, name: format!("page {number}") })
    }

    /// There can't be more elements than fit into the file.
    fn spend(&mut self, page: &Page<'_>) -> Result<(), ReadError> {
        let left = self.left.checked_sub(1);
        self.left = left.ok_or_else(|| page.damaged("more elements than the file can hold"))?;
        Ok(())
    }

    fn leaf(
        &mut self,
        page: &Page<'a>,
        nesting: NestingDepth,
        into: &mut Bucket<'a>,
    ) -> Result<(), ReadError> {
        for n in 0..page.count {
            self.spend(page)?;
            let (start, mut fields) = page.element(n)?;
            let (flags, far) = (fields.u32_le()?, fields.u32_le()?);
            let (key_size, value_size) = (fields.u32_le()?, fields.u32_le()?);
            let key = page.span(start, ByteSpan { far, long: key_size })?;
            let far = far.checked_add(key_size);
            let far = far.ok_or_else(|| page.damaged("a key or value lies outside it"))?;
            let value = page.span(start, ByteSpan { far, long: value_size })?;
            // Look-ups halve the entries: out of order, what is there would seem missing.
            if into.entries.last().is_some_and(|(last, _)| *last >= key) {
                return Err(page.damaged("its keys are out of order"));
            }
            let item = if flags & IS_BUCKET == 0 {
                Item::Value(value)
            } else {
                Item::Bucket(self.nested(page, value, nesting)?)
            };
            into.entries.push((key, item));
        }
        Ok(())
    }

    /// The bucket that a value stands for.
    fn nested(
        &mut self,
        page: &Page<'_>,
        value: &'a [u8],
        nesting: NestingDepth,
    ) -> Result<Bucket<'a>, ReadError> {
        let deeper = NestingDepth(nesting.0 + 1);
        if deeper.0 > MAX_NESTING {
            return Err(page.damaged("buckets are nested too deep"));
        }
        let mut fields = Fields::new(value, "a bucket");
        let (root, _sequence) = (fields.u64_le()?, fields.u64_le()?);
        if root != 0 {
            return self.tree(root, deeper);
        }
        let bytes = fields.rest();
        let mut header = Fields::new(bytes, "a small bucket");
        let (_id, flags, count) = (header.u64_le()?, header.u16_le()?, header.u16_le()?);
        header.u32_le()?;
        let inner = Page { bytes, flags, count, name: format!("{}, small bucket", page.name) };
        if flags != LEAF {
            return Err(inner.damaged("it is not a leaf"));
        }
        let mut bucket = Bucket::default();
        self.leaf(&inner, deeper, &mut bucket)?;
        Ok(bucket)
    }
}
