//! A file of the dashboard, and the tables that list them: the daemon's own, and one of each room.

/// The type of a page.
pub const HTML: &str = "text/html; charset=utf-8";
/// The type of a script.
pub const SCRIPT: &str = "text/javascript; charset=utf-8";
/// The type of a style sheet.
pub const STYLE: &str = "text/css; charset=utf-8";
/// The type of a picture.
pub const PICTURE: &str = "image/svg+xml";

/// A file: its name under `/assets/`, its type, and what it holds.
pub type Asset = (&'static str, &'static str, &'static str);

/// A table of scripts. They stand in a folder, written from the file that lists them, and are
/// served as `/assets/PREFIX…`.
#[macro_export]
macro_rules! scripts {
    ($prefix:literal in $folder:literal: $($name:literal),+ $(,)?) => {
        &[$((
            concat!($prefix, $name),
            $crate::asset::SCRIPT,
            include_str!(concat!($folder, $name)),
        )),+]
    };
}
