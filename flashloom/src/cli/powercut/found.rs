//! The report of power cuts under a program: a table, a JSON document, and JUnit's format.

use powercut::{Checked, Outcome};
use report::Style;
use report::table::facts;
use serde::Serialize;
use std::fmt::Write;

/// Most failures that a document lists, and those that a table does; all are counted.
const LISTED: usize = 100;
const TOLD: usize = 10;

/// Kind of a checked state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// The checker ended with 0.
    Passed,
    /// The checker ended with another exit status.
    Failed,
    /// A signal ended the checker.
    Crashed,
    /// The checker ran out of time.
    Hung,
    /// The file system did not recover, so there was no tree to check.
    Unrecovered,
}

/// A distinct state with the result of its check.
pub(super) struct Case {
    /// Earliest cut that led to the state.
    pub(super) cut: String,
    pub(super) kind: Kind,
    /// Exit status, or number of the signal.
    status: Option<i32>,
    /// Last lines that the checker printed.
    pub(super) stderr: String,
    /// Words on the last call before the cut; `None` if there is none.
    pub(super) after: Option<String>,
}

impl Case {
    /// The state after `cut` with the result of its check.
    pub(super) fn of(cut: String, checked: Checked) -> Self {
        let (kind, status) = match checked.outcome {
            Outcome::Passed => (Kind::Passed, Some(0)),
            Outcome::Failed(status) => (Kind::Failed, Some(status)),
            Outcome::Crashed(signal) => (Kind::Crashed, Some(signal)),
            Outcome::Hung => (Kind::Hung, None),
        };
        Self {
            cut,
            kind,
            status,
            stderr: checked.said,
            after: None,
        }
    }

    /// The state after `cut` of a file system that did not recover.
    pub(super) fn unrecovered(cut: String, error: &str) -> Self {
        Self {
            cut,
            kind: Kind::Unrecovered,
            status: None,
            stderr: error.to_owned(),
            after: None,
        }
    }

    /// Words on the result of the check.
    pub(super) fn told(&self) -> String {
        let status = self.status.unwrap_or_default();
        match self.kind {
            Kind::Passed => "passed".to_owned(),
            Kind::Failed => format!("failed with exit status {status}"),
            Kind::Crashed => format!("was ended by signal {status}"),
            Kind::Hung => "hung and was killed".to_owned(),
            Kind::Unrecovered => "did not run: the file system did not recover".to_owned(),
        }
    }
}

/// A state that did not pass, with the command that repeats its cut.
#[derive(Serialize)]
pub(super) struct Failed {
    cut: String,
    outcome: Kind,
    status: Option<i32>,
    stderr: String,
    /// The last call before the cut.
    after: Option<String>,
    repeat: String,
    #[serde(skip)]
    told: String,
}

/// JSON document of `powercut`.
#[derive(Default, Serialize)]
pub(super) struct Found {
    pub(super) on: String,
    pub(super) every: Option<String>,
    pub(super) points: Option<u64>,
    pub(super) at: Option<String>,
    pub(super) seed: u64,
    pub(super) check: String,
    /// Recorded calls that change or force files.
    pub(super) calls: u64,
    pub(super) events: u64,
    /// Power cuts, those of recoveries included.
    pub(super) cuts: u64,
    /// Recoveries that were run; cuts that left equal states share one.
    pub(super) recovered: u64,
    /// Distinct states, each checked once.
    pub(super) states: u64,
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) crashed: u64,
    pub(super) hung: u64,
    pub(super) unrecovered: u64,
    /// Cuts that led to a state that did not pass.
    pub(super) failed_cuts: u64,
    /// The bound that ended the run early.
    pub(super) bound: Option<String>,
    /// States that did not pass, in the order of their cuts; the first has the earliest cut.
    pub(super) failures: Vec<Failed>,
}

impl Found {
    /// Adds a checked state, with the command that repeats it.
    pub(super) fn add(&mut self, case: &Case, repeat: impl FnOnce() -> String) {
        let count = match case.kind {
            Kind::Passed => &mut self.passed,
            Kind::Failed => &mut self.failed,
            Kind::Crashed => &mut self.crashed,
            Kind::Hung => &mut self.hung,
            Kind::Unrecovered => &mut self.unrecovered,
        };
        *count += 1;
        if case.kind == Kind::Passed || self.failures.len() == LISTED {
            return;
        }
        self.failures.push(Failed {
            cut: case.cut.clone(),
            outcome: case.kind,
            status: case.status,
            stderr: case.stderr.clone(),
            after: case.after.clone(),
            repeat: repeat(),
            told: case.told(),
        });
    }

    /// Whether every state passed.
    pub(super) const fn holds(&self) -> bool {
        self.passed == self.states
    }

    /// The table for a terminal.
    pub(super) fn told(&self, style: Style) -> String {
        let count = |n: u64| report::human::count(n as f64);
        let cuts = match (&self.every, &self.points, &self.at) {
            (Some(every), _, _) if every == "flush" => "every flush".to_owned(),
            (Some(every), _, _) if every == "1" => "every event".to_owned(),
            (Some(every), _, _) => format!("every {every} events"),
            (_, Some(points), _) => format!("{points} events, seed {}", self.seed),
            (_, _, at) => format!("event {}", at.as_deref().unwrap_or_default()),
        };
        let mut lines = vec![
            ("stack", self.on.clone()),
            ("recorded calls", count(self.calls)),
            ("events", count(self.events)),
            ("cut at", cuts),
            ("power cuts", count(self.cuts)),
            ("distinct states", count(self.states)),
            ("passed", count(self.passed)),
            ("failed", count(self.failed)),
        ];
        let rare = [
            ("crashed", self.crashed),
            ("hung", self.hung),
            ("not recovered", self.unrecovered),
        ];
        let rare = rare.into_iter().filter(|(_, states)| *states > 0);
        lines.extend(rare.map(|(what, states)| (what, count(states))));
        if let Some(bound) = &self.bound {
            lines.push(("ended early", format!("after {bound}")));
        }
        let mut out = facts(lines, style);
        for (index, failed) in self.failures.iter().take(TOLD).enumerate() {
            let first = if index == 0 { ", the earliest" } else { "" };
            let after = failed.after.as_ref();
            let after = after.map_or(String::new(), |call| format!(", after {call}"));
            let Failed { cut, told, .. } = failed;
            out += &format!("\ncut {cut}{first}{after}: the check {told}\n");
            for line in failed.stderr.lines() {
                out += &format!("  {line}\n");
            }
            out += &format!("  {}\n", failed.repeat);
        }
        let wrong = self.states - self.passed;
        if wrong > TOLD as u64 {
            out += &format!(
                "\n{} more states fail; --json lists them\n",
                wrong - TOLD as u64
            );
        }
        out
    }

    /// The document in JUnit's format: a test case for each state.
    pub(super) fn junit(&self, cases: &[Case]) -> String {
        let (states, wrong) = (self.states, self.states - self.passed);
        let on = escaped(&self.on);
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite \
             name=\"flashloom powercut {on}\" tests=\"{states}\" failures=\"{wrong}\">\n"
        );
        for case in cases {
            let cut = escaped(&case.cut);
            let _ = write!(out, "    <testcase classname=\"{on}\" name=\"cut {cut}\"");
            if case.kind == Kind::Passed {
                out += "/>\n";
                continue;
            }
            let (told, said) = (escaped(&case.told()), escaped(&case.stderr));
            let _ = writeln!(
                out,
                ">\n      <failure message=\"the check {told}\">{said}</failure>\n    </testcase>"
            );
        }
        out + "  </testsuite>\n</testsuites>\n"
    }
}

/// `text` for XML, without the characters that XML cannot hold.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' => out.push(letter),
            letter if letter.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&letter) => {
                out.push('\u{fffd}');
            }
            letter => out.push(letter),
        }
    }
    out
}

/// `word` as a shell reads it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_if_a_shell_would_change_them() {
        assert_eq!(quoted("./check.sh"), "./check.sh");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn junit_has_a_case_for_each_state() {
        let checked = |outcome| Checked {
            outcome,
            said: "a < b\u{1b}".to_owned(),
        };
        let cases = [
            Case::of("3".to_owned(), checked(Outcome::Passed)),
            Case::of("5:1".to_owned(), checked(Outcome::Crashed(11))),
        ];
        let mut found = Found {
            on: "ext4@block".to_owned(),
            states: 2,
            ..Found::default()
        };
        cases.iter().for_each(|case| found.add(case, String::new));
        let text = found.junit(&cases);
        assert!(text.contains("tests=\"2\" failures=\"1\""), "{text}");
        assert!(text.contains("name=\"cut 3\"/>"), "{text}");
        let failure = "<failure message=\"the check was ended by signal 11\">a &lt; b\u{fffd}<";
        assert!(text.contains(failure), "{text}");
        assert!(!found.holds());
    }
}
