//! The wallets that take part in a demonstration: watch-only, from keys that everybody knows.

use bitcoin::{
    bip32::{self, DerivationPath, Xpriv, Xpub},
    secp256k1::Secp256k1,
};
use unspent_engine::{Engine, clock};
use unspent_wallet::{NewAccount, NewWallet};

use super::ScenarioError;
use crate::open_wallets::wallets;

/// Their names; the first letter is the seed of the keys.
pub const WALLETS: [&str; 2] = ["alice", "bob"];

const GAP_LIMIT: u32 = 20;

/// Makes them.
///
/// # Errors
///
/// [`ScenarioError`]; those before the one that failed are there.
pub fn create_wallets(engine: &Engine) -> Result<(), ScenarioError> {
    let room = wallets(engine).ok_or(ScenarioError::Off)?;
    for name in WALLETS {
        let receive = descriptor(name)?;
        let account = NewAccount { name: "main".into(), receive, change: None };
        let new = NewWallet {
            name: name.into(),
            accounts: vec![account],
            birthday: 0,
            gap_limit: GAP_LIMIT,
        };
        room.create_wallet(&new, clock::now())?;
    }
    Ok(())
}

/// A descriptor with receive and change chains.
fn descriptor(name: &str) -> Result<String, bip32::Error> {
    let secp = Secp256k1::new();
    let seed = [name.bytes().next().unwrap_or_default(); 32];
    let master = Xpriv::new_master(bitcoin::Network::Regtest, &seed)?;
    let path: DerivationPath = "m/84h/1h/0h".parse()?;
    let public = Xpub::from_priv(&secp, &master.derive_priv(&secp, &path)?);
    Ok(format!("wpkh([{}/84h/1h/0h]{public}/<0;1>/*)", master.fingerprint(&secp)))
}
