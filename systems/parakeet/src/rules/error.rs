//! Errors in a rule file, with their position.

/// An error in a rule file: one sentence, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct RuleError {
    /// Name of the file, as it was passed.
    pub file: String,
    /// Line of the error, from 1.
    pub line: usize,
    /// Column of the error in characters, from 1.
    pub column: usize,
    /// Expectation and finding, perhaps with a suggestion.
    pub problem: String,
}

impl RuleError {
    /// An error `problem` at byte `at` of `text`.
    pub(crate) fn at(file: &str, text: &str, at: usize, problem: impl Into<String>) -> Self {
        let mut end = at.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        let problem: String = problem.into();
        Self {
            file: file.to_owned(),
            line: 1 + before.bytes().filter(|&byte| byte == b'\n').count(),
            column: 1 + before[begin..].chars().count(),
            problem: problem.lines().collect::<Vec<_>>().join("; "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_lines_and_characters() {
        let text = "a = 1\nä = 2\n";
        let place = |at| {
            let error = RuleError::at("f", text, at, "x");
            (error.line, error.column)
        };
        assert_eq!(place(0), (1, 1));
        assert_eq!(place(5), (1, 6));
        assert_eq!(place(6), (2, 1));
        assert_eq!(place(7), (2, 1), "within a character is at it");
        assert_eq!(place(8), (2, 2));
        assert_eq!(place(usize::MAX), (3, 1));
        let error = RuleError::at("f", text, 0, "one\ntwo");
        assert_eq!(error.to_string(), "f:1:1: one; two");
    }
}
