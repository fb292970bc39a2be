//! Whether an address is a wallet's own, and which keys are behind it.

use bitcoin::Script;
use miniscript::ForEachKey as _;
use unspent_sql::Arg;

use crate::{
    descriptor::{Keychain, script_hash},
    error::WalletError,
    ids::WalletId,
    labels::label_addresses,
    store::WalletStore,
    wallet_info::{AddressInfo, KeychainPurpose, address_info},
    wallet_row::WalletRow,
};

/// An address of a wallet, with what it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// Account, chain, index, and whether it was used.
    pub info: AddressInfo,
    /// The descriptor of its chain, or what stands for a script that was imported.
    pub descriptor: String,
    /// Each key as `[fingerprint/path]`; none for a script that was imported.
    pub keys: Vec<String>,
}

const FIND: &str = "SELECT d.id, a.name AS account, k.purpose, d.address_index, d.script_pub_key,
        d.is_used, k.descriptor
    FROM addresses d /*by uidx_addresses_script*/
    JOIN /*then*/ keychains k ON k.wallet_id = d.wallet_id AND k.id = d.keychain_id
    JOIN /*then*/ accounts a ON a.wallet_id = k.wallet_id AND a.id = k.account_id
    WHERE d.script_hash = $2 AND d.wallet_id = $1";

impl WalletStore {
    /// The wallet's address with this script, if it is one.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub fn own_address(
        &self,
        wallet: WalletId,
        script: &Script,
    ) -> Result<Option<OwnAddress>, WalletError> {
        let hash = script_hash(script);
        let network = self.bitcoin_network();
        self.door.read(move |tx| {
            WalletRow::read(tx, wallet)?;
            let Some(row) = tx.maybe(FIND, &[Arg::Int(wallet.0), Arg::Blob(&hash)])? else {
                return Ok(None);
            };
            let (mut found, descriptor) = ([address_info(&row)?], row.text("descriptor")?);
            label_addresses(tx, wallet, network, &mut found)?;
            let [info] = found;
            let is_imported = info.purpose == KeychainPurpose::Imported.name();
            let keys = if is_imported { Vec::new() } else { keys(&descriptor, info.index)? };
            Ok(Some(OwnAddress { info, descriptor, keys }))
        })
    }
}

fn keys(descriptor: &str, index: u32) -> Result<Vec<String>, WalletError> {
    let mut found = Vec::new();
    Keychain::stored(descriptor)?.at(index)?.for_each_key(|key| {
        let path = key.full_derivation_path().map(|path| path.to_string());
        let path = path.filter(|path| !path.is_empty()).map(|path| format!("/{path}"));
        found.push(format!("[{}{}]", key.master_fingerprint(), path.unwrap_or_default()));
        true
    });
    Ok(found)
}
