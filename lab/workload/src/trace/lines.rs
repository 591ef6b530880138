//! Bytes and lines of a file that may be compressed and may be hostile.
//!
//! Invariant: no line longer than [`MAX_LINE`] is ever held, and nothing is
//! allocated by a length that the input states. The one exception is the
//! window of a zstd frame, which is bounded by `WINDOW_LOG_MAX`.

use flate2::bufread::MultiGzDecoder;
use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Longest line that is read, in bytes without its end.
pub const MAX_LINE: usize = 64 * 1024;

/// How much of the beginning is looked at to tell the format.
const HEAD: u64 = 16 * 1024;

/// 128 MiB, which is what `zstd --long` needs and what its tool accepts.
const WINDOW_LOG_MAX: u32 = 27;

/// A decompressed source, and what it begins with.
pub(crate) struct Source {
    /// All of it, the beginning included.
    pub(crate) input: Box<dyn BufRead>,
    /// Its first bytes.
    pub(crate) head: Vec<u8>,
}

/// Opens `reader`, decompressing gzip and zstd as their first bytes tell.
pub(crate) fn open(reader: impl Read + 'static) -> io::Result<Source> {
    let (magic, raw) = peek(reader, 4)?;
    let plain: Box<dyn Read> = match magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(BufReader::new(raw))),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let mut decoder = zstd::Decoder::new(raw)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        _ => Box::new(raw),
    };
    let (head, input) = peek(plain, HEAD)?;
    let input = Box::new(BufReader::with_capacity(MAX_LINE, input));
    Ok(Source { input, head })
}

/// The first `count` bytes, and a reader that still begins with them.
fn peek<R: Read>(mut reader: R, count: u64) -> io::Result<(Vec<u8>, impl Read + use<R>)> {
    let mut head = Vec::new();
    reader.by_ref().take(count).read_to_end(&mut head)?;
    let whole = Cursor::new(head.clone()).chain(reader);
    Ok((head, whole))
}

/// Reads one line into `line`, without its end. `false` at the end of the
/// input; an error of kind `InvalidData` for a line that is too long.
pub(crate) fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = input.take(MAX_LINE as u64 + 1).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > MAX_LINE {
        let why = format!("it is longer than {MAX_LINE} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(read > 0)
}

/// The bytes as text. Process names may hold any bytes, so what is no UTF-8 is
/// replaced rather than refused.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &'static [u8]) -> Vec<String> {
        let mut source = open(bytes).unwrap();
        let mut line = Vec::new();
        let mut all = Vec::new();
        while read_line(&mut source.input, &mut line).unwrap() {
            all.push(decode(&line).into_owned());
        }
        all
    }

    #[test]
    fn lines_end_as_on_any_system() {
        assert_eq!(lines(b"a\r\nb\n\nlast"), ["a", "b", "", "last"]);
        assert_eq!(lines(b""), Vec::<String>::new());
    }

    #[test]
    fn the_longest_line_passes_and_one_byte_more_does_not() {
        let read = |length: usize| {
            let mut input = Cursor::new(vec![b'x'; length]);
            read_line(&mut input, &mut Vec::new())
        };
        assert!(read(MAX_LINE).unwrap());
        assert_eq!(
            read(MAX_LINE + 1).unwrap_err().to_string(),
            "it is longer than 65536 bytes"
        );
    }

    #[test]
    fn compressed_contents_are_read_as_plain_ones() {
        let mut gzip =
            flate2::read::GzEncoder::new(&b"one\ntwo\n"[..], flate2::Compression::fast());
        let mut bytes = Vec::new();
        gzip.read_to_end(&mut bytes).unwrap();
        assert_eq!(lines(bytes.leak()), ["one", "two"]);
        let bytes = zstd::encode_all(&b"one\ntwo\n"[..], 1).unwrap();
        assert_eq!(lines(bytes.leak()), ["one", "two"]);
    }
}
