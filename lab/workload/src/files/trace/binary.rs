//! The binary form. `docs/formats/flt.md` is the home of its layout.

use super::super::field::{FieldSink, FieldSource};
use super::super::{Call, Event, Fd, Name, Names, Setup, Thread};
use super::item::{Item, STRING};
use super::state::{OFFSET_MAX, Said, State, number};
use super::{About, TraceError};
use crate::trace::error::{Expected, expected};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};

/// Begins a binary trace. The last byte is the version.
pub const MAGIC: [u8; 8] = *b"flfiles\x01";

/// Most bytes of a block. A writer closes a block once it is longer than half.
const BLOCK_MAX: usize = 64 << 10;

/// Longest string.
const STRING_MAX: u64 = 16 << 10;

/// The window that a reader grants a zstd frame, as for other traces.
const WINDOW_LOG_MAX: u32 = 27;

/// How hard zstd tries. Higher levels gain a few per cent on such records.
const LEVEL: i32 = 6;

/// Where the last access to each open file ended: offsets are written as the
/// distance from there, which is 0 for what is sequential.
#[derive(Default)]
struct Ends {
    ends: BTreeMap<u32, u64>,
    fd: u32,
    at: u64,
}

impl Ends {
    fn expected(&self) -> u64 {
        self.ends.get(&self.fd).copied().unwrap_or(0)
    }

    /// Follows the fields of a call.
    fn saw(&mut self, key: &str, number: u64) {
        match key {
            "at" => self.at = number,
            "len" => {
                let end = self.at.saturating_add(number).min(OFFSET_MAX);
                self.ends.insert(self.fd, end);
            }
            _ => {}
        }
    }

    fn begin(&mut self) {
        (self.fd, self.at) = (u32::MAX, 0);
    }
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Writes a binary trace.
pub struct Writer<W: Write> {
    out: zstd::Encoder<'static, W>,
    block: Block,
    /// For each name, one more than its number in the file; 0 if it has none.
    ids: Vec<u32>,
    strings: u32,
    last: u64,
    events: u64,
}

#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    ends: Ends,
}

impl Block {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// Hands fields to a block; names have their numbers in the file.
struct Fields<'a> {
    block: &'a mut Block,
    ids: &'a [u32],
}

impl FieldSink for Fields<'_> {
    fn fd(&mut self, _: &'static str, fd: Fd) {
        self.block.ends.fd = fd.0;
        self.block.varint(fd.0.into());
    }

    fn name(&mut self, _: &'static str, name: Name) {
        let id = self.ids.get(name.0 as usize).copied().unwrap_or(0);
        self.block.varint(u64::from(id.max(1) - 1));
    }

    fn number(&mut self, key: &'static str, number: u64) {
        if key == "at" {
            let distance = number.wrapping_sub(self.block.ends.expected()) as i64;
            self.block.varint(zigzag(distance));
        } else {
            self.block.varint(number);
        }
        self.block.ends.saw(key, number);
    }

    fn word(&mut self, _: &'static str, index: usize, _: &'static [&'static str]) {
        self.block.varint(index as u64);
    }

    fn bits(&mut self, _: &'static str, bits: u32, _: &'static [&'static str]) {
        self.block.varint(bits.into());
    }
}

/// Tells which names an item has.
#[derive(Default)]
struct NamesOf {
    names: [Option<Name>; 3],
}

impl FieldSink for NamesOf {
    fn fd(&mut self, _: &'static str, _: Fd) {}

    fn name(&mut self, _: &'static str, name: Name) {
        let free = self.names.iter_mut().find(|it| it.is_none());
        *free.expect("no item has four names") = Some(name);
    }

    fn number(&mut self, _: &'static str, _: u64) {}
    fn word(&mut self, _: &'static str, _: usize, _: &'static [&'static str]) {}
    fn bits(&mut self, _: &'static str, _: u32, _: &'static [&'static str]) {}
}

impl<W: Write> Writer<W> {
    /// Begins a trace with what is known of it as a whole and with its setup.
    ///
    /// # Errors
    /// If the system refuses, as for all that follow.
    pub fn new(mut out: W, about: &About, setup: &Setup, names: &Names) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        let mut writer = Self {
            out: zstd::Encoder::new(out, LEVEL)?,
            block: Block::default(),
            ids: Vec::new(),
            strings: 1,
            last: 0,
            events: 0,
        };
        writer.about(about)?;
        for entry in &setup.entries {
            writer.item(&Item::Entry(*entry), names)?;
        }
        Ok(writer)
    }

    fn about(&mut self, about: &About) -> io::Result<()> {
        // These strings are of no table; each is followed by its one use.
        let mut own = Names::default();
        let mut items = vec![
            Item::Root(own.intern(&about.root)),
            Item::Command(own.intern(&about.command)),
        ];
        let notes = about.notes.iter().map(|note| own.intern(note));
        items.extend(notes.map(Item::Note));
        for item in &items {
            self.item(item, &own)?;
        }
        self.ids.clear();
        Ok(())
    }

    /// Writes a thread; they are numbered from 0.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn thread(&mut self, thread: &Thread, names: &Names) -> io::Result<()> {
        self.item(&Item::Thread(*thread), names)
    }

    /// Writes an event.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn event(&mut self, event: &Event, names: &Names) -> io::Result<()> {
        let call = event.step.call;
        let mut used = NamesOf::default();
        call.put(&mut used);
        self.know(&used, names)?;
        self.block.bytes.push(call.number());
        self.block.varint(event.step.thread.0.into());
        let since = event.at.0.wrapping_sub(self.last) as i64;
        self.block.varint(zigzag(since));
        self.block.varint(event.took.0);
        self.block.varint(zigzag(number(event.result)));
        self.block.ends.begin();
        call.put(&mut Fields {
            block: &mut self.block,
            ids: &self.ids,
        });
        self.last = event.at.0;
        self.events += 1;
        self.close_block(BLOCK_MAX / 2)
    }

    fn item(&mut self, item: &Item, names: &Names) -> io::Result<()> {
        let mut used = NamesOf::default();
        item.put(&mut used);
        self.know(&used, names)?;
        self.block.bytes.push(item.tag());
        item.put(&mut Fields {
            block: &mut self.block,
            ids: &self.ids,
        });
        self.close_block(BLOCK_MAX / 2)
    }

    /// Writes the strings that were not written yet.
    fn know(&mut self, used: &NamesOf, names: &Names) -> io::Result<()> {
        for name in used.names.iter().flatten() {
            let index = name.0 as usize;
            if self.ids.len() <= index {
                self.ids.resize(index + 1, 0);
                self.ids[0] = 1;
            }
            if self.ids[index] == 0 {
                self.strings += 1;
                self.ids[index] = self.strings;
                let string = names.bytes(*name);
                let string = &string[..string.len().min(STRING_MAX as usize)];
                self.block.bytes.push(STRING);
                self.block.varint(string.len() as u64);
                self.block.bytes.extend_from_slice(string);
                self.close_block(BLOCK_MAX / 2)?;
            }
        }
        Ok(())
    }

    /// Hands the block on if it is longer than `most`.
    fn close_block(&mut self, most: usize) -> io::Result<()> {
        let bytes = &mut self.block.bytes;
        if bytes.len() > most {
            let length = u32::try_from(bytes.len()).expect("a block is short");
            self.out.write_all(&length.to_le_bytes())?;
            self.out.write_all(&crc32c::crc32c(bytes).to_le_bytes())?;
            self.out.write_all(bytes)?;
            bytes.clear();
        }
        Ok(())
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.item(&Item::End(self.events), &Names::default())?;
        self.close_block(0)?;
        self.out.finish()
    }
}

/// Reads a binary trace.
pub(super) struct Binary {
    name: String,
    input: Box<dyn Read>,
    block: Vec<u8>,
    /// Where in the block reading goes on.
    at: usize,
    /// Where in the block the item begins that is read.
    item: usize,
    /// Where the block begins in the uncompressed contents behind the magic.
    offset: u64,
    ends: Ends,
    /// Each string of the file, in the names of the reader.
    strings: Vec<Name>,
    last: u64,
}

/// What may be wrong with a block.
enum Fault {
    Expected(Expected),
    Io(io::Error),
}

impl From<Expected> for Fault {
    fn from(expected: Expected) -> Self {
        Self::Expected(expected)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Binary {
    pub(super) fn new(name: &str, mut input: Box<dyn BufRead>) -> Result<Self, TraceError> {
        let mut magic = [0; MAGIC.len()];
        let opened = input.read_exact(&mut magic).and_then(|()| {
            let mut decoder = zstd::Decoder::new(input)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Ok(BufReader::new(decoder))
        });
        let input = opened.map_err(|source| TraceError::Read {
            name: name.to_owned(),
            place: "the beginning".to_owned(),
            source,
        })?;
        Ok(Self {
            name: name.to_owned(),
            input: Box::new(input),
            block: Vec::new(),
            at: 0,
            item: 0,
            offset: 0,
            ends: Ends::default(),
            strings: vec![Name::ROOT],
            last: 0,
        })
    }

    /// The next event; `None` at the end.
    pub(super) fn next(&mut self, state: &mut State) -> Result<Option<Event>, TraceError> {
        self.items(state).map_err(|fault| match fault {
            Fault::Expected(Expected(expected)) => TraceError::Record {
                name: self.name.clone(),
                offset: self.offset + self.item as u64,
                expected,
            },
            Fault::Io(source) => TraceError::Read {
                name: self.name.clone(),
                place: format!("byte {}", self.offset + self.at as u64),
                source,
            },
        })
    }

    fn items(&mut self, state: &mut State) -> Result<Option<Event>, Fault> {
        loop {
            if self.at == self.block.len() {
                self.next_block()?;
            }
            self.item = self.at;
            let tag = self.block[self.at];
            self.at += 1;
            if tag == STRING {
                self.string(state)?;
                continue;
            }
            if tag != 0 && tag < STRING {
                return Ok(Some(self.event(tag, state)?));
            }
            let item = Item::take(tag, &mut self.source(state, false))?;
            let Some(item) = item else {
                return Err(Expected(format!("a known tag, not {tag}")).into());
            };
            if !state.item(item)? {
                self.last_byte()?;
                return Ok(None);
            }
        }
    }

    /// Nothing follows the end.
    fn last_byte(&mut self) -> Result<(), Fault> {
        let more = self.at < self.block.len() || self.input.read(&mut [0])? > 0;
        if more {
            return Err(Expected("nothing after the end".to_owned()).into());
        }
        Ok(())
    }

    fn next_block(&mut self) -> Result<(), Fault> {
        let mut head = [0; 8];
        self.input.read_exact(&mut head)?;
        let [a, b, c, d, e, f, g, h] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length == 0 || length > BLOCK_MAX {
            return Err(Expected(format!("a block of 1 to {BLOCK_MAX} bytes")).into());
        }
        self.offset += self.block.len() as u64 + head.len() as u64;
        self.block.resize(length, 0);
        self.input.read_exact(&mut self.block)?;
        (self.at, self.item) = (0, 0);
        if crc32c::crc32c(&self.block) != u32::from_le_bytes([e, f, g, h]) {
            return Err(Expected("a block whose checksum is right".to_owned()).into());
        }
        Ok(())
    }

    fn string(&mut self, state: &mut State) -> Result<(), Expected> {
        let length = varint(&self.block, &mut self.at)?;
        let end = usize::try_from(length.min(STRING_MAX + 1)).unwrap_or(usize::MAX) + self.at;
        let Some(string) = self
            .block
            .get(self.at..end)
            .filter(|_| length <= STRING_MAX)
        else {
            return expected(format!("a string of at most {STRING_MAX} bytes"));
        };
        self.strings.push(state.names.intern(string));
        self.at = end;
        Ok(())
    }

    fn event(&mut self, tag: u8, state: &mut State) -> Result<Event, Expected> {
        let thread = varint(&self.block, &mut self.at)?;
        let since = unzigzag(varint(&self.block, &mut self.at)?);
        let at = self.last.wrapping_add(since as u64);
        let took = varint(&self.block, &mut self.at)?;
        let result = unzigzag(varint(&self.block, &mut self.at)?);
        self.ends.begin();
        let opens = tag == 1;
        let Some(call) = Call::take(tag, &mut self.source(state, opens))? else {
            return expected(format!("a known call, not {tag}"));
        };
        self.last = at;
        state.event(&Said {
            thread,
            at,
            took,
            result,
            call,
        })
    }

    fn source<'a>(&'a mut self, state: &'a State, opens: bool) -> Source<'a> {
        Source {
            block: &self.block,
            at: &mut self.at,
            ends: &mut self.ends,
            strings: &self.strings,
            state,
            opens,
        }
    }
}

fn varint(bytes: &[u8], at: &mut usize) -> Result<u64, Expected> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some(&byte) = bytes.get(*at) else {
            return expected("a number inside the block");
        };
        *at += 1;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            break;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    expected("a number of 64 bits")
}

/// Takes fields from a block.
struct Source<'a> {
    block: &'a [u8],
    at: &'a mut usize,
    ends: &'a mut Ends,
    strings: &'a [Name],
    state: &'a State,
    opens: bool,
}

impl Source<'_> {
    fn varint(&mut self) -> Result<u64, Expected> {
        varint(self.block, self.at)
    }
}

impl FieldSource for Source<'_> {
    type Error = Expected;

    fn fd(&mut self, _: &'static str) -> Result<Fd, Expected> {
        let fd = self.varint()?;
        let fd = self.state.fd(fd, self.opens)?;
        self.ends.fd = fd.0;
        Ok(fd)
    }

    fn name(&mut self, key: &'static str) -> Result<Name, Expected> {
        let id = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        match self.strings.get(id) {
            Some(&name) => self.state.path(key, name),
            None => expected("a string that is known"),
        }
    }

    fn number(&mut self, key: &'static str, max: u64) -> Result<u64, Expected> {
        let mut number = self.varint()?;
        if key == "at" {
            number = self.ends.expected().wrapping_add(unzigzag(number) as u64);
        }
        self.ends.saw(key, number);
        if number > max.min(OFFSET_MAX) {
            return expected(format!("`{key}` of at most {}", max.min(OFFSET_MAX)));
        }
        Ok(number)
    }

    fn word(
        &mut self,
        key: &'static str,
        words: &'static [&'static str],
    ) -> Result<usize, Expected> {
        let index = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if index >= words.len() {
            return expected(format!("`{key}` of {}", words.join(", ")));
        }
        Ok(index)
    }

    fn bits(&mut self, key: &'static str, words: &'static [&'static str]) -> Result<u32, Expected> {
        let bits = self.varint()?;
        match u32::try_from(bits) {
            Ok(bits) if bits >> words.len() == 0 => Ok(bits),
            _ => expected(format!("`{key}` of {}", words.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for number in [0, 1, 127, 128, 300, u64::MAX >> 1, u64::MAX] {
            let mut block = Block::default();
            block.varint(number);
            let mut at = 0;
            assert_eq!(varint(&block.bytes, &mut at), Ok(number));
            assert_eq!(at, block.bytes.len());
        }
        assert!(varint(&[0x80], &mut 0).is_err());
        let long = [0xff; 9].iter().chain(&[2]).copied().collect::<Vec<_>>();
        assert!(varint(&long, &mut 0).is_err());
    }

    #[test]
    fn small_numbers_of_either_sign_are_short() {
        for number in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(number)), number);
        }
        assert_eq!(zigzag(-1), 1);
    }
}
