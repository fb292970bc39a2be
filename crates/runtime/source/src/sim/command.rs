//! What can be done to the simulated network, as one line of text each.

use std::fmt;

use bitcoin::{Amount, ScriptBuf, Transaction, TxOut, Txid, consensus::encode};
use unspent_sim::ChainSim;

use super::world::SimError;

/// One thing that is done to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Mine(u32),
    Block,
    Busy(u32, u32),
    Pay { script: ScriptBuf, sats: u64, fee: u64 },
    Submit(Transaction),
    Bump { txid: Txid, extra: u64 },
    DoubleSpend { txid: Txid, fee: u64 },
    Evict(Txid),
    Fork(u32),
}

/// What came of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Did {
    Nothing,
    Transaction(Txid),
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mine(blocks) => write!(f, "mine {blocks}"),
            Self::Block => write!(f, "block"),
            Self::Busy(blocks, payments) => write!(f, "busy {blocks} {payments}"),
            Self::Pay { script, sats, fee } => {
                write!(f, "pay {} {sats} {fee}", script.to_hex_string())
            }
            Self::Submit(tx) => write!(f, "submit {}", encode::serialize_hex(tx)),
            Self::Bump { txid, extra } => write!(f, "bump {txid} {extra}"),
            Self::DoubleSpend { txid, fee } => write!(f, "double {txid} {fee}"),
            Self::Evict(txid) => write!(f, "evict {txid}"),
            Self::Fork(depth) => write!(f, "fork {depth}"),
        }
    }
}

impl Command {
    /// Reads a line.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        Some(match words.as_slice() {
            ["mine", blocks] => Self::Mine(blocks.parse().ok()?),
            ["block"] => Self::Block,
            ["busy", blocks, payments] => Self::Busy(blocks.parse().ok()?, payments.parse().ok()?),
            ["pay", script, sats, fee] => Self::Pay {
                script: ScriptBuf::from_hex(script).ok()?,
                sats: sats.parse().ok()?,
                fee: fee.parse().ok()?,
            },
            ["submit", tx] => Self::Submit(encode::deserialize_hex(tx).ok()?),
            ["bump", txid, extra] => {
                Self::Bump { txid: txid.parse().ok()?, extra: extra.parse().ok()? }
            }
            ["double", txid, fee] => {
                Self::DoubleSpend { txid: txid.parse().ok()?, fee: fee.parse().ok()? }
            }
            ["evict", txid] => Self::Evict(txid.parse().ok()?),
            ["fork", depth] => Self::Fork(depth.parse().ok()?),
            _ => return None,
        })
    }

    /// Does it. The same command on the same simulator always comes to the same, an error too.
    pub(super) fn carry_out(&self, sim: &mut ChainSim) -> Result<Did, SimError> {
        match self {
            Self::Mine(blocks) => {
                sim.mine(*blocks);
                Ok(Did::Nothing)
            }
            Self::Block => {
                sim.mine_block_from_mempool().map_err(SimError::refused)?;
                Ok(Did::Nothing)
            }
            Self::Busy(blocks, payments) => {
                sim.mine_busy(*blocks, usize::try_from(*payments).unwrap_or(0));
                Ok(Did::Nothing)
            }
            Self::Pay { script, sats, fee } => pay(sim, script, *sats, *fee),
            Self::Submit(tx) => {
                let accepted = sim.submit(tx.clone()).map_err(SimError::refused)?;
                Ok(Did::Transaction(accepted.txid))
            }
            Self::Bump { txid, extra } => {
                let extra = Amount::from_sat(*extra);
                let accepted = sim.bump_fee(txid, extra).map_err(SimError::refused)?;
                Ok(Did::Transaction(accepted.txid))
            }
            Self::DoubleSpend { txid, fee } => double_spend(sim, txid, *fee),
            Self::Evict(txid) => {
                let gone = sim.evict(txid);
                let missing = || SimError::Refused(format!("{txid} is not in the mempool"));
                gone.first().map(|_| Did::Nothing).ok_or_else(missing)
            }
            Self::Fork(depth) => {
                sim.fork(*depth).map_err(SimError::refused)?;
                Ok(Did::Nothing)
            }
        }
    }
}

fn pay(sim: &mut ChainSim, script: &ScriptBuf, sats: u64, fee: u64) -> Result<Did, SimError> {
    let payment = TxOut { value: Amount::from_sat(sats), script_pubkey: script.clone() };
    let tx = sim.pay(&[payment], Amount::from_sat(fee)).map_err(SimError::refused)?;
    Ok(Did::Transaction(sim.submit(tx).map_err(SimError::refused)?.txid))
}

fn double_spend(sim: &mut ChainSim, txid: &Txid, fee: u64) -> Result<Did, SimError> {
    let missing = || SimError::Refused(format!("{txid} is not in the mempool"));
    let victim = sim.mempool().get(txid).ok_or_else(missing)?.tx.clone();
    let rival = sim.double_spend(&victim, Amount::from_sat(fee)).map_err(SimError::refused)?;
    let name = rival.compute_txid();
    sim.mine_with(vec![rival]).map_err(SimError::refused)?;
    Ok(Did::Transaction(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_survives_its_line() {
        let txid: Txid = "11".repeat(32).parse().unwrap();
        let tx = unspent_sim::genesis().txdata.remove(0);
        let script = ScriptBuf::from_bytes(vec![0x51, 0x52]);
        let commands = [
            Command::Mine(3),
            Command::Block,
            Command::Busy(2, 5),
            Command::Pay { script, sats: 7, fee: 8 },
            Command::Submit(tx),
            Command::Bump { txid, extra: 9 },
            Command::DoubleSpend { txid, fee: 10 },
            Command::Evict(txid),
            Command::Fork(4),
        ];
        for command in commands {
            assert_eq!(Command::parse(&command.to_string()), Some(command));
        }
        for garbage in ["", "mine", "mine x", "fork 1 2", "submit 00"] {
            assert_eq!(Command::parse(garbage), None);
        }
    }
}
