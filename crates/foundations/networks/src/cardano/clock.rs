//! Slots to epochs and to wall-clock time.
//!
//! Byron slots last 20 seconds, all later ones a second. pallas counts Byron epochs in seconds with
//! the length of the later epochs, which is wrong on preview, and it overflows on hostile slots;
//! hence this small table. It agrees with pallas wherever pallas is right.

use unspent_model::Network;

const BYRON_SLOT_SECONDS: u64 = 20;

/// How a Cardano network counts time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// Unix time of slot 0, in seconds.
    pub start: u64,
    /// Slots of a Byron epoch: ten times the security parameter.
    pub byron_epoch_slots: u64,
    /// First slot after Byron.
    pub shelley_slot: u64,
    /// Slots of an epoch after Byron; a slot lasts a second.
    pub epoch_slots: u64,
}

/// A slot as Byron writes it: an epoch, and a slot inside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochSlot {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The slot inside the epoch, from 0.
    pub slot: u64,
}

impl Clock {
    /// The clock of a Cardano network; `None` for Bitcoin.
    pub fn of(network: Network) -> Option<Self> {
        super::parameters(network).map(|row| row.clock)
    }

    /// The epoch of a slot, counted from 0 at the start of the chain.
    pub fn epoch(self, slot: u64) -> u64 {
        match slot.checked_sub(self.shelley_slot) {
            None => slot / self.byron_epoch_slots,
            Some(later) => self.shelley_slot / self.byron_epoch_slots + later / self.epoch_slots,
        }
    }

    /// Unix time of a slot in seconds; `None` past the end of time.
    pub fn time(self, slot: u64) -> Option<u64> {
        let byron = slot.min(self.shelley_slot);
        let later = slot - byron;
        self.start.checked_add(byron.checked_mul(BYRON_SLOT_SECONDS)?)?.checked_add(later)
    }

    /// The slot counted from the start of the chain; `None` when it is out of range.
    pub fn byron_slot(self, at: EpochSlot) -> Option<u64> {
        at.epoch.checked_mul(self.byron_epoch_slots)?.checked_add(at.slot)
    }
}

#[cfg(test)]
mod tests {
    use pallas_traverse::wellknown::GenesisValues;

    use super::*;

    fn clock(network: Network) -> Clock {
        Clock::of(network).unwrap()
    }

    #[test]
    fn known_slots_have_their_epoch_and_time() {
        let known = [
            (Network::CardanoMainnet, 0, 0, 1_506_203_091),
            (Network::CardanoMainnet, 2_160_007, 100, 1_549_403_231),
            (Network::CardanoMainnet, 4_492_799, 207, 1_596_059_071),
            (Network::CardanoMainnet, 4_492_800, 208, 1_596_059_091),
            (Network::CardanoMainnet, 54_605_026, 324, 1_646_171_317),
            (Network::CardanoPreprod, 0, 0, 1_654_041_600),
            (Network::CardanoPreprod, 21_600, 1, 1_654_473_600),
            (Network::CardanoPreprod, 86_399, 3, 1_655_769_580),
            (Network::CardanoPreprod, 86_400, 4, 1_655_769_600),
            (Network::CardanoPreprod, 38_580_791, 93, 1_694_263_991),
            (Network::CardanoPreview, 0, 0, 1_666_656_000),
            (Network::CardanoPreview, 86_400, 1, 1_666_742_400),
            (Network::CardanoPreview, 27_556_036, 318, 1_694_212_036),
        ];
        for (network, slot, epoch, time) in known {
            let got = (clock(network).epoch(slot), clock(network).time(slot));
            assert_eq!(got, (epoch, Some(time)), "{network} slot {slot}");
        }
    }

    #[test]
    fn pallas_agrees_after_byron() {
        let theirs = [
            (Network::CardanoMainnet, GenesisValues::mainnet()),
            (Network::CardanoPreprod, GenesisValues::preprod()),
            (Network::CardanoPreview, GenesisValues::preview()),
        ];
        for (network, genesis) in theirs {
            let ours = clock(network);
            assert_eq!(crate::cardano::magic(network).map(u64::from), Some(genesis.magic));
            for step in 0..500 {
                let slot = ours.shelley_slot + step * 333_333;
                assert_eq!(ours.time(slot), Some(genesis.slot_to_wallclock(slot)));
                assert_eq!(ours.epoch(slot), genesis.absolute_slot_to_relative(slot).0);
            }
        }
    }

    #[test]
    fn hostile_slots_are_refused_and_do_not_overflow() {
        for (network, _) in unspent_model::network::NETWORKS {
            let Some(clock) = Clock::of(network) else { continue };
            assert_eq!(clock.time(u64::MAX), None);
            assert_eq!(clock.byron_slot(EpochSlot { epoch: u64::MAX, slot: 0 }), None);
            assert_eq!(clock.byron_slot(EpochSlot { epoch: 1, slot: u64::MAX }), None);
            let _ = clock.epoch(u64::MAX);
        }
    }
}
