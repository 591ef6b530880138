//! Shapes: names with their numbers replaced by wildcards.
//!
//! Invariants: a shape is a pattern that matches the name it was made from. Names that differ only
//! in their numbers have one shape.

use crate::rules::escaped;
use std::collections::{BTreeMap, BTreeSet};

/// Minimum length of a run of hexadecimal digits, with both letters and digits, that counts as a
/// number. Our choice: shorter runs may be words.
const HEX_RUN: usize = 8;

/// A part of a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Text(Vec<u8>),
    Digits,
    HexDigits,
}

/// Splits `path` into the last folder's name and the last component.
#[must_use]
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = path.rsplitn(3, |&byte| byte == b'/');
    let name = parts.next().unwrap_or_default();
    (parts.next().unwrap_or_default(), name)
}

/// Shape of the part of a name behind its last dot; `None` if the dot is first or last.
#[must_use]
pub fn extension(name: &[u8]) -> Option<String> {
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    let tail = &name[dot + 1..];
    (dot > 0 && !tail.is_empty()).then(|| text(&pieces(tail)))
}

fn pieces(name: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < name.len() {
        let word = name[at..]
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric())
            .count();
        let run = &name[at..at + word];
        let digits = run.iter().filter(|b| b.is_ascii_digit()).count();
        if word >= HEX_RUN && run.iter().all(u8::is_ascii_hexdigit) && (1..word).contains(&digits) {
            pieces.push(Piece::HexDigits);
            at += word;
        } else if word > 0 {
            words(run, &mut pieces);
            at += word;
        } else {
            push(&mut pieces, name[at]);
            at += 1;
        }
    }
    pieces
}

/// Splits a run of letters and digits into text and decimal numbers.
fn words(run: &[u8], pieces: &mut Vec<Piece>) {
    for &byte in run {
        match pieces.last() {
            _ if !byte.is_ascii_digit() => push(pieces, byte),
            Some(Piece::Digits) => {}
            _ => pieces.push(Piece::Digits),
        }
    }
}

fn push(pieces: &mut Vec<Piece>, byte: u8) {
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(byte),
        _ => pieces.push(Piece::Text(vec![byte])),
    }
}

fn text(pieces: &[Piece]) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => escaped(text),
        Piece::Digits => "#".to_owned(),
        Piece::HexDigits => "%".to_owned(),
    };
    pieces.iter().map(piece).collect()
}

/// The shape of `name` by itself.
#[must_use]
pub fn shape(name: &[u8]) -> String {
    text(&pieces(name))
}

/// Shapes of many names, unified for numbers that have hexadecimal letters in some names and happen
/// to have none in others.
#[derive(Clone, Debug, Default)]
pub struct Shapes(BTreeMap<Vec<Piece>, BTreeSet<usize>>);

impl Shapes {
    /// Collects the shapes of `names`.
    #[must_use]
    pub fn of<'a>(names: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut shapes = Self::default();
        for name in names {
            let pieces = pieces(name);
            let hex = |(at, piece): (usize, &Piece)| (*piece == Piece::HexDigits).then_some(at);
            let hex: Vec<usize> = pieces.iter().enumerate().filter_map(hex).collect();
            if !hex.is_empty() {
                shapes.0.entry(plain(pieces)).or_default().extend(hex);
            }
        }
        shapes
    }

    /// The shape of `name`, unified with the collected names.
    #[must_use]
    pub fn shape(&self, name: &[u8]) -> String {
        let mut pieces = plain(pieces(name));
        if let Some(hex) = self.0.get(&pieces) {
            hex.iter().for_each(|&at| pieces[at] = Piece::HexDigits);
        }
        text(&pieces)
    }
}

/// The pieces with all numbers as decimal ones, so that names of a kind are equal.
fn plain(mut pieces: Vec<Piece>) -> Vec<Piece> {
    for piece in &mut pieces {
        if *piece == Piece::HexDigits {
            *piece = Piece::Digits;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Glob;

    #[test]
    fn numbers_become_wildcards() {
        let shape = |name: &str| shape(name.as_bytes());
        assert_eq!(shape("000012.sst"), "#.sst");
        assert_eq!(shape("LOG.old.1732"), "LOG.old.#");
        assert_eq!(shape("base2x7"), "base#x#");
        assert_eq!(shape("deadbeef"), "deadbeef", "a word");
        assert_eq!(shape("00000001000000000000000A"), "%");
        assert_eq!(shape("x[1]*"), "x[[]#][*]");
        assert_eq!(shape(""), "");
        assert_eq!(extension(b"a.tar.gz"), Some("gz".to_owned()));
        assert_eq!(extension(b"16384.1"), Some("#".to_owned()));
        assert_eq!(extension(b".hidden"), None);
        assert_eq!(extension(b"end."), None);
        assert_eq!(split(b"/a/b/c"), (b"b".as_slice(), b"c".as_slice()));
        assert_eq!(split(b"c"), (b"".as_slice(), b"c".as_slice()));
    }

    #[test]
    fn hexadecimal_and_decimal_names_have_one_shape() {
        let names = ["000000010000000000000009", "00000001000000000000000A", "12"];
        let shapes = Shapes::of(names.iter().map(|name| name.as_bytes()));
        let all = names.map(|name| shapes.shape(name.as_bytes()));
        assert_eq!(all, ["%", "%", "%"]);
        let alone = Shapes::of([names[0].as_bytes()].into_iter());
        assert_eq!(alone.shape(names[0].as_bytes()), "#");
    }

    #[test]
    fn shape_matches_its_own_name() {
        bolero::check!().for_each(|name: &[u8]| {
            let name: Vec<u8> = name.iter().filter(|&&byte| byte != b'/').copied().collect();
            let shapes = Shapes::of([name.as_slice()].into_iter());
            for shape in [shape(&name), shapes.shape(&name)] {
                if let Ok(glob) = Glob::new(&shape) {
                    assert!(glob.matches(&name), "{shape}");
                }
            }
        });
    }
}
