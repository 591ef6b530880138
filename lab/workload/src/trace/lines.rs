//! Reading of text traces by line.
//!
//! Invariant: one line is held at a time, in a buffer that is used again; nothing is allocated for
//! a line that is valid.

use super::bytes::trimmed;
use super::event::Parser;
use super::{MAX_LINE, Reader};
use input::{Expected, Input, TraceError, excerpt};

/// Lines of a trace, with the parser of their format.
pub(super) struct Lines {
    input: Input,
    parser: Box<dyn Parser>,
    line: Vec<u8>,
    /// Lines read so far.
    count: u64,
}

impl Lines {
    pub(super) const fn new(input: Input, parser: Box<dyn Parser>) -> Self {
        Self {
            input,
            parser,
            line: Vec::new(),
            count: 0,
        }
    }

    /// Reads one line into `reader`; `false` at the end. `name` is the name of the trace in errors.
    pub(super) fn step(&mut self, name: &str, reader: &mut Reader) -> Result<bool, TraceError> {
        self.count += 1;
        match input::read_line(&mut *self.input, &mut self.line, MAX_LINE) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(e) => return Err(TraceError::unreadable(name, format!("line {}", self.count))(e)),
        }
        // The line may hold any bytes, as process names do.
        let line = trimmed(&self.line);
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(true);
        }
        let taken = self.parser.line(line).and_then(|said| reader.take(&said));
        taken.map_err(|Expected(expected)| TraceError::Line {
            name: name.to_owned(),
            line: self.count,
            expected,
            found: excerpt(&String::from_utf8_lossy(line)),
        })?;
        Ok(true)
    }
}
