//! Which block may come next.
//!
//! A store is offered blocks by nodes, files and people, more than once and out of order. Whatever
//! is offered, it must stay one unbroken branch; yet a repeat is no error, for a source that starts
//! again after a crash repeats what it can't know to have arrived.
//!
//! Heights alone don't decide. Byron's epoch boundary blocks have the height of the block before
//! them: two blocks share a number, and only the parent's hash tells whether a boundary block comes
//! next or is an old one. And a block at or below the tip is a repeat or another branch depending
//! on its hash, which only the store knows: that answer is [`Admission::Below`], and the store
//! looks.
//!
//! Deliberately absent: which branch is best. [`crate::headers`] weighs branches; a source decides.

use super::{Era, Header};
use crate::Point;

/// The last block of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tip {
    /// Where it stands.
    pub point: Point,
    /// Rule set it was made under.
    pub era: Era,
}

/// What to do with a block that a store is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It follows the tip.
    Next,
    /// It follows after a hole that the caller was told to accept.
    AfterHole,
    /// It is at or below the tip: a repeat if the store knows its hash, else another branch.
    Below,
}

/// Why a block is refused. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AdmitError {
    /// Blocks between the tip and this one are missing.
    #[error(
        "block {offered} does not follow {}: the blocks between are missing",
        .tip.map_or_else(|| "the origin".to_owned(), |tip| format!("the tip {tip}"))
    )]
    Gap {
        /// Height of the tip; `None` at the origin.
        tip: Option<u64>,
        /// Height offered.
        offered: u64,
    },
    /// It names another block as its parent.
    #[error("block {height} does not build on the tip; roll back first to change branches")]
    WrongParent {
        /// Height offered.
        height: u64,
        /// Parent it names.
        parent: crate::BlockHash,
        /// Our tip.
        tip: crate::BlockHash,
    },
    /// Another block stands at its place. Roll back first to change branches.
    #[error(
        "block {height} is not the one stored at that height; roll back first to change branches"
    )]
    OtherBranch {
        /// Height offered.
        height: u64,
    },
    /// Its slot lies before the tip's.
    #[error("block {height} has slot {slot}, before the tip's {tip}")]
    SlotGoesBack {
        /// Height offered.
        height: u64,
        /// Slot offered.
        slot: u64,
        /// Slot of the tip.
        tip: u64,
    },
}

/// Whether a block may be applied on top of `tip` (`None` at the origin).
///
/// # Errors
///
/// An [`AdmitError`] that names the reason; only `allow_holes` turns a gap into an admission.
pub fn admit(
    tip: Option<&Tip>,
    header: &Header,
    allow_holes: bool,
) -> Result<Admission, AdmitError> {
    let offered = header.point.height;
    let Some(tip) = tip.map(|tip| tip.point) else {
        return match (offered, allow_holes) {
            (0, _) => Ok(Admission::Next),
            (_, true) => Ok(Admission::AfterHole),
            (_, false) => Err(AdmitError::Gap { tip: None, offered }),
        };
    };
    // A boundary block takes no number of its own.
    let next = tip.height.saturating_add(u64::from(!header.is_boundary));
    if offered < next || header.point.hash == tip.hash {
        return Ok(Admission::Below);
    }
    let admission = match (offered == next, header.parent == tip.hash, allow_holes) {
        (true, true, _) => Admission::Next,
        // It has the tip's height but not its hash as parent: the height is taken.
        (true, false, _) if header.is_boundary => return Ok(Admission::Below),
        (true, false, _) => {
            let parent = header.parent;
            return Err(AdmitError::WrongParent { height: offered, parent, tip: tip.hash });
        }
        (false, _, true) => Admission::AfterHole,
        (false, _, false) => return Err(AdmitError::Gap { tip: Some(tip.height), offered }),
    };
    if header.point.slot < tip.slot {
        let slot = header.point.slot;
        return Err(AdmitError::SlotGoesBack { height: offered, slot, tip: tip.slot });
    }
    Ok(admission)
}
