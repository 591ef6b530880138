//! Lexer of scripts.

use super::ScriptError;

/// Token of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Keyword, name or path.
    Word(String),
    /// Number, with its suffix applied.
    Number(u64),
    /// Text between quotation marks.
    Text(String),
    /// Variable, without its `$`.
    Var(String),
    /// A single punctuation character.
    Mark(char),
    /// The end of a line.
    End,
}

impl Token {
    /// Text of the token in a message.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Word(text) | Self::Text(text) => format!("{:?}", cut(text)),
            Self::Number(number) => format!("\"{number}\""),
            Self::Var(name) => format!("\"${}\"", cut(name)),
            Self::Mark(mark) => format!("{:?}", mark.to_string()),
            Self::End => "the end of the line".to_owned(),
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}

/// A token and its line, from 1.
pub(super) type Placed = (Token, usize);

/// Tokens of `text`; each line ends with [`Token::End`].
pub(super) fn tokens(file: &str, text: &str) -> Result<Vec<Placed>, ScriptError> {
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let (token, after) = token(rest).map_err(|expected| ScriptError::Line {
                file: file.to_owned(),
                line: index + 1,
                expected,
                found: format!("{:?}", cut(rest)),
            })?;
            all.push((token, index + 1));
            rest = after.trim_start();
        }
        all.push((Token::End, index + 1));
    }
    Ok(all)
}

fn token(text: &str) -> Result<(Token, &str), String> {
    let first = text.chars().next().unwrap_or_default();
    let after = &text[first.len_utf8()..];
    match first {
        '"' => {
            let (inner, after) = after.split_once('"').ok_or("a closing quotation mark")?;
            Ok((Token::Text(inner.to_owned()), after))
        }
        '$' => {
            let after = after.trim_start_matches(['(', '{']);
            let (name, after) = split(after, |c| c.is_ascii_alphanumeric() || c == '_');
            match name {
                "" => Err("the name of a variable after the $".to_owned()),
                _ => Ok((Token::Var(name.to_owned()), after)),
            }
        }
        '0'..='9' => number(text),
        '-' if after.starts_with(|c: char| c.is_ascii_digit()) => {
            // A negative number after psrun selects its output format.
            number(after).map(|(_, after)| (Token::Word("-".to_owned()), after))
        }
        '/' | 'a'..='z' | 'A'..='Z' | '-' | '_' => {
            let (word, after) = split(text, is_word);
            Ok((Token::Word(word.to_owned()), after))
        }
        '{' | '}' | '(' | ')' | '=' | ',' | ';' | '*' | '+' => Ok((Token::Mark(first), after)),
        _ => Err("a word, a number, a variable or one of { } ( ) = ,".to_owned()),
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/._:;-".contains(c)
}

fn number(text: &str) -> Result<(Token, &str), String> {
    let (digits, after) = split(text, |c| c.is_ascii_digit());
    let (shift, after) = match after.as_bytes().first() {
        Some(b'k' | b'K') => (10, &after[1..]),
        Some(b'm' | b'M') => (20, &after[1..]),
        Some(b'g' | b'G') => (30, &after[1..]),
        Some(b't' | b'T') => (40, &after[1..]),
        _ => (0, after),
    };
    let expected = || "a whole number below 2^63 such as 16k".to_owned();
    if after.starts_with(is_word) {
        return Err(expected());
    }
    let number: u64 = digits.parse().map_err(|_| expected())?;
    let number = number.checked_mul(1 << shift).filter(|n| *n < 1 << 63);
    Ok((Token::Number(number.ok_or_else(expected)?), after))
}

/// Longest prefix of `text` whose characters are all `wanted`, and the rest.
fn split(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !wanted(c)).unwrap_or(text.len());
    text.split_at(end)
}
