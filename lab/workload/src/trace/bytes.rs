//! Parsing of words and numbers from the bytes of a line, which may be no UTF-8.
//!
//! Invariant: nothing is allocated; a result is the same as that of the line as text, with bytes
//! that are no UTF-8 replaced.

/// Parses `word` as a decimal number, between white space and with a sign if need be.
#[inline]
pub(super) fn decimal(word: &[u8]) -> Option<u64> {
    digits(word).or_else(|| unusual(word))
}

/// Parses `word` as a number of 1 to 19 digits and nothing else.
#[inline]
pub(super) fn digits(word: &[u8]) -> Option<u64> {
    // Numbers of 19 digits are below 2^64.
    if word.is_empty() || word.len() > 19 {
        return None;
    }
    let mut number = 0_u64;
    for byte in word {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

/// Parses `word` as a decimal with a fraction, in units of ten to the power of minus `places`.
/// Further digits are cut off.
#[inline]
pub(super) fn scaled(word: &[u8], places: u32) -> Option<u64> {
    let (whole, fraction) = divided(word, b'.').unwrap_or((word, b""));
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let kept = &fraction[..fraction.len().min(places as usize)];
    let fraction = match kept {
        [] => 0,
        _ => digits(kept)? * 10_u64.pow(places - kept.len() as u32),
    };
    digits(whole)?
        .checked_mul(10_u64.pow(places))?
        .checked_add(fraction)
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

/// Words of a line, divided by white space of ASCII.
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let begin = self.0.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let rest = &self.0[begin..];
        let end = rest.iter().position(u8::is_ascii_whitespace);
        let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.0 = rest;
        Some(word)
    }
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
            assert_eq!(decimal(word.as_bytes()), word.trim().parse().ok(), "{word}");
        }
        assert_eq!(decimal(b"5\xff"), None);
    }

    #[test]
    fn decimals_are_cut_to_their_places() {
        assert_eq!(scaled(b"1.25", 3), Some(1_250));
        assert_eq!(scaled(b"7", 9), Some(7_000_000_000));
        assert_eq!(scaled(b"0.1239", 3), Some(123));
        assert_eq!(scaled(b"5.9", 0), Some(5));
        for word in ["", ".5", "1.", "-1", "1.x", "99999999999.0", "1e3"] {
            let fits = word == "1.";
            assert_eq!(scaled(word.as_bytes(), 9).is_some(), fits, "{word}");
        }
    }

    #[test]
    fn words_are_those_of_text() {
        for text in ["", " ", "a", " a  bc\td\r ", "\x0ca\u{a0}b\x0bc"] {
            let words = Words(text.as_bytes());
            let expected = text.split_ascii_whitespace().map(str::as_bytes);
            assert!(words.eq(expected), "{text:?}");
        }
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
