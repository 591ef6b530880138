//! Bytes and lines of a file that may be compressed and may be hostile.
//!
//! Invariant: no line is held that is longer than its reader allows, and no allocation has a size
//! that the input states. The exceptions are the windows of zstd and xz, which are bounded by
//! [`WINDOW_LOG_MAX`] and [`XZ_KIB_MAX`].

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use memchr::memchr;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Bytes at the beginning that formats are detected from.
const HEAD: u64 = 16 * 1024;

/// Binary logarithm of the largest zstd window, 128 MiB: `zstd --long` needs that much, and the
/// zstd tool accepts it.
const WINDOW_LOG_MAX: u32 = 27;

/// Upper bound on the memory of the decompressor of xz, in KiB: the largest dictionary that
/// `xz -9` writes takes 64 MiB.
const XZ_KIB_MAX: u32 = 160 << 10;

/// Decompressed input, ready to be read.
pub type Input = Box<dyn BufRead + Send>;

/// Decompressed input, and its first bytes.
pub struct Opened {
    /// All of the input, the beginning included.
    pub input: Input,
    /// First bytes of the input, at most 16 KiB.
    pub head: Vec<u8>,
}

/// Opens `reader`; its first bytes tell whether to decompress gzip, zstd or xz.
///
/// # Errors
/// If the beginning cannot be read or decompressed.
pub fn open(reader: impl Read + Send + 'static) -> io::Result<Opened> {
    let (magic, raw) = peek(reader, 4)?;
    let plain: Box<dyn Read + Send> = match magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(BufReader::new(raw))),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(unzstd(raw)?),
        [0xfd, b'7', b'z', b'X'] => {
            let raw = BufReader::new(raw);
            Box::new(XzReader::new_mem_limit(raw, true, XZ_KIB_MAX))
        }
        _ => Box::new(raw),
    };
    let (head, input) = peek(plain, HEAD)?;
    let input = Box::new(BufReader::with_capacity(1 << 16, input));
    Ok(Opened { input, head })
}

/// Decompressor of the zstd frame in `raw`, with a bounded window.
pub(crate) fn unzstd<R: Read>(raw: R) -> io::Result<zstd::Decoder<'static, BufReader<R>>> {
    let mut decoder = zstd::Decoder::new(raw)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// First `count` bytes of `reader`, and a reader that still begins with them.
fn peek<R: Read + Send>(
    mut reader: R,
    count: u64,
) -> io::Result<(Vec<u8>, impl Read + Send + use<R>)> {
    let mut head = Vec::new();
    reader.by_ref().take(count).read_to_end(&mut head)?;
    let whole = Cursor::new(head.clone()).chain(reader);
    Ok((head, whole))
}

/// Reads one line of up to `most` bytes into `line`, without its end; returns `false` at the end of
/// the input.
///
/// # Errors
/// If `input` cannot be read; of kind `InvalidData` if the line is too long.
pub fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    line.clear();
    let ready = match input.fill_buf() {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => &[][..],
        ready => ready?,
    };
    if let Some(length) = memchr(b'\n', ready)
        && length <= most
    {
        let text = &ready[..length];
        line.extend_from_slice(text.strip_suffix(b"\r").unwrap_or(text));
        input.consume(length + 1);
        return Ok(true);
    }
    let read = input.take(most as u64 + 1).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > most {
        let why = format!("it is longer than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(read > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 4096;

    fn lines(bytes: &'static [u8]) -> Vec<String> {
        let mut opened = open(bytes).unwrap();
        let mut line = Vec::new();
        let mut all = Vec::new();
        while read_line(&mut opened.input, &mut line, MOST).unwrap() {
            all.push(String::from_utf8(line.clone()).unwrap());
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
            read_line(&mut input, &mut Vec::new(), MOST)
        };
        assert!(read(MOST).unwrap());
        assert_eq!(
            read(MOST + 1).unwrap_err().to_string(),
            "it is longer than 4096 bytes"
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
