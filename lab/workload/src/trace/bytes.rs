//! Parsing of words and numbers from the bytes of a line, which may be no UTF-8.
//!
//! Invariant: nothing is allocated; a result is the same as that of the line as text, with bytes
//! that are no UTF-8 replaced.

use input::{Expected, expected};

/// Parses `word` as a decimal number, between white space and with a sign if need be.
#[inline]
pub(super) fn decimal(word: &[u8]) -> Option<u64> {
    match leading(word) {
        (number, length @ 1..=DIGITS) if word.len() == length => Some(number),
        _ => unusual(word),
    }
}

/// Digits that every number below 2^64 may have.
const DIGITS: usize = 19;

/// The number of the digits that begin `text`, and how many there are. The number is right if they
/// are at most [`DIGITS`].
#[inline]
fn leading(text: &[u8]) -> (u64, usize) {
    const POWERS: [u64; 9] = [
        1,
        10,
        100,
        1_000,
        10_000,
        100_000,
        1_000_000,
        10_000_000,
        100_000_000,
    ];
    let (mut number, mut length) = (0_u64, 0);
    while let Some(word) = text[length..].first_chunk() {
        // Digits become 0 to 9, and the first byte that is none gets its highest bit set.
        let digits = u64::from_le_bytes(*word) ^ 0x3030_3030_3030_3030;
        let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
        let count = others.trailing_zeros() as usize / 8;
        let digits = digits.checked_shl(64 - 8 * count as u32).unwrap_or(0);
        number = number
            .wrapping_mul(POWERS[count])
            .wrapping_add(eight_digits(digits));
        length += count;
        if count < 8 {
            return (number, length);
        }
    }
    for byte in &text[length..] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number.wrapping_mul(10).wrapping_add(digit.into());
        length += 1;
    }
    (number, length)
}

/// The number of eight digits, one a byte, the first in the lowest byte.
#[inline]
const fn eight_digits(digits: u64) -> u64 {
    const PAIR: u64 = 0x0000_00ff_0000_00ff;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & PAIR).wrapping_mul(100 + (1_000_000 << 32));
    let low = (pairs >> 16 & PAIR).wrapping_mul(1 + (10_000 << 32));
    high.wrapping_add(low) >> 32
}

/// Columns of a line with commas between them, taken one by one.
pub(super) struct Columns<'a>(Option<&'a [u8]>);

impl<'a> Columns<'a> {
    pub(super) const fn of(line: &'a [u8]) -> Self {
        Self(Some(line))
    }

    /// The next column; `None` behind the last one.
    #[inline]
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let (column, rest) = match divided(rest, b',') {
            Some((column, rest)) => (column, Some(rest)),
            None => (rest, None),
        };
        self.0 = rest;
        Some(column)
    }

    /// The next column as a number; `what` is the expectation of the error.
    #[inline]
    pub(super) fn number(&mut self, what: &str) -> Result<u64, Expected> {
        let rest = self.0.unwrap_or_default();
        let (number, length) = leading(rest);
        if (1..=DIGITS).contains(&length) && rest.get(length) == Some(&b',') {
            self.0 = Some(&rest[length + 1..]);
            return Ok(number);
        }
        match self.next().and_then(decimal) {
            Some(number) => Ok(number),
            None => expected(what),
        }
    }

    /// Columns from here to the end of the line.
    #[inline]
    pub(super) const fn rest(self) -> Option<&'a [u8]> {
        self.0
    }
}

/// Commas in `line`.
#[inline]
pub(super) fn commas(line: &[u8]) -> usize {
    line.iter().filter(|byte| **byte == b',').count()
}

#[cold]
fn unusual(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.trim().parse().ok()
}

/// `text` without white space at its ends.
#[inline]
pub(super) fn trimmed(text: &[u8]) -> &[u8] {
    let plain = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_graphic);
    if plain(text.first()) && plain(text.last()) {
        return text;
    }
    let text = text.trim_ascii();
    match plain(text.first()) && plain(text.last()) {
        true => text,
        false => trimmed_text(text),
    }
}

/// [`trimmed`] for text that begins or ends with white space beyond ASCII, or may do so.
fn trimmed_text(text: &[u8]) -> &[u8] {
    let first = text.utf8_chunks().next();
    let begin = first.map_or(0, |chunk| {
        chunk.valid().len() - chunk.valid().trim_start().len()
    });
    let text = &text[begin..];
    let end = match text.utf8_chunks().last() {
        Some(chunk) if chunk.invalid().is_empty() => {
            chunk.valid().len() - chunk.valid().trim_end().len()
        }
        _ => 0,
    };
    &text[..text.len() - end]
}

/// Words of `line`, divided by white space of ASCII.
pub(super) fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// Divides `text` at the first `separator`, which belongs to neither part.
#[inline]
pub(super) fn divided(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == separator)?;
    Some((&text[..at], &text[at + 1..]))
}

/// The first columns of a line, and the next one if there is one.
type Split<'a, const COUNT: usize> = ([&'a [u8]; COUNT], Option<&'a [u8]>);

/// Splits `line` into its first `COUNT` columns and the next one, if there is one; `None` if there
/// are fewer.
#[inline]
pub(super) fn columns<const COUNT: usize>(line: &[u8]) -> Option<Split<'_, COUNT>> {
    let mut columns = line.split(|byte| *byte == b',');
    let mut first: [&[u8]; COUNT] = [&[]; COUNT];
    for column in &mut first {
        *column = columns.next()?;
    }
    Some((first, columns.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_numbers_are_those_of_text() {
        for word in [
            "0",
            "7",
            "00012",
            "9999999999999999999",
            "18446744073709551615",
            "18446744073709551616",
            "+5",
            " 5",
            "5\u{3000}",
            "-5",
            "5 5",
            "",
            "0x5",
            "5/",
            "5:",
            "1234567",
            "12345678",
            "123456789",
            "1234567/9",
            "12345678:",
            "12345678é",
            "1234567890123456",
            "000000000000000000000000012",
            "123456789012345678901234567890",
        ] {
            let number = word.trim().parse().ok();
            assert_eq!(decimal(word.as_bytes()), number, "{word}");
            let line = format!("{word},x");
            let mut columns = Columns::of(line.as_bytes());
            assert_eq!(columns.number("one").ok(), number, "{word}");
            assert_eq!(columns.next(), Some(&b"x"[..]));
            assert_eq!(columns.next(), None);
        }
        assert_eq!(decimal(b"5\xff"), None);
    }

    #[test]
    fn text_is_trimmed_as_if_it_were_utf8() {
        for text in [
            &b"a b"[..],
            b" \ta\x0b\x0c",
            "\u{a0}a\u{3000}".as_bytes(),
            b"\xff a \xff ",
            b" \xe3\x80 ",
            b"",
            "\u{3000}".as_bytes(),
            b"\x7fa\0",
        ] {
            let lossy = String::from_utf8_lossy(text);
            let expected = lossy.trim();
            assert_eq!(String::from_utf8_lossy(trimmed(text)), expected);
        }
    }
}
