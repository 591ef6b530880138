//! Names with parameters: `name:param=value,…`.
//!
//! Invariant: the unit of its parameter has accepted every value in [`Given`], so a reader of the
//! value may rely on the unit. Lists, help and messages derive from the tables of presets of the
//! calling crates.

use std::collections::BTreeMap;
use units::did_you_mean;

/// Check and description of a parameter's values.
pub trait Unit: Copy + 'static {
    /// Expectation of a value for messages, such as `a whole number above 0`.
    fn expectation(self) -> String;

    /// Whether `text` is a valid value.
    fn accepts(self, text: &str) -> bool;
}

/// Named thing with parameters: a workload, a trace or the like.
#[derive(Debug)]
pub struct Preset<U: 'static> {
    /// Name; for a path to a file, a placeholder such as `TRACE`.
    pub name: &'static str,
    /// Description, in one line.
    pub help: &'static str,
    /// Parameters of this preset. They are listed before those of `common` and hide parameters of
    /// equal name there.
    pub own: &'static [Param<U>],
    /// Parameters shared by all presets of its kind.
    pub common: &'static [Param<U>],
}

/// A parameter, written `name=value`.
#[derive(Clone, Copy, Debug)]
pub struct Param<U> {
    /// Name of the parameter.
    pub name: &'static str,
    /// Value if none is given, as text.
    pub default: &'static str,
    /// Unit that checks the values.
    pub unit: U,
    /// Description, in one line.
    pub help: &'static str,
}

/// Preset with the values given for its parameters.
#[derive(Clone, Debug)]
pub struct Given<U: 'static> {
    preset: &'static Preset<U>,
    values: BTreeMap<&'static str, String>,
}

/// Error of parsing a parameter.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// The preset has no parameter of this name.
    #[error("{called}: expected one of the parameters {known}, found {found:?}{hint}")]
    Name {
        /// Name of the preset or file in messages.
        called: String,
        /// Names of all parameters of the preset, separated by commas.
        known: String,
        /// Name as it was given.
        found: String,
        /// Suggestion `; did you mean …`; may be empty.
        hint: String,
    },
    /// The value is not one of the parameter's unit.
    #[error("{called}: {param}: expected {expected}, found {found:?}")]
    Value {
        /// Name of the preset or file in messages.
        called: String,
        /// Name of the parameter.
        param: &'static str,
        /// Expectation of the unit.
        expected: String,
        /// Value as it was given.
        found: String,
    },
}

impl<U: Unit> Preset<U> {
    /// All parameters, in the order in which lists show them.
    pub fn params(&self) -> impl Iterator<Item = &'static Param<U>> + use<U> {
        let own = self.own;
        let hidden = move |p: &&Param<U>| own.iter().all(|o| o.name != p.name);
        own.iter().chain(self.common.iter().filter(hidden))
    }

    /// Parameter with the name `name`, if there is one.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&'static Param<U>> {
        self.params().find(|p| p.name == name)
    }
}

impl<U> Param<U> {
    /// A parameter with these fields; usable in constants.
    pub const fn new(
        name: &'static str,
        default: &'static str,
        unit: U,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            default,
            unit,
            help,
        }
    }
}

impl<U: Unit> Given<U> {
    /// `preset` with the defaults of all parameters.
    #[must_use]
    pub const fn none(preset: &'static Preset<U>) -> Self {
        Self {
            preset,
            values: BTreeMap::new(),
        }
    }

    /// Parses `param=value,param=value` for `preset`; `called` is its name in messages.
    ///
    /// # Errors
    /// If there is no such parameter, or the value is invalid.
    pub fn parse(preset: &'static Preset<U>, called: &str, text: &str) -> Result<Self, ParamError> {
        let mut given = Self::none(preset);
        for assignment in assignments(text) {
            let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
            given.set(called, name, value)?;
        }
        Ok(given)
    }

    /// Sets the parameter `name` to `value`; `called` is the preset's name in messages.
    ///
    /// # Errors
    /// As of [`Given::parse`]; the values are unchanged then.
    pub fn set(&mut self, called: &str, name: &str, value: &str) -> Result<(), ParamError> {
        let Some(param) = self.preset.param(name) else {
            let names: Vec<&str> = self.preset.params().map(|p| p.name).collect();
            return Err(ParamError::Name {
                called: called.to_owned(),
                known: names.join(", "),
                found: name.to_owned(),
                hint: did_you_mean(name, names),
            });
        };
        if !param.unit.accepts(value) {
            return Err(ParamError::Value {
                called: called.to_owned(),
                param: param.name,
                expected: param.unit.expectation(),
                found: value.to_owned(),
            });
        }
        self.values.insert(param.name, value.to_owned());
        Ok(())
    }

    /// Name of the preset.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.preset.name
    }

    /// Whether the preset has a parameter `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.preset.param(name).is_some()
    }

    /// Whether a value was given for `name`, so that its default is not used.
    #[must_use]
    pub fn gives(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Value of the parameter `name`, given or default; empty if there is no such parameter.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        let default = || self.preset.param(name).map_or("", |p| p.default);
        self.values.get(name).map_or_else(default, String::as_str)
    }

    /// Value of the parameter `name`, converted by `read`.
    ///
    /// # Panics
    /// If `read` rejects a value that the unit accepts.
    #[must_use]
    pub fn value<T>(&self, name: &str, read: impl Fn(&str) -> Option<T>) -> T {
        let text = self.text(name);
        read(text).unwrap_or_else(|| panic!("{name}={text} was checked by its unit"))
    }
}

impl<U> PartialEq for Given<U> {
    fn eq(&self, other: &Self) -> bool {
        self.preset.name == other.preset.name && self.values == other.values
    }
}

/// Splits `text` into assignments. A comma also occurs within a device (`8,0`), so a piece without
/// `=` that begins with a digit continues the assignment before it.
fn assignments(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut start = 0;
    for (comma, _) in text.match_indices(',') {
        let rest = &text[comma + 1..];
        let next = rest.split(',').next().unwrap_or_default();
        if next.contains('=') || !next.starts_with(|c: char| c.is_ascii_digit()) {
            all.push(&text[start..comma]);
            start = comma + 1;
        }
    }
    all.push(&text[start..]);
    all.retain(|a| !a.is_empty());
    all
}

/// Parses a decimal with at most `places` places, as a multiple of its last place: `0.99` with
/// three places is 990.
#[must_use]
pub fn decimal(text: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if fraction.len() > places || whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    format!("{whole}{fraction:0<places$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct Number;

    impl Unit for Number {
        fn expectation(self) -> String {
            "a number".to_owned()
        }

        fn accepts(self, text: &str) -> bool {
            text.parse::<u64>().is_ok()
        }
    }

    static WALK: Preset<Number> = Preset {
        name: "walk",
        help: "steps",
        own: &[Param::new("steps", "7", Number, "how many")],
        common: &[
            Param::new("steps", "1", Number, "of others"),
            Param::new("pause", "0", Number, "between them"),
        ],
    };

    #[test]
    fn given_values_override_defaults_and_own_parameters_hide_common_ones() {
        let given = Given::parse(&WALK, "walk", "pause=3").unwrap();
        let number = |name| given.value(name, |text| text.parse::<u64>().ok());
        assert_eq!((number("steps"), number("pause")), (7, 3));
        assert!(given.gives("pause") && !given.gives("steps"));
        assert_eq!(WALK.params().count(), 2);
        assert_ne!(given, Given::none(&WALK));
    }

    #[test]
    fn invalid_parameter_is_refused_and_changes_nothing() {
        let mut given = Given::none(&WALK);
        let refused = given.set("my walk", "step", "1").unwrap_err();
        let told = "my walk: expected one of the parameters steps, pause, found \"step\"; did you mean steps";
        assert_eq!(refused.to_string(), told);
        let refused = given.set("walk", "steps", "far").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "walk: steps: expected a number, found \"far\""
        );
        assert_eq!(given, Given::none(&WALK));
    }

    #[test]
    fn a_device_keeps_its_comma() {
        assert_eq!(
            assignments("devices=8,0,depth=4"),
            ["devices=8,0", "depth=4"]
        );
        assert_eq!(assignments("a=1,,b"), ["a=1", "b"]);
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal("0.99", 6), Some(990_000));
        assert_eq!(decimal("12", 3), Some(12_000));
        assert_eq!(decimal("1.5", 3), Some(1_500));
        for text in ["0.1234", ".5", "1e-1", "+1", "-1", "", "18446744073709552"] {
            assert_eq!(decimal(text, 3), None, "{text}");
        }
    }
}
