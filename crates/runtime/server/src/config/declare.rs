//! How a section of the configuration is declared: each key once, with its comment, its default or
//! an example, and whether a command takes it as a flag. The defaults, the commented template, the
//! variables, the flags and the errors about unknown keys all come from that.
//!
//! ```text
//! section! {
//!     /// What the section is about
//!     pub struct LogSection in "log" {
//!         /// What the key means
//!         level: String = "info".into(), flag value "LEVEL";       // level = "info", --level
//!         /// Absent by default
//!         file: Option<PathBuf>, example "\"a\"", was "--to";      // #file = "a"
//!         /// One of two that exclude each other
//!         socket: Option<PathBuf>, example "\"b\"", rival "file";
//!     }
//! }
//! ```

use std::fmt::Write as _;

use serde::{Serialize, de::DeserializeOwned};

/// Variables of the environment begin with this.
pub(super) const PREFIX: &str = "UNSPENT_";

/// A section of the configuration.
pub trait Section: DeserializeOwned + Default {
    /// Its heading: `log`, or `utxo.index` for one inside another.
    const NAME: &'static str;

    /// Its keys, those of the sections inside it too.
    fn keys() -> Vec<DeclaredKey>;

    /// The section with comments and defaults, as `unspent config init` writes it.
    fn template() -> String;
}

/// How a flag takes its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlagKind {
    /// One value, shown in the help under this name.
    Value(&'static str),
    /// `--flag`, `--flag=false`.
    Switch,
    /// A value each time that it is given.
    List(&'static str),
}

/// A key as it was declared.
#[derive(Clone, Debug)]
pub struct DeclaredKey {
    /// `utxo.index`; empty for a key that stands in no section.
    pub section: &'static str,
    /// Within its section.
    pub name: &'static str,
    /// Lines of the comment.
    pub about: &'static [&'static str],
    /// As TOML. `None` when what stands after it is an example of a key that is absent by default.
    pub default: Option<String>,
    /// As TOML, of a key that is absent by default.
    pub example: &'static str,
    /// How a command takes it, if one does.
    pub flag: Option<FlagKind>,
    /// Variables and flags that meant it once; they are still read, with a warning.
    pub was: &'static [&'static str],
    /// A key of the same section that it takes the place of: where one of the two counts more (a
    /// flag more than the file, say), it counts alone.
    pub rival: Option<&'static str>,
}

impl DeclaredKey {
    /// `utxo.index.address_hash`
    pub fn path(&self) -> String {
        self.beside(self.name)
    }

    /// The path of the key that it takes the place of.
    pub fn rival_path(&self) -> Option<String> {
        self.rival.map(|rival| self.beside(rival))
    }

    fn beside(&self, name: &str) -> String {
        if self.section.is_empty() { name.to_owned() } else { format!("{}.{name}", self.section) }
    }

    /// `UNSPENT_UTXO__INDEX__ADDRESS_HASH`
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.path().to_uppercase().replace('.', "__"))
    }

    /// `index-address-hash`: a room's commands need not name the room's section.
    pub fn flag_name(&self) -> String {
        let inner = self.section.split_once('.').map(|(_, inner)| format!("{inner}."));
        let inner = inner.unwrap_or_default();
        format!("{inner}{}", self.name).replace(['.', '_'], "-")
    }

    /// Variables that meant it once.
    pub fn old_variables(&self) -> impl Iterator<Item = &'static str> {
        self.was.iter().copied().filter(|name| name.starts_with(PREFIX))
    }

    /// Without their dashes.
    pub fn old_flags(&self) -> impl Iterator<Item = &'static str> {
        self.was.iter().filter_map(|name| name.strip_prefix("--"))
    }

    /// Its value is text, whatever the text looks like.
    pub fn is_text(&self) -> bool {
        self.shown().starts_with('"')
    }

    /// Its value is a path, or an SQLite database by its path.
    pub(super) fn is_path(&self) -> bool {
        let is_file = ["\"/", "\"./", "\"sqlite:/"].iter().any(|way| self.shown().starts_with(way));
        is_file || self.name == "genesis"
    }

    pub(super) fn is_switch(&self) -> bool {
        ["true", "false"].contains(&self.shown())
    }

    /// Its value is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.flag, Some(FlagKind::List(_))) || self.shown().starts_with('[')
    }

    fn shown(&self) -> &str {
        self.default.as_deref().unwrap_or(self.example)
    }
}

/// A default as TOML writes it.
pub fn toml_text(value: &impl Serialize) -> Option<String> {
    toml::Value::try_from(value).ok().map(|value| value.to_string())
}

/// Writes a section: its comment, its heading, its keys.
pub fn section_text(name: &str, about: &[&str], keys: &[DeclaredKey]) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let comment = |text: &mut String, lines: &[&str]| {
        lines.iter().for_each(|line| {
            let _ = writeln!(text, "#{line}");
        });
    };
    comment(&mut text, about);
    let _ = writeln!(text, "[{name}]");
    for key in keys {
        comment(&mut text, key.about);
        let _ = match &key.default {
            Some(value) => writeln!(text, "{} = {value}", key.name),
            None => writeln!(text, "#{} = {}", key.name, key.example),
        };
    }
    text
}

/// Declares a section of the configuration.
#[macro_export]
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        $vis:vis struct $section:ident in $name:literal {
            $(
                $(#[doc = $doc:literal])*
                $key:ident: $type:ty $(= $default:expr)? $(, example $example:literal)?
                    $(, flag $kind:ident $($value:literal)?)?
                    $(, was $($was:literal)+)?
                    $(, rival $rival:literal)?;
            )*
        }
        $(with {
            $($inner:ident: $inner_type:ty,)*
        })?
    ) => {
        $(#[doc = $about])*
        // A key's comment is for those who configure; some stand under one comment together.
        #[allow(missing_docs)]
        #[derive(Clone, Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        $vis struct $section {
            $(
                $(#[doc = $doc])*
                $vis $key: $type,
            )*
            $($($vis $inner: $inner_type,)*)?
        }

        impl Default for $section {
            fn default() -> Self {
                Self {
                    $($key: $crate::default_of!($($default)?),)*
                    $($($inner: Default::default(),)*)?
                }
            }
        }

        impl $section {
            fn own_keys() -> Vec<$crate::config::DeclaredKey> {
                let defaults = Self::default();
                vec![$($crate::config::DeclaredKey {
                    section: $name,
                    name: stringify!($key),
                    about: &[$($doc),*],
                    default: $crate::shown_default!(defaults.$key $(, $example)?),
                    example: concat!($($example)?),
                    flag: $crate::flag_kind!($($kind $($value)?)?),
                    was: &[$($($was),+)?],
                    rival: $crate::rival_of!($($rival)?),
                }),*]
            }
        }

        impl $crate::config::Section for $section {
            const NAME: &'static str = $name;

            fn keys() -> Vec<$crate::config::DeclaredKey> {
                let parts = [
                    Self::own_keys(),
                    $($(<$inner_type as $crate::config::Section>::keys(),)*)?
                ];
                parts.into_iter().flatten().collect()
            }

            fn template() -> String {
                let parts = [
                    $crate::config::section_text($name, &[$($about),*], &Self::own_keys()),
                    $($(<$inner_type as $crate::config::Section>::template(),)*)?
                ];
                parts.join("\n")
            }
        }
    };
}

/// The value given, or the type's own default.
#[doc(hidden)]
#[macro_export]
macro_rules! default_of {
    () => {
        Default::default()
    };
    ($value:expr) => {
        $value
    };
}

/// The default as TOML; a key with an example has none to show.
#[doc(hidden)]
#[macro_export]
macro_rules! shown_default {
    ($value:expr) => {
        $crate::config::toml_text(&$value)
    };
    ($value:expr, $example:literal) => {{
        let _ = &$value;
        None
    }};
}

/// Whether a command takes the key, and how.
#[doc(hidden)]
#[macro_export]
macro_rules! flag_kind {
    () => {
        None
    };
    (switch) => {
        Some($crate::config::FlagKind::Switch)
    };
    (value $name:literal) => {
        Some($crate::config::FlagKind::Value($name))
    };
    (list $name:literal) => {
        Some($crate::config::FlagKind::List($name))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! rival_of {
    () => {
        None
    };
    ($rival:literal) => {
        Some($rival)
    };
}
