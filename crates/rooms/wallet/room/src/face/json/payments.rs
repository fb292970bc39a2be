//! Chosen coins, payments that wait for signatures, and what a node said to them.

use serde::Serialize;
use unspent_server::json::{OutpointJson, Time};
use unspent_wallet::{
    choose::ChosenCoins,
    descriptor::show_script,
    pay::{ChildPackage, PsbtView, UnsignedPayment, psbt_txid},
};
use utoipa::ToSchema;

/// A chosen coin.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChosenCoinJson {
    #[serde(flatten)]
    pub(crate) outpoint: OutpointJson,
    pub(crate) value: String,
}

/// The rate that was paid.
pub(crate) struct ShownRate {
    pub(crate) fee_rate: String,
    pub(crate) target_blocks: Option<u16>,
}

/// Chosen coins and the reason; `lock` where they are held.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChosenJson {
    pub(crate) coins: Vec<ChosenCoinJson>,
    pub(crate) fee: String,
    pub(crate) change: Option<String>,
    pub(crate) weight: u64,
    pub(crate) waste: String,
    pub(crate) method: &'static str,
    pub(crate) why: String,
    pub(crate) lock: Option<String>,
    /// The minimum fee rate, in sat/vB; none where a fixed fee was given
    pub(crate) fee_rate: Option<String>,
    /// The confirmation target of this rate in blocks, where it is the node's estimate
    pub(crate) target_blocks: Option<u16>,
}

impl ChosenJson {
    pub(crate) fn new(chosen: &ChosenCoins, lock: Option<String>, rate: Option<ShownRate>) -> Self {
        let selection = &chosen.selection;
        let coins = chosen.coins.iter().map(|coin| ChosenCoinJson {
            outpoint: coin.outpoint.into(),
            value: coin.amount.to_string(),
        });
        Self {
            coins: coins.collect(),
            fee: selection.fee.to_string(),
            change: selection.change.map(|value| value.to_string()),
            weight: selection.weight,
            waste: selection.waste.to_string(),
            method: selection.method.name(),
            why: selection.why(),
            lock,
            target_blocks: rate.as_ref().and_then(|rate| rate.target_blocks),
            fee_rate: rate.map(|rate| rate.fee_rate),
        }
    }
}

/// A payment that waits for signatures.
#[derive(Serialize, ToSchema)]
pub(crate) struct UnsignedJson {
    #[serde(flatten)]
    pub(crate) chosen: ChosenJson,
    /// The account that pays and gets the change
    pub(crate) account: String,
    /// Until when the coins are held; none where nothing was leased
    pub(crate) expires_at: Option<Time>,
    pub(crate) unsigned_txid: String,
    pub(crate) change_vout: Option<usize>,
    /// The unconfirmed ancestors of a child that pays for them
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) package: Option<PackageJson>,
    pub(crate) psbt: String,
}

/// The unconfirmed ancestors of a child.
#[derive(Serialize, ToSchema)]
pub(crate) struct PackageJson {
    /// How many there are
    pub(crate) ancestors: usize,
    /// Those that no miner would take at the rate by themselves: the child pays for them
    pub(crate) unpaid: usize,
    /// What those pay by themselves
    pub(crate) unpaid_fee: String,
    /// Their size together
    pub(crate) unpaid_virtual_size: u64,
    /// Transactions of others whose inputs could not be checked for confirmation; they were counted
    /// as confirmed
    pub(crate) unsure: Vec<String>,
}

impl PackageJson {
    fn new(package: &ChildPackage) -> Self {
        Self {
            ancestors: package.ancestors,
            unpaid: package.unpaid.count,
            unpaid_fee: package.unpaid.fee.to_string(),
            unpaid_virtual_size: package.unpaid.virtual_size,
            unsure: package.unsure.iter().map(ToString::to_string).collect(),
        }
    }

    /// What people are to know about it.
    pub(crate) fn told(&self) -> String {
        let Self { ancestors, unpaid, .. } = self;
        let mut told = format!("It pays for {unpaid} of its {ancestors} unconfirmed ancestors.");
        for txid in &self.unsure {
            told += &format!("\nIt is unknown whether what {txid} spends is confirmed.");
        }
        told
    }
}

impl UnsignedJson {
    pub(crate) fn new(
        unsigned: &UnsignedPayment,
        lock: Option<String>,
        rate: Option<ShownRate>,
    ) -> Self {
        Self {
            account: unsigned.account.clone(),
            expires_at: lock.is_some().then_some(Time(unsigned.held_until.0)),
            chosen: ChosenJson::new(&unsigned.chosen, lock, rate),
            unsigned_txid: psbt_txid(&unsigned.psbt).to_string(),
            change_vout: unsigned.change_output,
            package: unsigned.package.as_ref().map(PackageJson::new),
            psbt: unsigned.psbt.to_string(),
        }
    }
}

/// A node's answer to a transaction.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodeAnswerJson {
    pub(crate) accepted: bool,
    /// Why not
    pub(crate) reason: Option<String>,
}

/// A transaction that is recorded as pending, or sent.
#[derive(Serialize, ToSchema)]
pub(crate) struct FinalizedJson {
    pub(crate) txid: String,
    pub(crate) status: &'static str,
    pub(crate) fee: Option<String>,
    pub(crate) raw: String,
    /// The node's answer, where a broadcast was asked for
    pub(crate) broadcast: Option<NodeAnswerJson>,
}

/// A transaction that was handed to the node.
#[derive(Serialize, ToSchema)]
pub(crate) struct BroadcastJson {
    pub(crate) txid: String,
    pub(crate) status: &'static str,
    pub(crate) accepted: bool,
    pub(crate) reason: Option<String>,
}

/// An input of a PSBT.
#[derive(Serialize, ToSchema)]
pub(crate) struct PsbtInputJson {
    #[serde(flatten)]
    pub(crate) outpoint: OutpointJson,
    /// What it holds, where it is known
    pub(crate) value: Option<String>,
    /// What it pays to, where it is known
    pub(crate) address: Option<String>,
    /// Whether the wallet vouches for the value
    pub(crate) known: bool,
    pub(crate) signatures: usize,
    pub(crate) complete: bool,
    /// Fingerprints of master keys that could sign and haven't
    pub(crate) missing: Vec<String>,
}

/// An output of a PSBT.
#[derive(Serialize, ToSchema)]
pub(crate) struct PsbtOutputJson {
    pub(crate) address: String,
    pub(crate) value: String,
    /// `receive`, `change` or `imported` where it is the wallet's own
    pub(crate) purpose: Option<String>,
}

/// What a PSBT pays, to whom, and what it lacks.
#[derive(Serialize, ToSchema)]
pub(crate) struct PsbtJson {
    pub(crate) unsigned_txid: String,
    pub(crate) inputs: Vec<PsbtInputJson>,
    pub(crate) outputs: Vec<PsbtOutputJson>,
    /// The fee, where all inputs' values are known
    pub(crate) fee: Option<String>,
    /// What goes to scripts that aren't the wallet's
    pub(crate) pays_others: String,
    /// Known once it is complete
    pub(crate) virtual_size: Option<u64>,
    pub(crate) complete: bool,
    pub(crate) psbt: String,
}

impl PsbtJson {
    pub(crate) fn new(psbt: &bitcoin::Psbt, view: &PsbtView, network: bitcoin::Network) -> Self {
        let inputs = view.inputs.iter().map(|input| PsbtInputJson {
            outpoint: input.outpoint.into(),
            value: input.amount.map(|value| value.to_string()),
            address: input.script.as_ref().map(|script| show_script(script, network)),
            known: input.is_known,
            signatures: input.signatures,
            complete: input.is_complete,
            missing: input.missing.iter().map(ToString::to_string).collect(),
        });
        let outputs = view.outputs.iter().map(|output| PsbtOutputJson {
            address: show_script(&output.script, network),
            value: output.amount.to_string(),
            purpose: output.purpose.clone(),
        });
        Self {
            unsigned_txid: psbt_txid(psbt).to_string(),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            fee: view.fee.map(|fee| fee.to_string()),
            pays_others: view.pays_others.to_string(),
            virtual_size: view.virtual_size,
            complete: view.is_complete,
            psbt: psbt.to_string(),
        }
    }
}
