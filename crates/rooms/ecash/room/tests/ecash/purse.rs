//! A little of a wallet, apart from the room: proofs of a mint to play with.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use cashu::{
    Amount, CheckStateRequest, CurrencyUnit, KeySet, MintQuoteBolt11Request, MintQuoteState,
    MintRequest, PreMintSecrets, Proofs, State,
    amount::{FeeAndAmounts, SplitTarget},
    dhke::construct_proofs,
};
use unspent_ecash_room::mint::{MintClient, MintOptions, check::address};

/// Options for mints on this machine.
pub fn options() -> MintOptions {
    MintOptions { allow_private: true, ..Default::default() }
}

/// How long something may take on a loaded machine before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct Purse {
    pub client: MintClient,
    pub keys: KeySet,
}

impl Purse {
    pub fn new(url: &str) -> Self {
        let client = MintClient::new(address(url).unwrap(), options());
        let keysets = client.keysets().unwrap().keysets;
        let active = keysets.iter().find(|k| k.active && k.unit == CurrencyUnit::Sat).unwrap();
        let keys = client.keys(active.id).unwrap();
        Self { client, keys }
    }

    /// Outputs that nobody knows yet.
    pub fn outputs(&self, value: u64) -> PreMintSecrets {
        let amounts: Vec<u64> =
            self.keys.keys.iter().map(|(amount, _)| u64::from(*amount)).collect();
        let how = FeeAndAmounts::from((self.keys.input_fee_ppk, amounts));
        let value = Amount::from(value);
        PreMintSecrets::random(self.keys.id, value, &SplitTarget::None, &how).unwrap()
    }

    /// A quote for minting.
    pub fn quote(&self, value: u64) -> String {
        let wanted = MintQuoteBolt11Request {
            amount: value.into(),
            unit: CurrencyUnit::Sat,
            description: None,
            pubkey: None,
        };
        self.client.mint_quote(&wanted).unwrap().quote
    }

    pub fn wait_paid(&self, quote: &str) {
        wait_for("the quote is paid", || {
            self.client.read_mint_quote(quote).unwrap().state == MintQuoteState::Paid
        });
    }

    /// Fresh proofs.
    pub fn mint(&self, value: u64) -> Proofs {
        let quote = self.quote(value);
        self.wait_paid(&quote);
        let outputs = self.outputs(value);
        let request = MintRequest { quote, outputs: outputs.blinded_messages(), signature: None };
        let signed = self.client.mint(&request).unwrap().signatures;
        construct_proofs(signed, outputs.rs(), outputs.secrets(), &self.keys.keys).unwrap()
    }

    pub fn states(&self, proofs: &Proofs) -> Vec<State> {
        let ys = proofs.iter().map(|proof| proof.y().unwrap()).collect();
        let answer = self.client.check_states(&CheckStateRequest { ys }).unwrap();
        answer.states.into_iter().map(|state| state.state).collect()
    }
}

pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "it didn't happen in time: {what}");
        sleep(Duration::from_millis(100));
    }
}
