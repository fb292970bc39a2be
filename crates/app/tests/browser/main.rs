//! The dashboard in a real browser: every page is clicked through, a reorganisation is watched as
//! it happens, nothing complains, and no request leaves the host.
//!
//! Headless Chromium is driven over a pipe by the DevTools protocol (`chromium.rs`), so that no
//! other program is needed. Where Chromium is missing the tests say so and pass, unless
//! `UNSPENT_REQUIRE_PEERS=1`. Screenshots are kept in the target folder under `dashboard/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_docs
)]

mod acts;
mod away;
mod axe;
mod chromium;
mod daemon;
mod ecash;
mod page;
mod pages;
mod plugged;
mod reorganisation;
mod secure;
mod world;
