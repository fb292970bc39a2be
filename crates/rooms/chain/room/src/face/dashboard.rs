//! The chain room's part of the dashboard.

use unspent_server::{asset::Asset, scripts};

/// Its files; `index.js` exports the one value that plugs them in.
pub(super) const ASSETS: &[Asset] = scripts! { "rooms/chain/" in "../../web/":
    "api.js",
    "blocks.js",
    "coin.js",
    "events.js",
    "index.js",
    "pages/address.js",
    "pages/block.js",
    "pages/proof.js",
    "panels.js",
    "path.js",
    "search.js",
    "strip.js",
    "tip.js",
};
