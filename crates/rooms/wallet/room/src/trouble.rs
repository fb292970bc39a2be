//! What the room's thread does about an error.

use unspent_engine::road::Trouble;
use unspent_model::Kind;
use unspent_wallet::WalletError;

/// What the room's error asks for.
pub(super) fn trouble(error: WalletError) -> Trouble {
    if matches!(
        error,
        WalletError::BlockMismatch { .. }
            | WalletError::WrongParent { .. }
            | WalletError::Gap { .. }
    ) {
        // These say only that the source took another way: the
        // road finds out where, and rolls back.
        return Trouble::Lost(error.into());
    }
    let remedy = match error.kind() {
        Kind::Busy | Kind::Unavailable => return Trouble::Busy(error.into()),
        Kind::Corrupt => "run the audit and restore a backup, then resume the room",
        // A block asks for nothing that could be refused, so that a refusal is a fault of ours.
        Kind::Refused | Kind::Bug => "report it with the log; resume the room to try again",
    };
    Trouble::stop(error, remedy)
}
