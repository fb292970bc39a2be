//! The transaction store's part of the dashboard.

use crate::web::asset::{Asset, scripts};

/// Its files; `index.js` exports the one value that plugs them in.
pub(super) const ASSETS: &[Asset] = scripts! { "rooms/txstore/":
    "api.js",
    "events.js",
    "index.js",
    "panels.js",
};
