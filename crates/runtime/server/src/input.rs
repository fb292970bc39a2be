//! What people and programs write alike: each has one text form, read by the same code on the
//! command line and in JSON, where a number may stand for its own text.

use std::{fmt, marker::PhantomData, ops::RangeInclusive, str::FromStr};

use serde::de::{Error, Visitor};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

pub use crate::in_json;

/// The longest span of time: a year.
const MAX_SECONDS: u32 = 31_536_000;

/// A span of time: `90s`, `10m`, `2h`, `1d`, or plain seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seconds(pub u32);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a time is 1 second to 1 year: write 90s, 10m, 2h or 1d".to_owned();
        let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
        let found = units.iter().find_map(|(unit, each)| Some((text.strip_suffix(unit)?, *each)));
        let (number, each) = found.unwrap_or((text, 1));
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let seconds = number.parse::<u32>().ok().and_then(|number| number.checked_mul(each));
        seconds.filter(|seconds| (1..=MAX_SECONDS).contains(seconds)).map(Self).ok_or_else(wrong)
    }
}

/// Reads text, or a number as if it were written as text.
#[derive(Debug)]
pub struct TextVisitor<T>(PhantomData<T>);

impl<T> TextVisitor<T> {
    /// Reads a `T`.
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for TextVisitor<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: FromStr<Err = String>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Gives a type with a text form its JSON and its description, where defaults are shown too.
#[macro_export]
macro_rules! in_json {
    ($type:ty, $schema:expr, $shown:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let shown: fn(&Self) -> _ = $shown;
                shown(self).serialize(to)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any($crate::input::TextVisitor::new())
            }
        }

        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                $schema.into()
            }
        }

        impl utoipa::ToSchema for $type {}
    };
}

/// Describes a number with its bounds.
pub fn number_within(kind: Type, bounds: RangeInclusive<u32>) -> Object {
    let (least, most) = bounds.into_inner();
    ObjectBuilder::new().schema_type(kind).minimum(Some(least)).maximum(Some(most)).build()
}

in_json!(Seconds, number_within(Type::Integer, 1..=MAX_SECONDS), |seconds| seconds.0);
