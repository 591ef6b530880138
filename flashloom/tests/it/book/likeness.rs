//! Comparison of printed output with that on a page.
//!
//! Lines are equal up to space at their ends. On a page, `…` alone on a line stands for any lines,
//! and within a line for any characters. Lines about the machine are compared by their label only.

/// Labels of lines with numbers of the machine.
const OF_THE_MACHINE: [&str; 3] = ["wall time", "recorded in", "peak memory"];
const ANYTHING: &str = "…";

/// The first difference of `printed` from `shown`: the line shown that was not printed, or the
/// first one printed beyond the end; `None` if they agree.
pub(super) fn difference(shown: &str, printed: &str) -> Option<String> {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.trim_end().lines();
        lines.map(|line| line.trim_end().to_owned()).collect()
    };
    let (shown, printed) = (lines(shown), lines(printed));
    let mut rest = &printed[..];
    let mut parts = shown.split(|line| line == ANYTHING).peekable();
    let mut anywhere = false;
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let at = match (anywhere, last) {
            (false, _) => 0,
            // The last part must match at the end.
            (true, true) => rest.len().saturating_sub(part.len()),
            (true, false) => found(part, rest).unwrap_or(0),
        };
        if let Some(differs) = first(part, &rest[at.min(rest.len())..]) {
            return Some(differs);
        }
        rest = &rest[at + part.len()..];
        anywhere = true;
    }
    rest.first().map(|line| format!("not shown: {line}"))
}

/// Position at which `part` matches in `rest`.
fn found(part: &[String], rest: &[String]) -> Option<usize> {
    (0..=rest.len()).find(|at| first(part, &rest[*at..]).is_none())
}

/// The first line of `part` that does not match the start of `rest`.
fn first(part: &[String], rest: &[String]) -> Option<String> {
    let mut rest = rest.iter();
    let differs = part.iter().find(|line| match rest.next() {
        Some(printed) => !alike(line, printed),
        None => true,
    });
    differs.map(|line| format!("shown, and not printed: {line}"))
}

/// Whether a line shown matches a printed one.
fn alike(shown: &str, printed: &str) -> bool {
    let label = |line: &str| {
        let line = line.trim_start();
        OF_THE_MACHINE
            .iter()
            .position(|label| line.starts_with(label))
    };
    match label(shown) {
        Some(label_of) => label(printed) == Some(label_of),
        None => matches(shown, printed),
    }
}

/// Whether `printed` matches `shown`, in which `…` stands for anything; then the amount of space
/// between words is ignored.
fn matches(shown: &str, printed: &str) -> bool {
    if !shown.contains(ANYTHING) {
        return shown == printed;
    }
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, printed) = (words(shown), words(printed));
    let mut parts = shown.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        // The part that ends a line must match at its end.
        let at = if part.is_empty() { rest.len() } else { at };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::{difference, matches};

    #[test]
    fn equal_lines_are_alike_and_others_are_not() {
        assert_eq!(difference("a\nb\n", "a  \nb\n\n"), None);
        assert!(difference("a\nb\n", "a\nc\n").is_some());
        assert!(difference("a\n", "a\nb\n").is_some());
        assert!(difference("a\nb\n", "a\n").is_some());
        assert!(difference("", "a\n").is_some());
    }

    #[test]
    fn an_ellipsis_stands_for_lines() {
        assert_eq!(difference("a\n…\nd\n", "a\nb\nc\nd\n"), None);
        assert_eq!(difference("a\n…\n", "a\nb\n"), None);
        assert_eq!(difference("…\nd\n", "a\nd\n"), None);
        assert_eq!(difference("…\nb\n…\n", "a\nb\nc\n"), None);
        assert!(difference("a\n…\nd\n", "a\nb\nc\n").is_some());
        assert!(difference("…\nx\n…\n", "a\nb\nc\n").is_some());
        assert!(difference("a\n…\na\n", "a\n").is_some());
    }

    #[test]
    fn an_ellipsis_stands_for_characters() {
        assert!(matches("took … s", "took 12 s"));
        assert!(matches("took …", "took 12 s"));
        assert!(!matches("took … s", "took 12 ms or so"));
        assert!(!matches("took … s", "lasted 12 s"));
        assert!(matches("1  …      a  b", "1  2026-01-01  a  b"));
        assert!(!matches("1 a", "1  a"));
    }

    #[test]
    fn numbers_of_the_machine_are_ignored() {
        assert_eq!(
            difference("  wall time  3.72 s\n", "  wall time   12.0 s\n"),
            None
        );
        assert!(difference("  wall time  3.72 s\n", "  sim time  3.72 s\n").is_some());
    }
}
