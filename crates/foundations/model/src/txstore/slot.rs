//! One output of a stored transaction, and the pages in which many of them are kept.

use crate::ids::TxId;

/// Outputs of one page. The first page lies in the record's own row, further pages beside it.
///
/// Chosen by measuring (ADR 300): a page is what a spend reads and writes.
pub const PAGE_SLOTS: usize = 64;

/// Longer scripts can't be spent on Bitcoin.
const MAX_SCRIPT_BYTES: usize = 10_000;
const OP_RETURN: u8 = 0x6a;

/// Whether no spend of an output with this script can ever be valid. The one predicate for it.
pub fn is_unspendable(script: &[u8]) -> bool {
    script.first() == Some(&OP_RETURN) || script.len() > MAX_SCRIPT_BYTES
}

/// Who spent an output: the transaction, and which of its inputs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Spender {
    /// The child.
    pub tx: TxId,
    /// Its input.
    pub vin: u32,
}

/// An output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// It never was a coin.
    Unspendable,
    /// A coin.
    Unspent,
    /// Spent, and its spender is or should be in the store.
    Spent(Spender),
    /// Spent, and its spender was deleted, deep in the chain or as a loser.
    SpentPruned(Spender),
    /// A coin that must not be spent.
    Frozen,
}

/// The kind of a slot, without its spender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// [`Slot::Unspendable`]
    Unspendable,
    /// [`Slot::Unspent`]
    Unspent,
    /// [`Slot::Spent`]
    Spent,
    /// [`Slot::SpentPruned`]
    SpentPruned,
    /// [`Slot::Frozen`]
    Frozen,
}

/// What may happen to a slot. "Own" means that the slot names the very child that is spoken of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotEvent {
    /// Somebody spends it, who is not named yet.
    Spend,
    /// The child that is named spends it again.
    OwnSpend,
    /// The child that is named takes its spend back.
    OwnUnspend,
    /// The child that is named is about to be deleted.
    OwnDelete,
    /// An operator freezes it.
    Freeze,
    /// An operator thaws it, or gives it to somebody else.
    Unfreeze,
}

/// Every legal move of a slot. Anything absent is refused.
pub const SLOT_TABLE: [(SlotState, SlotEvent, SlotState); 6] = [
    (SlotState::Unspent, SlotEvent::Spend, SlotState::Spent),
    (SlotState::Unspent, SlotEvent::Freeze, SlotState::Frozen),
    (SlotState::Spent, SlotEvent::OwnSpend, SlotState::Spent),
    (SlotState::Spent, SlotEvent::OwnUnspend, SlotState::Unspent),
    (SlotState::Spent, SlotEvent::OwnDelete, SlotState::SpentPruned),
    (SlotState::Frozen, SlotEvent::Unfreeze, SlotState::Unspent),
];

impl Slot {
    /// Its kind.
    pub fn state(self) -> SlotState {
        match self {
            Self::Unspendable => SlotState::Unspendable,
            Self::Unspent => SlotState::Unspent,
            Self::Spent(_) => SlotState::Spent,
            Self::SpentPruned(_) => SlotState::SpentPruned,
            Self::Frozen => SlotState::Frozen,
        }
    }

    /// Who spent it, deleted or not.
    pub fn spender(self) -> Option<Spender> {
        match self {
            Self::Spent(by) | Self::SpentPruned(by) => Some(by),
            Self::Unspendable | Self::Unspent | Self::Frozen => None,
        }
    }

    /// Whether it is a coin that somebody may still spend one day.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Unspent | Self::Frozen)
    }

    /// The slot after an event, by [`SLOT_TABLE`]; `None` when the event can't happen to it.
    pub fn after(self, event: SlotEvent, by: Spender) -> Option<Self> {
        let row = SLOT_TABLE.iter().find(|(from, on, _)| (*from, *on) == (self.state(), event))?;
        Some(match row.2 {
            SlotState::Unspendable => Self::Unspendable,
            SlotState::Unspent => Self::Unspent,
            SlotState::Spent => Self::Spent(by),
            SlotState::SpentPruned => Self::SpentPruned(by),
            SlotState::Frozen => Self::Frozen,
        })
    }
}

/// How many outputs a record has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotCounts {
    /// All of them.
    pub count: u32,
    /// Those that are coins.
    pub open: u32,
}

/// The outputs of a record, in pages of [`PAGE_SLOTS`]. Pages beyond the first may be left unread
/// by whoever has no use for them; such a page is never written either.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slots {
    count: u32,
    open: u32,
    pages: Vec<Option<Vec<Slot>>>,
}

impl Slots {
    /// All outputs of a new record.
    pub fn new(all: &[Slot]) -> Self {
        let open = all.iter().filter(|slot| slot.is_open()).count();
        let pages: Vec<_> = all.chunks(PAGE_SLOTS).map(|page| Some(page.to_vec())).collect();
        Self { count: narrow(all.len()), open: narrow(open), pages }
    }

    /// A stored record's, of which the first page was read.
    pub fn stored(SlotCounts { count, open }: SlotCounts, first: Vec<Slot>) -> Self {
        let pages = (count as usize).div_ceil(PAGE_SLOTS);
        let mut pages = vec![None; pages];
        if let Some(page) = pages.first_mut() {
            *page = Some(first);
        }
        Self { count, open, pages }
    }

    /// How many outputs there are.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many of them are coins that nobody has spent.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// How many pages there are.
    pub fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// A page, if it was read.
    pub fn page(&self, page: usize) -> Option<&[Slot]> {
        self.pages.get(page)?.as_deref()
    }

    /// Puts in a page that was read.
    pub fn put_page(&mut self, page: usize, slots: Vec<Slot>) {
        if let Some(place) = self.pages.get_mut(page) {
            *place = Some(slots);
        }
    }

    /// Pages that were not read.
    pub fn missing_pages(&self) -> impl Iterator<Item = usize> {
        self.pages.iter().enumerate().filter(|(_, page)| page.is_none()).map(|(at, _)| at)
    }

    /// The page that holds an output.
    pub fn page_of(vout: u32) -> usize {
        vout as usize / PAGE_SLOTS
    }

    /// One output: `None` when there is no such output, or when its page was not read.
    pub fn get(&self, vout: u32) -> Option<Slot> {
        self.page(Self::page_of(vout))?.get(vout as usize % PAGE_SLOTS).copied()
    }

    /// Replaces one output and keeps the count of coins. `false` when it can't be reached.
    pub fn set(&mut self, vout: u32, slot: Slot) -> bool {
        let page = self.pages.get_mut(Self::page_of(vout)).and_then(Option::as_mut);
        let Some(place) = page.and_then(|page| page.get_mut(vout as usize % PAGE_SLOTS)) else {
            return false;
        };
        let was_open = u32::from(place.is_open());
        *place = slot;
        // What was open has been counted.
        self.open = (self.open + u32::from(slot.is_open())).saturating_sub(was_open);
        true
    }

    /// Every output that was read, with its number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Slot)> {
        let pages = self.pages.iter().enumerate();
        let read = pages.filter_map(|(at, page)| Some((at, page.as_ref()?)));
        read.flat_map(|(at, page)| {
            let slots = page.iter().enumerate();
            slots.map(move |(place, slot)| (narrow(at * PAGE_SLOTS + place), *slot))
        })
    }
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [Slot; 5] =
        [Slot::Unspendable, Slot::Unspent, Slot::Spent(BY), Slot::SpentPruned(BY), Slot::Frozen];
    const EVENTS: [SlotEvent; 6] = [
        SlotEvent::Spend,
        SlotEvent::OwnSpend,
        SlotEvent::OwnUnspend,
        SlotEvent::OwnDelete,
        SlotEvent::Freeze,
        SlotEvent::Unfreeze,
    ];
    #[allow(clippy::cast_possible_truncation)]
    const PAGE: u32 = PAGE_SLOTS as u32;
    const BY: Spender = Spender { tx: TxId([7; 32]), vin: 3 };

    #[test]
    fn what_is_not_in_the_table_does_not_happen() {
        for slot in STATES {
            for event in EVENTS {
                let row = SLOT_TABLE.iter().find(|row| (row.0, row.1) == (slot.state(), event));
                assert_eq!(slot.after(event, BY).map(Slot::state), row.map(|row| row.2));
            }
        }
    }

    #[test]
    fn nothing_leads_out_of_pruned_or_unspendable() {
        for event in EVENTS {
            assert_eq!(Slot::SpentPruned(BY).after(event, BY), None);
            assert_eq!(Slot::Unspendable.after(event, BY), None);
        }
    }

    #[test]
    fn coins_are_counted_over_all_pages() {
        let mut slots = Slots::new(&[Slot::Unspent; 3 * PAGE_SLOTS + 1]);
        let last = 3 * PAGE;
        assert_eq!((slots.page_count(), slots.open(), slots.len()), (4, last + 1, last + 1));
        assert!(slots.set(last, Slot::Spent(BY)));
        assert!(slots.set(last, Slot::SpentPruned(BY)));
        assert!(!slots.set(last + 1, Slot::Spent(BY)));
        assert_eq!(slots.open(), last);
        assert_eq!(slots.iter().last(), Some((last, Slot::SpentPruned(BY))));
    }

    #[test]
    fn a_page_that_was_not_read_answers_nothing() {
        let vout = PAGE + 2;
        let mut slots =
            Slots::stored(SlotCounts { count: vout + 1, open: 9 }, vec![Slot::Unspent; PAGE_SLOTS]);
        assert_eq!(slots.missing_pages().collect::<Vec<_>>(), [1]);
        assert!(!slots.set(vout, Slot::Frozen));
        slots.put_page(1, vec![Slot::Unspent; 3]);
        assert_eq!(slots.get(vout), Some(Slot::Unspent));
        assert_eq!(slots.get(vout + 1), None);
    }

    #[test]
    fn op_return_first_and_over_long_scripts_cannot_be_spent() {
        assert!(is_unspendable(&[0x6a, 1, 2]) && is_unspendable(&[0x51; 10_001]));
        assert!(!is_unspendable(&[]) && !is_unspendable(&[0x51; 10_000]));
    }
}
