//! The wallet room's part of the dashboard.

use unspent_server::{asset::Asset, scripts};

/// Its files; `index.js` exports the one value that plugs them in.
pub(super) const ASSETS: &[Asset] = scripts! { "rooms/wallet/" in "../../web/":
    "acts.js",
    "api.js",
    "balance.js",
    "coin.js",
    "events.js",
    "index.js",
    "pages/mempool.js",
    "pages/wallet.js",
    "pages/wallets.js",
    "panels.js",
    "transaction.js",
};
