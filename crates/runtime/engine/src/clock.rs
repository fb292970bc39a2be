//! The one place that asks what time it is, and the one form in which times are shown.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer};
use unspent_model::Micros;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type},
    },
};

/// The moment that it is. A clock before 1970 counts as 1970.
pub fn now() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Micros::default().later(since)
}

const MICROS: i64 = 1_000_000;
const DAY: i64 = 86_400;

/// A moment, in microseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Time(pub i64);

impl Time {
    /// The seconds of a block header.
    pub fn seconds(seconds: u64) -> Self {
        Self(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(MICROS))
    }

    /// As people of any time zone read it.
    pub fn text(self) -> String {
        let (date, clock) = (self.date(), self.clock());
        format!("{date} {clock} UTC")
    }

    /// The first moment, in UTC, of a day written as `2023-05-01`.
    pub fn of_date(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut number = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            if is_number { part.parse::<i64>().ok() } else { None }
        };
        let (year, month, day) = (number(4)?, number(2)?, number(2)?);
        // The day that is shown as this text; there is none for the 31st of April.
        let guess = (year - 1970) * 365 + (year - 1969) / 4 + (month - 1) * 28 + day - 60;
        let found = (guess..guess + 120).find(|days| civil(*days) == (year, month, day))?;
        parts.next().is_none().then_some(Self(found * DAY * MICROS))
    }

    /// Its day in UTC, as `2023-05-01`.
    pub fn date(self) -> String {
        let (year, month, day) = civil(self.0.div_euclid(MICROS * DAY));
        format!("{year:04}-{month:02}-{day:02}")
    }

    fn clock(self) -> String {
        let second = self.0.div_euclid(MICROS).rem_euclid(DAY);
        format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
    }
}

/// The civil date of a day since 1970, counting years from March so that leap days come last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

impl From<Micros> for Time {
    fn from(moment: Micros) -> Self {
        Self(moment.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.rem_euclid(MICROS);
        write!(f, "{}T{}.{micros:06}Z", self.date(), self.clock())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

impl ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_they_are_shown() {
        for days in (-3_000..80_000).step_by(7) {
            let time = Time(days * DAY * MICROS);
            assert_eq!(Time::of_date(&time.date()), Some(time), "{}", time.date());
        }
        assert_eq!(Time::of_date("2023-05-01").map(|time| time.0), Some(1_682_899_200 * MICROS));
        assert!(Time::of_date("2024-02-29").is_some() && Time::of_date("2023-02-29").is_none());
        for wrong in
            ["", "2023", "2023-5-1", "2023-04-31", "2023-13-01", "2023-05-01-", "+023-05-01"]
        {
            assert_eq!(Time::of_date(wrong), None, "{wrong}");
        }
    }
}
