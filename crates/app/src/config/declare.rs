//! How a section of the configuration is declared: each key once, with its comment and its default
//! or an example. The defaults, the commented template and the errors about unknown keys all come
//! from that.
//!
//! ```text
//! section! {
//!     /// What the section is about
//!     pub(crate) struct LogSection in "log" {
//!         /// What the key means
//!         level: String = "info".into();           // level = "info"
//!         /// Absent by default
//!         file: Option<PathBuf>, example "\"a\"";  // #file = "a"
//!     }
//! }
//! ```

use std::fmt::Write as _;

use serde::{Serialize, de::DeserializeOwned};

/// A section of the configuration.
pub(crate) trait Section: DeserializeOwned + Default {
    /// Its heading: `log`, or `utxo.index` for one inside another.
    const NAME: &'static str;

    /// The section with comments and defaults, as `unspent config init` writes it.
    fn template() -> String;
}

/// A key as the template shows it.
pub(crate) struct KeyText {
    pub(crate) name: &'static str,
    /// Lines of the comment.
    pub(crate) about: &'static [&'static str],
    /// `None` when what stands after it is an example of a key that is absent by default.
    pub(crate) default: Option<String>,
    pub(crate) example: &'static str,
}

/// A default as TOML writes it.
pub(crate) fn toml_text(value: &impl Serialize) -> Option<String> {
    toml::Value::try_from(value).ok().map(|value| value.to_string())
}

/// Writes a section: its comment, its heading, its keys.
pub(crate) fn section_text(name: &str, about: &[&str], keys: &[KeyText]) -> String {
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

macro_rules! section {
    (
        $(#[doc = $about:literal])*
        $vis:vis struct $section:ident in $name:literal {
            $(
                $(#[doc = $doc:literal])*
                $key:ident: $type:ty $(= $default:expr)? $(, example $example:literal)?;
            )*
        }
        $(with {
            $($inner:ident: $inner_type:ty,)*
        })?
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        $vis struct $section {
            $(
                $(#[doc = $doc])*
                pub(crate) $key: $type,
            )*
            $($(pub(crate) $inner: $inner_type,)*)?
        }

        impl Default for $section {
            fn default() -> Self {
                Self {
                    $($key: $crate::config::default_of!($($default)?),)*
                    $($($inner: Default::default(),)*)?
                }
            }
        }

        impl $crate::config::Section for $section {
            const NAME: &'static str = $name;

            fn template() -> String {
                let defaults = Self::default();
                let keys = [$($crate::config::KeyText {
                    name: stringify!($key),
                    about: &[$($doc),*],
                    default: $crate::config::shown_default!(defaults.$key $(, $example)?),
                    example: concat!($($example)?),
                }),*];
                let parts = [
                    $crate::config::section_text($name, &[$($about),*], &keys),
                    $($(<$inner_type as $crate::config::Section>::template(),)*)?
                ];
                parts.join("\n")
            }
        }
    };
}

/// The value given, or the type's own default.
macro_rules! default_of {
    () => {
        Default::default()
    };
    ($value:expr) => {
        $value
    };
}

/// The default as TOML; a key with an example has none to show.
macro_rules! shown_default {
    ($value:expr) => {
        $crate::config::toml_text(&$value)
    };
    ($value:expr, $example:literal) => {{
        let _ = &$value;
        None
    }};
}

pub(crate) use {default_of, section, shown_default};
