//! networks
