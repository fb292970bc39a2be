//! A mint in memory: real keys, real signatures, and the rules of the protocol that matter here.

use std::collections::{BTreeMap, BTreeSet};

use cashu::{
    Amount, BlindSignature, BlindedMessage, CurrencyUnit, Id, Keys, MeltQuoteState, MintQuoteState,
    MintUrl, ProofState, Proofs, PublicKey, RestoreResponse, SecretKey, State,
    dhke::{blind_message, hash_to_curve, sign_message, verify_message},
    secret::Secret,
};
use unspent_ecash::{
    KeysetInfo, OutputKeyset, WalletSeed,
    flow::{FlowAnswer, FlowRequest, MeltView, MintFault, MintKeys, MintQuoteView, QuoteTerms},
};
use unspent_model::ecash::{input_fee, split_amount};

/// What every payment proves itself by.
pub const PREIMAGE: &str = "5a17c0de5a17c0de5a17c0de5a17c0de5a17c0de5a17c0de5a17c0de5a17c0de";

/// The largest amount is 2^19.
const BITS: u32 = 20;

pub struct Keyset {
    pub id: Id,
    keys: BTreeMap<u64, SecretKey>,
    pub fee_ppk: u64,
    is_active: bool,
}

#[derive(Clone, Debug)]
pub struct Melt {
    pub amount: u64,
    pub state: MeltQuoteState,
    inputs: Vec<PublicKey>,
    outputs: Vec<BlindedMessage>,
    paid_in: u64,
    change: Vec<BlindSignature>,
    /// How often money went out.
    pub payments: u32,
}

/// What a melt does when asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payment {
    Succeeds,
    Hangs,
    Fails,
}

pub struct Mint {
    pub url: MintUrl,
    pub keysets: Vec<Keyset>,
    pub spent: BTreeSet<PublicKey>,
    pending: BTreeSet<PublicKey>,
    signed: BTreeMap<PublicKey, BlindSignature>,
    pub melts: BTreeMap<String, Melt>,
    pub quotes: BTreeMap<String, (u64, MintQuoteState)>,
    pub payment: Payment,
    /// What a payment costs.
    pub lightning_fee: u64,
    /// Change comes in another order than the blanks.
    pub shuffles: bool,
    /// Signatures over these amounts are told to nobody.
    pub hides: BTreeSet<u64>,
    /// So much is given back beyond what is due.
    pub gift: u64,
    pub asked: Vec<&'static str>,
    /// Swaps of more are refused, as by HTTP 422.
    pub most_inputs: usize,
    /// Outputs that were recorded and never signed.
    pub recorded: BTreeSet<PublicKey>,
}

fn key(seed: u64, bit: u32) -> SecretKey {
    let mut bytes = [7_u8; 32];
    bytes[..8].copy_from_slice(&(seed + 1).to_be_bytes());
    bytes[8..12].copy_from_slice(&bit.to_be_bytes());
    SecretKey::from_slice(&bytes).unwrap()
}

impl Keyset {
    fn new(seed: u64, fee_ppk: u64, is_v2: bool) -> Self {
        let keys: BTreeMap<u64, SecretKey> =
            (0..BITS).map(|bit| (1_u64 << bit, key(seed, bit))).collect();
        let public = public(&keys);
        let id = if is_v2 {
            Id::v2_from_data(&public, &CurrencyUnit::Sat, fee_ppk, None)
        } else {
            Id::v1_from_keys(&public)
        };
        Self { id, keys, fee_ppk, is_active: true }
    }
}

fn public(keys: &BTreeMap<u64, SecretKey>) -> Keys {
    Keys::new(keys.iter().map(|(amount, key)| (Amount::from(*amount), key.public_key())).collect())
}

fn refusal(code: u32) -> MintFault {
    MintFault::from_code(code, "as the test wants it")
}

fn fault(code: u32) -> FlowAnswer {
    FlowAnswer::Fault(refusal(code))
}

impl Mint {
    pub fn new(seed: u64, fee_ppk: u64, is_v2: bool) -> Self {
        Self {
            url: format!("http://127.0.0.1:{}", 3000 + seed).parse().unwrap(),
            keysets: vec![Keyset::new(seed * 100, fee_ppk, is_v2)],
            spent: BTreeSet::new(),
            pending: BTreeSet::new(),
            signed: BTreeMap::new(),
            melts: BTreeMap::new(),
            quotes: BTreeMap::new(),
            payment: Payment::Succeeds,
            lightning_fee: 1,
            shuffles: true,
            hides: BTreeSet::new(),
            gift: 0,
            asked: Vec::new(),
            most_inputs: usize::MAX,
            recorded: BTreeSet::new(),
        }
    }

    pub fn active(&self) -> &Keyset {
        self.keysets.iter().find(|keyset| keyset.is_active).unwrap()
    }

    pub fn rotate(&mut self, is_v2: bool) {
        self.keysets.iter_mut().for_each(|keyset| keyset.is_active = false);
        let (seed, fee) = (5000 + self.keysets.len() as u64, self.keysets[0].fee_ppk);
        self.keysets.push(Keyset::new(seed, fee, is_v2));
    }

    pub fn infos(&self) -> Vec<KeysetInfo> {
        let info = |keyset: &Keyset| KeysetInfo {
            keyset_id: keyset.id.to_string(),
            is_active: keyset.is_active,
            fee_ppk: keyset.fee_ppk,
        };
        self.keysets.iter().map(info).collect()
    }

    pub fn output_keyset(&self) -> OutputKeyset {
        let active = self.active();
        OutputKeyset {
            keyset_id: active.id.to_string(),
            fee_ppk: active.fee_ppk,
            amounts: active.keys.keys().copied().collect(),
        }
    }

    pub fn keys(&self) -> MintKeys {
        MintKeys {
            url: self.url.clone(),
            keys: self.keysets.iter().map(|keyset| (keyset.id, public(&keyset.keys))).collect(),
            active: self.output_keyset(),
        }
    }

    fn keyset(&self, id: Id) -> Option<&Keyset> {
        self.keysets.iter().find(|keyset| keyset.id == id)
    }

    pub fn offer_melt(&mut self, id: &str, amount: u64) {
        let melt = Melt {
            amount,
            state: MeltQuoteState::Unpaid,
            inputs: Vec::new(),
            outputs: Vec::new(),
            paid_in: 0,
            change: Vec::new(),
            payments: 0,
        };
        self.melts.insert(id.to_owned(), melt);
    }

    pub fn ask(&mut self, request: &FlowRequest) -> FlowAnswer {
        self.asked.push(request.name());
        match request {
            FlowRequest::MeltQuote { quote, .. } => self.view(quote),
            FlowRequest::MintQuote { quote, .. } => {
                let (amount, state) = self.quotes[quote];
                let terms = QuoteTerms { amount: Some(amount), ..QuoteTerms::of(quote) };
                FlowAnswer::MintQuote(MintQuoteView { terms, state })
            }
            FlowRequest::Melt { request, .. } => {
                let outputs = request.outputs().clone().unwrap_or_default();
                self.melt(request.quote(), request.inputs(), outputs)
            }
            FlowRequest::Swap { request, .. } => self.swap(request.inputs(), request.outputs()),
            FlowRequest::Mint { request, .. } => self.mint(&request.quote, &request.outputs),
            FlowRequest::Restore { request, .. } => self.restore(&request.outputs),
            FlowRequest::CheckState { request, .. } => {
                let states = request.ys.iter().map(|y| ProofState::from((*y, self.state(y))));
                FlowAnswer::States(states.collect())
            }
            FlowRequest::Spark(_) => panic!("a mint is no Spark"),
        }
    }

    pub fn state(&self, y: &PublicKey) -> State {
        match (self.spent.contains(y), self.pending.contains(y)) {
            (true, _) => State::Spent,
            (false, true) => State::Pending,
            (false, false) => State::Unspent,
        }
    }

    /// What it has signed for a seed and calls unspent, by name, with its worth: read off its own
    /// books.
    pub fn unspent_of(&self, seed: &WalletSeed) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        for keyset in &self.keysets {
            for counter in 0..500 {
                let secret = Secret::from_seed(seed, keyset.id, counter).unwrap();
                let r = SecretKey::from_seed(seed, keyset.id, counter).unwrap();
                let (blinded, _) = blind_message(secret.as_bytes(), Some(r)).unwrap();
                let Some(signature) = self.signed.get(&blinded) else { continue };
                let y = hash_to_curve(secret.as_bytes()).unwrap();
                if self.state(&y) == State::Unspent {
                    found.push((y.to_hex(), signature.amount.to_u64()));
                }
            }
        }
        found
    }

    fn view(&self, quote: &str) -> FlowAnswer {
        let melt = &self.melts[quote];
        let is_paid = melt.state == MeltQuoteState::Paid;
        FlowAnswer::Melt(MeltView {
            terms: QuoteTerms { amount: Some(melt.amount), ..QuoteTerms::of(quote) },
            state: melt.state,
            preimage: is_paid.then(|| PREIMAGE.to_owned()),
            change: is_paid.then(|| self.shown(&melt.change)),
        })
    }

    /// Signatures but for those that it keeps to itself.
    fn shown(&self, signed: &[BlindSignature]) -> Vec<BlindSignature> {
        let shown = signed.iter().filter(|made| !self.hides.contains(&made.amount.to_u64()));
        shown.cloned().collect()
    }

    /// Checks inputs: signed by us, each once, neither spent nor pending.
    fn accept(&self, inputs: &Proofs) -> Result<(u64, Vec<PublicKey>), MintFault> {
        let mut names = Vec::new();
        for proof in inputs {
            let y = proof.y().unwrap();
            let keyset = self.keyset(proof.keyset_id).ok_or_else(|| refusal(12001))?;
            let key = keyset.keys.get(&proof.amount.to_u64()).ok_or_else(|| refusal(10001))?;
            verify_message(key, proof.c, proof.secret.as_bytes()).map_err(|_| refusal(10001))?;
            assert!(!names.contains(&y), "an input comes twice");
            names.push(y);
        }
        if names.iter().any(|y| self.spent.contains(y)) {
            return Err(refusal(11001));
        }
        if names.iter().any(|y| self.pending.contains(y)) {
            return Err(refusal(11002));
        }
        let fee = input_fee(inputs.iter().map(|p| self.keyset(p.keyset_id).unwrap().fee_ppk));
        let sum: u64 = inputs.iter().map(|proof| proof.amount.to_u64()).sum();
        Ok((sum.checked_sub(fee).ok_or_else(|| refusal(11005))?, names))
    }

    fn can_sign(&self, outputs: &[BlindedMessage]) -> Result<(), MintFault> {
        if outputs.iter().any(|output| self.signed.contains_key(&output.blinded_secret)) {
            return Err(refusal(11003));
        }
        if outputs.iter().any(|output| self.recorded.contains(&output.blinded_secret)) {
            return Err(refusal(11004));
        }
        let is_active = |output: &BlindedMessage| {
            self.keyset(output.keyset_id).is_some_and(|keyset| keyset.is_active)
        };
        if outputs.iter().all(is_active) { Ok(()) } else { Err(refusal(12002)) }
    }

    fn sign(&mut self, output: &BlindedMessage, amount: u64) -> BlindSignature {
        let keyset = self.keyset(output.keyset_id).unwrap();
        let key = &keyset.keys[&amount];
        let c = sign_message(key, &output.blinded_secret).unwrap();
        let made =
            BlindSignature::new(amount.into(), c, output.keyset_id, &output.blinded_secret, key);
        let made = made.unwrap();
        let old = self.signed.insert(output.blinded_secret, made.clone());
        assert!(old.is_none(), "an output is signed twice");
        made
    }

    fn sign_all(&mut self, outputs: &[BlindedMessage]) -> FlowAnswer {
        let signed =
            outputs.iter().map(|output| self.sign(output, output.amount.to_u64())).collect();
        FlowAnswer::Signatures(signed)
    }

    fn swap(&mut self, inputs: &Proofs, outputs: &[BlindedMessage]) -> FlowAnswer {
        if inputs.len() > self.most_inputs {
            return FlowAnswer::Fault(MintFault::Unfit("HTTP 422".into()));
        }
        let (worth, names) = match self.accept(inputs) {
            Ok(found) => found,
            Err(fault) => return FlowAnswer::Fault(fault),
        };
        if let Err(fault) = self.can_sign(outputs) {
            return FlowAnswer::Fault(fault);
        }
        let sum: u64 = outputs.iter().map(|output| output.amount.to_u64()).sum();
        if worth != sum {
            return fault(11005);
        }
        self.spent.extend(names);
        self.sign_all(outputs)
    }

    fn mint(&mut self, quote: &str, outputs: &[BlindedMessage]) -> FlowAnswer {
        let (amount, state) = self.quotes[quote];
        let sum: u64 = outputs.iter().map(|output| output.amount.to_u64()).sum();
        match state {
            MintQuoteState::Unpaid => return fault(20001),
            MintQuoteState::Issued => return fault(20002),
            MintQuoteState::Paid => {}
        }
        if let Err(fault) = self.can_sign(outputs) {
            return FlowAnswer::Fault(fault);
        }
        assert_eq!(sum, amount, "outputs of a quote");
        self.quotes.insert(quote.to_owned(), (amount, MintQuoteState::Issued));
        self.sign_all(outputs)
    }

    fn restore(&self, outputs: &[BlindedMessage]) -> FlowAnswer {
        let known = outputs.iter().filter_map(|output| {
            Some((output.clone(), self.signed.get(&output.blinded_secret)?.clone()))
        });
        let known: Vec<(BlindedMessage, BlindSignature)> = known.collect();
        let is_shown = |(_, made): &(BlindedMessage, BlindSignature)| {
            self.shown(std::slice::from_ref(made)).len() == 1
        };
        let (outputs, signatures) = known.into_iter().filter(is_shown).unzip();
        FlowAnswer::Restored(RestoreResponse { outputs, signatures })
    }

    fn melt(&mut self, quote: &str, inputs: &Proofs, outputs: Vec<BlindedMessage>) -> FlowAnswer {
        match self.melts[quote].state {
            MeltQuoteState::Paid => return fault(20006),
            MeltQuoteState::Pending => return fault(20005),
            _ => {}
        }
        let (worth, names) = match self.accept(inputs) {
            Ok(found) => found,
            Err(fault) => return FlowAnswer::Fault(fault),
        };
        if let Err(fault) = self.can_sign(&outputs) {
            return FlowAnswer::Fault(fault);
        }
        let melt = self.melts.get_mut(quote).unwrap();
        assert!(worth >= melt.amount + self.lightning_fee, "a melt is paid for");
        (melt.inputs, melt.outputs, melt.paid_in) = (names.clone(), outputs, worth);
        match self.payment {
            Payment::Fails => return fault(20004),
            Payment::Hangs => {
                melt.state = MeltQuoteState::Pending;
                self.pending.extend(names);
            }
            Payment::Succeeds => self.settle(quote),
        }
        self.view(quote)
    }

    /// The payment arrives.
    pub fn settle(&mut self, quote: &str) {
        let melt = self.melts[quote].clone();
        let left = melt.paid_in + self.gift - melt.amount - self.lightning_fee;
        let amounts: Vec<u64> = self.active().keys.keys().copied().collect();
        let parts = split_amount(left, &amounts).unwrap();
        let mut change: Vec<BlindSignature> = melt
            .outputs
            .iter()
            .zip(parts)
            .map(|(output, amount)| self.sign(output, amount))
            .collect();
        if self.shuffles {
            change.reverse();
        }
        for y in &melt.inputs {
            self.pending.remove(y);
            self.spent.insert(*y);
        }
        let melt = self.melts.get_mut(quote).unwrap();
        melt.payments += 1;
        (melt.state, melt.change) = (MeltQuoteState::Paid, change);
    }

    /// The payment that hung comes back.
    pub fn give_back(&mut self, quote: &str) {
        let melt = self.melts.get_mut(quote).unwrap();
        melt.state = MeltQuoteState::Unpaid;
        for y in &melt.inputs {
            self.pending.remove(y);
        }
    }
}
