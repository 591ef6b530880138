//! Numbers of named devices, in the order of first appearance.
//!
//! Invariant: a name that was met last is found without allocation and without a search; at most
//! [`NAMES_MAX`] names are remembered.

use input::{Expected, expected};
use std::collections::BTreeMap;

/// Upper bound on the names of a trace; a trace with more is refused.
const NAMES_MAX: usize = 4096;

/// Names met so far, each with its number.
#[derive(Default)]
pub(super) struct Names {
    numbers: BTreeMap<String, u64>,
    /// Name looked up last, with its number: a cache of `numbers`.
    last: Option<(Vec<u8>, u64)>,
}

impl Names {
    /// Number of `name`; `kind` is the plural of the named things in the error.
    pub(super) fn number(&mut self, name: &[u8], kind: &str) -> Result<u64, Expected> {
        if let Some((last, number)) = &self.last
            && last == name
        {
            return Ok(*number);
        }
        let text = String::from_utf8_lossy(name);
        let next = self.numbers.len();
        let number = match self.numbers.get(&*text) {
            Some(&number) => number,
            None if next == NAMES_MAX => return expected(format!("at most {NAMES_MAX} {kind}")),
            None => {
                self.numbers.insert(text.into_owned(), next as u64);
                next as u64
            }
        };
        let (last, of) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(name);
        *of = number;
        Ok(number)
    }
}
