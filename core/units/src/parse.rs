//! The error of everything that is parsed from text here.

/// A quantity that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}")]
pub struct ParseError {
    /// The text as given.
    pub text: String,
    /// What was expected, with an example.
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

/// Splits `text` into a decimal integer with an optional fraction and a suffix.
/// The number is returned as (digits, digits after the point).
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

/// `text` as a whole number of base units, where `unit` gives the base units of
/// a suffix. A fraction must come out whole.
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
