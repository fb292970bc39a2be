//! What secondary indexes are called, and which of them a folder keeps.
//!
//! A page below all others: options, errors and the layout name indexes, and none of them should
//! need what an index does.

use std::fmt;

/// Bits of [`Indexes`]: more than there will be.
type IndexBits = u32;

/// Makes the enumeration and what its lines say.
macro_rules! index_names {
    ($($(#[$meta:meta])* $name:ident = ($switch:literal, $field:literal),)*) => {
        /// A secondary index: a list of coins by something else than their outpoint.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
        pub enum IndexName {
            $($(#[$meta])* $name,)*
        }

        #[allow(unused_doc_comments)]
        impl IndexName {
            /// All of them, in the order of their lines.
            pub const ALL: &'static [Self] = &[$($(#[$meta])* Self::$name,)*];

            /// Its switch in configurations, behind `index.`.
            pub const fn switch(self) -> &'static str {
                match self {
                    $($(#[$meta])* Self::$name => $switch,)*
                }
            }

            /// Its field in the layout of a folder.
            pub(crate) const fn layout_field(self) -> u64 {
                match self {
                    $($(#[$meta])* Self::$name => $field,)*
                }
            }
        }
    };
}

// Fields 2 and 3 of the layout are taken: the digest of genesis, and the MMR store.
index_names! {
    /// Coins by address; on Bitcoin by script.
    AddressHash = ("address_hash", 0),
    /// Coins by payment credential.
    PaymentCredential = ("payment_credential", 1),
    /// Coins by the policies of their assets: for tests.
    #[cfg(test)]
    Policy = ("policy", 4),
}

impl IndexName {
    /// Kept unless somebody says otherwise, and told by every layout: the two that the format came
    /// with. A later one is asked for, and folders that were made before it don't tell of it.
    pub const fn is_usual(self) -> bool {
        self.layout_field() < 2
    }

    /// The index with this field in the layout of a folder.
    pub(crate) fn of_field(field: u64) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.layout_field() == field)
    }

    fn bit(self) -> IndexBits {
        1 << self as IndexBits
    }
}

/// The secondary indexes that a folder keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Indexes(IndexBits);

impl Indexes {
    /// No index.
    pub const NONE: Self = Self(0);

    /// Those that are kept unless somebody says otherwise.
    pub fn usual() -> Self {
        let usual = IndexName::ALL.iter().filter(|name| name.is_usual());
        usual.fold(Self::NONE, |all, name| all.with(*name, true))
    }

    /// The same set with this index, or without it.
    #[must_use]
    pub fn with(self, name: IndexName, is_kept: bool) -> Self {
        Self(if is_kept { self.0 | name.bit() } else { self.0 & !name.bit() })
    }

    /// This index is kept.
    pub fn has(self, name: IndexName) -> bool {
        self.0 & name.bit() != 0
    }

    /// Those that are kept.
    pub fn names(self) -> impl Iterator<Item = IndexName> {
        IndexName::ALL.iter().copied().filter(move |name| self.has(*name))
    }

    /// Those that a layout tells of: all that the format came with, and what is kept besides.
    pub(crate) fn told(self) -> impl Iterator<Item = (IndexName, bool)> {
        let told = IndexName::ALL.iter().filter(move |name| name.is_usual() || self.has(**name));
        told.map(move |name| (*name, self.has(*name)))
    }
}

impl fmt::Debug for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl fmt::Display for Indexes {
    /// As switches: `index.address_hash=true and index.payment_credential=false`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, is_kept)) in self.told().enumerate() {
            let between = if at == 0 { "" } else { " and " };
            write!(f, "{between}index.{}={is_kept}", name.switch())?;
        }
        Ok(())
    }
}
