//! What is asked for by a name and parameters: `name:param=value,…`.
//!
//! Invariant: each value that [`Given`] has was accepted by the unit of its parameter, so who reads
//! it finds what that unit promises. Lists, help and messages derive from the tables of who has
//! something to ask for.

use std::collections::BTreeMap;
use units::did_you_mean;

/// What values look like.
pub trait Unit: Copy + 'static {
    /// What is expected, for people: `a whole number above 0`.
    fn expectation(self) -> String;

    /// Whether `text` is such a value.
    fn accepts(self, text: &str) -> bool;
}

/// Something that has a name.
#[derive(Debug)]
pub struct Preset<U: 'static> {
    /// The name; for a file, what stands for its path.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    /// Parameters of its own, which come before those of `common` and hide what has their name.
    pub own: &'static [Param<U>],
    /// Those of all like it.
    pub common: &'static [Param<U>],
}

/// A parameter, written `name=value`.
#[derive(Clone, Copy, Debug)]
pub struct Param<U> {
    /// Its name.
    pub name: &'static str,
    /// Its value if none is given.
    pub default: &'static str,
    /// What a value looks like.
    pub unit: U,
    /// One line.
    pub help: &'static str,
}

/// A preset, and which values were given for its parameters.
#[derive(Clone, Debug)]
pub struct Given<U: 'static> {
    preset: &'static Preset<U>,
    values: BTreeMap<&'static str, String>,
}

/// A parameter that is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// There is none of that name.
    #[error("{called}: expected one of the parameters {known}, found {found:?}{hint}")]
    Name {
        /// What it was given for.
        called: String,
        /// All parameters of that.
        known: String,
        /// The text as given.
        found: String,
        /// `; did you mean …`, or nothing.
        hint: String,
    },
    /// It has no such value.
    #[error("{called}: {param}: expected {expected}, found {found:?}")]
    Value {
        /// What it was given for.
        called: String,
        /// The parameter.
        param: &'static str,
        /// What its value looks like.
        expected: String,
        /// The text as given.
        found: String,
    },
}

impl<U: Unit> Preset<U> {
    /// All parameters, in the order in which they are listed.
    pub fn params(&self) -> impl Iterator<Item = &'static Param<U>> + use<U> {
        let own = self.own;
        let hidden = move |p: &&Param<U>| own.iter().all(|o| o.name != p.name);
        own.iter().chain(self.common.iter().filter(hidden))
    }

    /// The parameter called `name`.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&'static Param<U>> {
        self.params().find(|p| p.name == name)
    }
}

impl<U> Param<U> {
    /// One of these.
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
    /// All parameters of `preset` as they are by default.
    #[must_use]
    pub const fn none(preset: &'static Preset<U>) -> Self {
        Self {
            preset,
            values: BTreeMap::new(),
        }
    }

    /// Reads `param=value,param=value` for `preset`, which messages call `called`.
    ///
    /// # Errors
    /// If there is no such parameter or value.
    pub fn parse(preset: &'static Preset<U>, called: &str, text: &str) -> Result<Self, ParamError> {
        let mut given = Self::none(preset);
        for assignment in assignments(text) {
            let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
            given.set(called, name, value)?;
        }
        Ok(given)
    }

    /// Takes `value` for the parameter called `name`.
    ///
    /// # Errors
    /// As of [`Given::parse`]; nothing has changed then.
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

    /// The name of the preset.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.preset.name
    }

    /// Whether there is such a parameter.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.preset.param(name).is_some()
    }

    /// Whether a value was given for it.
    #[must_use]
    pub fn gives(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The value of the parameter called `name`: what was given, or its default; nothing if there
    /// is no such parameter.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        let default = || self.preset.param(name).map_or("", |p| p.default);
        self.values.get(name).map_or_else(default, String::as_str)
    }

    /// That value as `read` reads it.
    ///
    /// # Panics
    /// If the unit accepts what `read` does not.
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

/// The assignments in `text`. A comma also stands within a device (`8,0`), so what holds no `=` and
/// begins with a digit continues the assignment before.
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

/// A decimal with up to `places` places, as a whole number of its last place: of `0.99` with three
/// places 990.
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
    fn what_is_given_stands_before_defaults_and_the_own_before_the_common() {
        let given = Given::parse(&WALK, "walk", "pause=3").unwrap();
        let number = |name| given.value(name, |text| text.parse::<u64>().ok());
        assert_eq!((number("steps"), number("pause")), (7, 3));
        assert!(given.gives("pause") && !given.gives("steps"));
        assert_eq!(WALK.params().count(), 2);
        assert_ne!(given, Given::none(&WALK));
    }

    #[test]
    fn what_is_refused_is_told_and_changes_nothing() {
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
