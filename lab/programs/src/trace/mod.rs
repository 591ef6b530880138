//! Traces of memory accesses, recorded by this or other tools, read as streams.
//!
//! Invariants: a reader holds one line, record or block at a time, whatever the file contains.
//! Invalid input never makes it panic, hang, or allocate memory by a length stated in the file. An
//! error names the file and the position in it.
//!
//! A file holds one thread. Information that a format does not record is not invented. The reader
//! of each format documents how it treats sizes, dependences and the instructions between accesses.

mod compact;
mod formats;
mod paths;
mod put;
mod registers;
mod replay;

pub use compact::Writer;
pub use input::TraceError;
pub use paths::listed;
pub(crate) use paths::threads_of;
pub use replay::{File, Recording, Replay};

use compact::Compact;
use formats::Lackey;
use input::{Expected, Fault, Input, excerpt};
use memsys::Op;
use registers::Registers;
use std::io::Read;
use std::str::FromStr;

/// Magic bytes of a file compressed with xz, which is not supported.
const XZ: [u8; 6] = *b"\xfd7zXZ\0";

/// Format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The format of this project.
    Flm,
    /// ChampSim's instruction records.
    ChampSim,
    /// MacSim's x86 instruction records, version 1.3.
    MacSim,
    /// Accesses of Pin's `pinatrace`: binary records, as in SkyByte's warm-up traces, or the text
    /// that the tool in Pin's manual writes.
    Pin,
    /// Text output of Valgrind's lackey with `--trace-mem=yes`.
    Lackey,
    /// Text output of the Valgrind that produces MQSim_CXL's traces.
    CacheTrace,
}

impl Format {
    /// All formats, with name and description.
    pub const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::Flm, "flm", "our own"),
        (
            Self::ChampSim,
            "champsim",
            "ChampSim's instructions, 64 bytes each",
        ),
        (
            Self::MacSim,
            "macsim",
            "MacSim's x86 instructions, version 1.3, or the text file that lists its threads",
        ),
        (
            Self::Pin,
            "pinatrace",
            "accesses of Pin's pinatrace, as text or as the 18 bytes of SkyByte's warm-up traces",
        ),
        (
            Self::Lackey,
            "lackey",
            "text of valgrind --tool=lackey --trace-mem=yes",
        ),
        (
            Self::CacheTrace,
            "cachetrace",
            "text .vout or .pout of the traces for MQSim_CXL",
        ),
    ];

    /// The names of all formats, for messages.
    #[must_use]
    pub fn list() -> String {
        Self::ALL.map(|(_, name, _)| name).join(", ")
    }

    /// The name of the format.
    #[must_use]
    pub fn name(self) -> &'static str {
        let all = Self::ALL.iter().find(|(format, ..)| *format == self);
        all.map_or("", |(_, name, _)| name)
    }

    /// Detects the format from the first bytes of a file.
    fn of_contents(head: &[u8]) -> Option<Self> {
        if head.starts_with(&compact::MAGIC) {
            return Some(Self::Flm);
        }
        if formats::is_pin(head) {
            return Some(Self::Pin);
        }
        let lines = head.split(|&byte| byte == b'\n');
        let mut told = lines.filter_map(|line| match line {
            [b'I', b' ', b' ', ..] | [b' ', b'L' | b'S' | b'M', b' ', ..] => Some(Self::Lackey),
            [b'[', b'R' | b'W', b' ', ..] | [b'R' | b'W', b' ', b'0', b'x', ..] => {
                Some(Self::CacheTrace)
            }
            _ => None,
        });
        told.next()
    }

    /// Detects a format without magic bytes from the file's name.
    fn of_name(name: &str) -> Option<Self> {
        let file = name.rsplit('/').next().unwrap_or(name);
        if file.ends_with(".raw") {
            return Some(Self::MacSim);
        }
        file.contains("champsim").then_some(Self::ChampSim)
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name, _)| *name == text);
        let unknown = || format!("expected one of {}, found {text:?}", Self::list());
        found.map(|(format, ..)| *format).ok_or_else(unknown)
    }
}

/// Reads the operations of one thread.
pub struct Reader {
    name: String,
    format: Format,
    decoder: Decoder,
    line: Vec<u8>,
    /// Number of lines or records read so far.
    place: u64,
}

enum Decoder {
    Compact(Compact),
    ChampSim(Input, Box<Registers>),
    MacSim(Input, Box<Registers>),
    Pin(Input),
    PinText(Input),
    Lackey(Input, Lackey),
    Cache(Input),
}

impl Reader {
    /// Reads a trace called `name` from `reader`, uncompressed or compressed with gzip or zstd.
    /// Without `format`, the format is detected from the contents and then from the name.
    ///
    /// # Errors
    /// If the beginning cannot be read or the format is not known.
    pub fn new(
        name: &str,
        reader: impl Read + Send + 'static,
        format: Option<Format>,
    ) -> Result<Self, TraceError> {
        let begin = || TraceError::unreadable(name, "the beginning");
        let opened = input::open(reader).map_err(begin())?;
        let (head, input) = (opened.head, opened.input);
        let refused = |reason: String| TraceError::Format {
            name: name.to_owned(),
            reason,
        };
        if head.starts_with(&XZ) {
            let xz = "compressed by xz, which is not read here; decompress it with xz -d first";
            return Err(refused(xz.to_owned()));
        }
        let unknown = || {
            let list = Format::list();
            refused(format!(
                "expected a trace of memory accesses whose contents tell its format, or :format= \
                 behind its path and one of {list}"
            ))
        };
        let format = format
            .or_else(|| Format::of_contents(&head))
            .or_else(|| Format::of_name(name))
            .ok_or_else(unknown)?;
        let registers = || Box::new(Registers::new());
        let decoder = match format {
            Format::Flm if !head.starts_with(&compact::MAGIC) => return Err(unknown()),
            Format::Flm => Decoder::Compact(Compact::new(input).map_err(begin())?),
            Format::ChampSim => Decoder::ChampSim(input, registers()),
            Format::MacSim => Decoder::MacSim(input, registers()),
            Format::Pin if formats::is_pin_text(&head) => Decoder::PinText(input),
            Format::Pin => Decoder::Pin(input),
            Format::Lackey => Decoder::Lackey(input, Lackey::default()),
            Format::CacheTrace => Decoder::Cache(input),
        };
        Ok(Self {
            name: name.to_owned(),
            format,
            decoder,
            line: Vec::new(),
            place: 0,
        })
    }

    /// The format that is read.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Appends the operations of the next line or record, which may be none; returns `false` at the
    /// end.
    ///
    /// # Errors
    /// If it cannot be read or violates the format.
    pub fn step(&mut self, ops: &mut Vec<Op>) -> Result<bool, TraceError> {
        self.place += 1;
        let line = &mut self.line;
        let taken = match &mut self.decoder {
            Decoder::Compact(compact) => compact.step(ops),
            Decoder::ChampSim(input, registers) => formats::champsim(input, registers, ops),
            Decoder::MacSim(input, registers) => formats::macsim(input, registers, ops),
            Decoder::Pin(input) => formats::pin(input, ops),
            Decoder::PinText(input) => {
                formats::each_line(input, line, |line| formats::pin_text(line, ops))
            }
            Decoder::Lackey(input, lackey) => {
                formats::each_line(input, line, |line| lackey.line(line, ops))
            }
            Decoder::Cache(input) => {
                formats::each_line(input, line, |line| formats::cache(line, ops))
            }
        };
        taken.map_err(|fault| self.refuse(fault))
    }

    fn refuse(&self, fault: Fault) -> TraceError {
        let name = self.name.clone();
        let text = matches!(
            self.decoder,
            Decoder::Lackey(..) | Decoder::Cache(_) | Decoder::PinText(_)
        );
        match fault {
            Fault::Expected(Expected(expected)) if text => TraceError::Line {
                name,
                line: self.place,
                expected,
                found: excerpt(&String::from_utf8_lossy(&self.line)),
            },
            Fault::Expected(Expected(expected)) => TraceError::Record {
                name,
                place: format!("record {}", self.place),
                expected,
            },
            Fault::Io(source) => TraceError::Read {
                name,
                place: format!("{} {}", if text { "line" } else { "record" }, self.place),
                source,
            },
        }
    }
}
