//! Bytes of a trace that may be compressed and may be hostile.
//!
//! Invariant: nothing is allocated by a length that the input states, but for the
//! window of a zstd frame, which is bounded by [`WINDOW_LOG_MAX`]; no line is held
//! that is longer than [`MAX_LINE`].

use super::error::TraceError;
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Longest line that is read, in bytes without its end.
const MAX_LINE: u64 = 4096;

/// 128 MiB, which is what `zstd --long` needs and what its tool accepts.
pub(super) const WINDOW_LOG_MAX: u32 = 27;

/// How much of the beginning is looked at to tell the format.
const HEAD: u64 = 16 * 1024;

pub(super) type Input = Box<dyn BufRead + Send>;

/// Opens `reader`, called `name`, decompressing gzip and zstd as its first bytes tell:
/// what it begins with, and all of it.
pub(super) fn open(
    name: &str,
    reader: impl Read + Send + 'static,
) -> Result<(Vec<u8>, Input), TraceError> {
    let unreadable = |source| TraceError::Read {
        name: name.to_owned(),
        place: "the beginning".to_owned(),
        source,
    };
    let (magic, raw) = peek(reader, 6).map_err(unreadable)?;
    let plain: Box<dyn Read + Send> = match magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(BufReader::new(raw))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(unzstd(raw).map_err(unreadable)?),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            let name = name.to_owned();
            return Err(TraceError::Xz { name });
        }
        _ => Box::new(raw),
    };
    let (head, input) = peek(plain, HEAD).map_err(unreadable)?;
    Ok((head, Box::new(BufReader::with_capacity(1 << 16, input))))
}

/// What a zstd frame holds.
pub(super) fn unzstd<R: Read>(raw: R) -> io::Result<zstd::Decoder<'static, BufReader<R>>> {
    let mut decoder = zstd::Decoder::new(raw)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// The first `count` bytes, and a reader that still begins with them.
fn peek<R: Read + Send>(
    mut reader: R,
    count: u64,
) -> io::Result<(Vec<u8>, impl Read + Send + use<R>)> {
    let mut head = Vec::new();
    reader.by_ref().take(count).read_to_end(&mut head)?;
    let whole = Cursor::new(head.clone()).chain(reader);
    Ok((head, whole))
}

/// Reads one line into `line`, without its end. `false` at the end of the input.
pub(super) fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = input.take(MAX_LINE + 1).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 > MAX_LINE {
        let why = format!("it is longer than {MAX_LINE} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(read > 0)
}

/// Reads one record of a fixed size. `None` at the end of the input.
pub(super) fn read_record<const SIZE: usize>(
    input: &mut dyn BufRead,
) -> io::Result<Option<[u8; SIZE]>> {
    let mut record = [0; SIZE];
    let mut filled = 0;
    while filled < SIZE {
        match input.read(&mut record[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => {
                let why = format!("it ends after {filled} of {SIZE} bytes");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(Some(record))
}
