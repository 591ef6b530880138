//! Parsing of quantities from text and configuration files, and its error.

use serde::de::{Deserialize, Deserializer, Visitor};
use std::fmt;

/// The error for text that is not the expected quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}")]
pub struct ParseError {
    /// The rejected text, unchanged.
    pub text: String,
    /// Description of the expected quantity, with an example.
    pub what: &'static str,
}

impl ParseError {
    pub(crate) fn new(text: &str, what: &'static str) -> Self {
        Self {
            text: text.to_owned(),
            what,
        }
    }
}

/// The value of a quantity in a configuration file, before it is parsed.
pub(crate) enum Text {
    Number(u64),
    Words(String),
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Either)
    }
}

/// Visitor for [`Text`]. Negative and fractional numbers become words, so that the parser
/// rejects them with an example.
struct Either;

impl Visitor<'_> for Either {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or one with its unit")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
        Ok(Text::Number(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
        let words = |_| Text::Words(number.to_string());
        Ok(u64::try_from(number).map_or_else(words, Text::Number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
        Ok(Text::Words(number.to_string()))
    }

    fn visit_str<E>(self, words: &str) -> Result<Text, E> {
        Ok(Text::Words(words.to_owned()))
    }
}

/// Splits `text` into a decimal number and a suffix: (all digits as one integer, number
/// of digits after the point, suffix).
fn split(text: &str) -> Option<(u64, u32, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 9 {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, u32::try_from(fraction.len()).ok()?, suffix.trim()))
}

/// Parses `text` into a number of base units. `unit` maps a suffix to its base units;
/// the result must be a whole number, and `what` describes the quantity in errors.
pub(crate) fn quantity(
    text: &str,
    what: &'static str,
    unit: impl Fn(&str) -> Option<u64>,
) -> Result<u64, ParseError> {
    let refuse = || ParseError::new(text, what);
    let (digits, places, suffix) = split(text.trim()).ok_or_else(refuse)?;
    let scale = unit(suffix).ok_or_else(refuse)?;
    let divisor = 10_u128.pow(places);
    let product = u128::from(digits) * u128::from(scale);
    if product % divisor != 0 {
        return Err(refuse());
    }
    u64::try_from(product / divisor).map_err(|_| refuse())
}
