//! Which database is meant: `sqlite:PATH` or `postgres://…`.

use std::{fmt, path::PathBuf, str::FromStr};

/// The two databases we speak to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// Embedded, one file.
    Sqlite,
    /// A server.
    Postgres,
}

/// Where a room keeps its rows.
#[derive(Clone, PartialEq, Eq)]
pub enum Url {
    /// A file, created when absent.
    Sqlite(PathBuf),
    /// A connection string of libpq's URL form. It may hold a password, so it is never shown whole.
    Postgres(String),
}

/// The text names no database we know.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` names no database; write sqlite:PATH or postgres://USER@HOST/NAME")]
pub struct BadUrl(String);

impl Url {
    /// Which of the two it is.
    pub fn backend(&self) -> Backend {
        match self {
            Self::Sqlite(_) => Backend::Sqlite,
            Self::Postgres(_) => Backend::Postgres,
        }
    }
}

impl FromStr for Url {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        match text.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() && !path.contains('\0') => {
                Ok(Self::Sqlite(PathBuf::from(path)))
            }
            None if text.starts_with("postgres://") || text.starts_with("postgresql://") => {
                Ok(Self::Postgres(text.to_owned()))
            }
            Some(_) | None => Err(BadUrl(without_password(text))),
        }
    }
}

/// A URL whose passwords are covered, before the host and among its parameters; other text stays as
/// it is.
pub fn without_password(text: &str) -> String {
    let covered = || {
        let (scheme, rest) = text.split_once("://")?;
        // A password may hold an @ of its own, but a host can't.
        let (user, host) = rest.rsplit_once('@')?;
        let (name, _) = user.split_once(':')?;
        Some(format!("{scheme}://{name}:***@{host}"))
    };
    let url = covered().unwrap_or_else(|| text.to_owned());
    let mut parts = url.split("password=");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.find(['&', ' ']).map_or("", |end| part.split_at(end).1);
        shown.push_str("password=***");
        shown.push_str(rest);
    }
    shown
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(text) => f.write_str(&without_password(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_url_chooses_the_database() {
        assert_eq!("sqlite:/a b/c.db".parse(), Ok(Url::Sqlite("/a b/c.db".into())));
        let url: Url = "postgres://u@h/d".parse().unwrap();
        assert_eq!(url.backend(), Backend::Postgres);
        for bad in ["", "sqlite:", "mysql://x", "/just/a/path", "sqlite:a\0b"] {
            assert!(bad.parse::<Url>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url: Url = "postgres://u:hush@h/d".parse().unwrap();
        assert_eq!(url.to_string(), "postgres://u:***@h/d");
        for (text, shown) in [
            ("postgres://me:a@b:c@host/db", "postgres://me:***@host/db"),
            ("postgres://me@host/db", "postgres://me@host/db"),
            ("postgres://h/d?user=m&password=x&a=b", "postgres://h/d?user=m&password=***&a=b"),
        ] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), shown);
        }
        let bad = "mysql://u:hush@h/d".parse::<Url>().unwrap_err();
        assert!(!bad.to_string().contains("hush"));
    }
}
