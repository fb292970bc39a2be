//! The pauses between two looks at a payment.
//!
//! | what is looked at | pause |
//! |---|---|
//! | at a mint that doesn't tell | 10 s |
//! | at a mint that tells: in case it is silent | 60 s |
//! | at a mint that asked for fewer requests | what it asked for, else 60 s |
//! | after an answer that says nothing | 1 s, doubled up to 60 s |
//! | change that is owed | a quarter of the time since the payment, 1 s to 1 h |
//! | a Spark payment that is sent | 1 s |
//! | a Spark invoice, by its age | below 5 min 1 s, below 10 min 5 s, below 1 h 30 s, then 60 s |
//!
//! Pure: time is an argument.

use std::time::{Duration, Instant};

/// A mint that doesn't tell is asked so often.
pub const ASK_EVERY: Duration = Duration::from_secs(10);
/// A mint that tells is asked so often, since sockets die without a word.
pub const ASK_BESIDE: Duration = Duration::from_secs(60);
/// A mint that has too many requests is left alone for so long, unless it says otherwise.
pub const TOO_MANY: Duration = Duration::from_secs(60);
/// The first pause after an answer that says nothing.
pub const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest.
pub const LAST_RETRY: Duration = Duration::from_secs(60);
/// Change that is owed is asked for at most so often, and at least.
const OWED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3_600));
/// A Spark payment that was sent is asked about so often.
pub const SPARK_SEND: Duration = Duration::from_secs(1);

const MINUTE: u64 = 60;
/// Ages below which a Spark invoice is looked at so often.
const SPARK_AGES: [(Duration, Duration); 3] = [
    (Duration::from_secs(5 * MINUTE), Duration::from_secs(1)),
    (Duration::from_secs(10 * MINUTE), Duration::from_secs(5)),
    (Duration::from_secs(60 * MINUTE), Duration::from_secs(30)),
];

/// Why a payment is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeCause {
    /// The mint gave notice.
    Notice,
    /// Nobody listened for a while, or only now began to.
    Gap,
}

/// A payment to look at now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PaymentWake {
    /// Which.
    pub subject: String,
    /// Why.
    pub cause: WakeCause,
}

/// The pause until a mint is asked again about something that is still open.
pub fn ask_after(is_told: bool) -> Duration {
    if is_told { ASK_BESIDE } else { ASK_EVERY }
}

/// The pause after `tries` answers in a row that said nothing, at least one.
pub fn retry_after(tries: u32) -> Duration {
    // The first pause isn't doubled; the longest has a limit.
    let doubled = 2_u32.checked_pow(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_RETRY.saturating_mul(doubled).min(LAST_RETRY)
}

/// The pause after `tries` answers in a row that said nothing, where the mint wants to be left
/// alone for `quiet`.
pub fn unclear_after(tries: u32, quiet: Duration) -> Duration {
    retry_after(tries).max(quiet)
}

/// The pause until change is asked for again, so long after the payment. It goes by the payment's
/// own age, so that it grows over restarts too.
pub fn owed_after(age: Duration) -> Duration {
    let (least, most) = OWED;
    (age / 4).clamp(least, most)
}

/// Until when a mint wants to be left alone.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct QuietPeriod {
    until: Option<Instant>,
}

impl QuietPeriod {
    /// The mint has too many requests, and says for how long, or doesn't. A longer wish from
    /// before stays.
    pub fn asked_for(&mut self, pause: Option<Duration>, now: Instant) {
        let until = now.checked_add(pause.unwrap_or(TOO_MANY));
        self.until = self.until.max(until);
    }

    /// How long it still does. Zero: it may be asked.
    pub fn left(&self, now: Instant) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

/// The pause until a Spark invoice of this age is looked at again.
pub fn spark_receive_after(age: Duration) -> Duration {
    let found = SPARK_AGES.iter().find(|(below, _)| age < *below);
    found.map_or(Duration::from_secs(MINUTE), |(_, pause)| *pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spark_invoices_are_looked_at_less_often_as_they_age() {
        let ages = [0, 299, 300, 599, 600, 3_599, 3_600, 1_000_000];
        let pauses = ages.map(|age| spark_receive_after(Duration::from_secs(age)).as_secs());
        assert_eq!(pauses, [1, 1, 5, 5, 30, 30, 60, 60]);
    }

    #[test]
    fn a_mint_with_too_many_requests_is_left_alone_for_as_long_as_it_says_or_a_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut quiet = QuietPeriod::default();
        assert_eq!(quiet.left(start), Duration::ZERO);
        assert_eq!(unclear_after(1, quiet.left(start)), FIRST_RETRY);
        quiet.asked_for(None, start);
        assert_eq!(unclear_after(1, quiet.left(start)), TOO_MANY);
        assert_eq!(unclear_after(1, quiet.left(at(20))), Duration::from_secs(40));
        // A shorter wish takes nothing back, a longer one counts.
        quiet.asked_for(Some(Duration::from_secs(5)), at(20));
        assert_eq!(quiet.left(at(20)), Duration::from_secs(40));
        quiet.asked_for(Some(Duration::from_secs(120)), at(30));
        assert_eq!(unclear_after(9, quiet.left(at(30))), Duration::from_secs(120));
        assert_eq!(quiet.left(at(150)), Duration::ZERO);
        assert_eq!(unclear_after(3, quiet.left(at(150))), Duration::from_secs(4));
        // A mint that is asked about again is asked every ten seconds as before.
        assert_eq!(ask_after(false).max(quiet.left(at(150))), ASK_EVERY);
    }

    #[test]
    fn change_is_asked_for_ever_less_often() {
        let ages = [0, 1, 8, 600, 14_400, 86_400];
        let pauses = ages.map(|age| owed_after(Duration::from_secs(age)).as_secs());
        assert_eq!(pauses, [1, 1, 2, 150, 3_600, 3_600]);
    }

    #[test]
    fn retries_slow_down_and_never_stop() {
        let pauses = [0, 1, 2, 3, 6, 7, 8, 40, u32::MAX].map(|tries| retry_after(tries).as_secs());
        assert_eq!(pauses, [1, 1, 2, 4, 32, 60, 60, 60, 60]);
    }
}
