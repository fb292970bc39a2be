//! A file of the dashboard, and the tables that list them: one for what all rooms share, one in
//! each room's folder, so that a room's files can go wherever the room goes.

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const SCRIPT: &str = "text/javascript; charset=utf-8";
pub(super) const STYLE: &str = "text/css; charset=utf-8";
pub(super) const PICTURE: &str = "image/svg+xml";

/// A file: its name under `/assets/`, its type, and what it holds.
pub(super) type Asset = (&'static str, &'static str, &'static str);

/// A table of scripts that stand in the folder of the file that lists them, which is served as
/// `/assets/PREFIX…`.
macro_rules! scripts {
    ($prefix:literal: $($name:literal),+ $(,)?) => {
        &[$((concat!($prefix, $name), $crate::web::asset::SCRIPT, include_str!($name))),+]
    };
}
pub(super) use scripts;
