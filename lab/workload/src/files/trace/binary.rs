//! Binary form of traces of file calls. `docs/formats/flt.md` is the home of its layout.

use super::super::field::{FieldSink, FieldSource};
use super::super::{Call, Event, Fd, Name, Names, Setup, Thread};
use super::item::{Item, STRING};
use super::state::{OFFSET_MAX, Said, State, number};
use super::{About, TraceError};
use input::blocks::{BlockWriter, Blocks, unzigzag, zigzag};
use input::{Expected, Fault, Input, expected};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// First bytes of a binary trace. The last byte is the version.
pub const MAGIC: [u8; 8] = *b"flfiles\x01";

/// Upper bound on the bytes of a string; longer ones are cut when written and refused when read.
const STRING_MAX: u64 = 16 << 10;

/// Compression level of zstd. Higher levels gain a few per cent on such records.
const LEVEL: i32 = 6;

/// End of the last access to each open file: offsets are written as the distance from it, which is
/// 0 for sequential accesses.
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

    /// Tracks the fields of a call: offset, then length.
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

/// Writer of a binary trace.
pub struct Writer<W: Write> {
    out: BlockWriter<W>,
    ends: Ends,
    /// For each name, its number in the file plus one; 0 if the string has not been written.
    ids: Vec<u32>,
    strings: u32,
    last: u64,
    events: u64,
}

/// Sink that writes fields to a block; names become their numbers in the file.
struct Fields<'a, W: Write> {
    out: &'a mut BlockWriter<W>,
    ends: &'a mut Ends,
    ids: &'a [u32],
}

impl<W: Write> FieldSink for Fields<'_, W> {
    fn fd(&mut self, _: &'static str, fd: Fd) {
        self.ends.fd = fd.0;
        self.out.number(fd.0.into());
    }

    fn name(&mut self, _: &'static str, name: Name) {
        let id = self.ids.get(name.0 as usize).copied().unwrap_or(0);
        self.out.number(u64::from(id.max(1) - 1));
    }

    fn number(&mut self, key: &'static str, number: u64) {
        if key == "at" {
            let distance = number.wrapping_sub(self.ends.expected()) as i64;
            self.out.number(zigzag(distance));
        } else {
            self.out.number(number);
        }
        self.ends.saw(key, number);
    }

    fn word(&mut self, _: &'static str, index: usize, _: &'static [&'static str]) {
        self.out.number(index as u64);
    }

    fn bits(&mut self, _: &'static str, bits: u32, _: &'static [&'static str]) {
        self.out.number(bits.into());
    }
}

/// Sink that collects the names of a call or an item.
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
    /// Begins a trace with the header items and the setup.
    ///
    /// # Errors
    /// If the output fails; so for all methods below.
    pub fn new(out: W, about: &About, setup: &Setup, names: &Names) -> io::Result<Self> {
        let mut writer = Self {
            out: BlockWriter::new(out, &MAGIC, LEVEL)?,
            ends: Ends::default(),
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
        // These strings belong to no table; each is followed by its only use.
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

    /// Writes a thread; threads are numbered from 0 in the order of writing.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn thread(&mut self, thread: &Thread, names: &Names) -> io::Result<()> {
        self.item(&Item::Thread(*thread), names)
    }

    /// Writes an event, and first the strings that it needs.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn event(&mut self, event: &Event, names: &Names) -> io::Result<()> {
        let call = event.step.call;
        let mut used = NamesOf::default();
        call.put(&mut used);
        self.know(&used, names)?;
        self.out.bytes(&[call.number()]);
        self.out.number(event.step.thread.0.into());
        let since = event.at.0.wrapping_sub(self.last) as i64;
        self.out.number(zigzag(since));
        self.out.number(event.took.0);
        self.out.number(zigzag(number(event.result)));
        self.ends.begin();
        call.put(&mut Fields {
            out: &mut self.out,
            ends: &mut self.ends,
            ids: &self.ids,
        });
        self.last = event.at.0;
        self.events += 1;
        self.out.end_item()
    }

    fn item(&mut self, item: &Item, names: &Names) -> io::Result<()> {
        let mut used = NamesOf::default();
        item.put(&mut used);
        self.know(&used, names)?;
        self.out.bytes(&[item.tag()]);
        item.put(&mut Fields {
            out: &mut self.out,
            ends: &mut self.ends,
            ids: &self.ids,
        });
        self.out.end_item()
    }

    /// Writes the strings in `used` that have not been written yet.
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
                self.out.bytes(&[STRING]);
                self.out.number(string.len() as u64);
                self.out.bytes(string);
                self.out.end_item()?;
            }
        }
        Ok(())
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.item(&Item::End(self.events), &Names::default())?;
        self.out.finish()
    }
}

/// Reader of a binary trace.
pub(super) struct Binary {
    name: String,
    blocks: Blocks,
    /// Offset of the item being read, after decompression.
    item: u64,
    ends: Ends,
    /// Strings of the file, in the reader's table of names.
    strings: Vec<Name>,
    last: u64,
}

impl Binary {
    pub(super) fn new(name: &str, input: Input) -> Result<Self, TraceError> {
        let blocks = Blocks::new(input, &MAGIC);
        Ok(Self {
            name: name.to_owned(),
            blocks: blocks.map_err(TraceError::unreadable(name, "the beginning"))?,
            item: 0,
            ends: Ends::default(),
            strings: vec![Name::ROOT],
            last: 0,
        })
    }

    /// Reads the next event; `None` at the end.
    pub(super) fn next(&mut self, state: &mut State) -> Result<Option<Event>, TraceError> {
        self.items(state).map_err(|fault| match fault {
            Fault::Expected(Expected(expected)) => TraceError::Record {
                name: self.name.clone(),
                place: format!("at byte {}", self.item),
                expected,
            },
            Fault::Io(e) => {
                let place = format!("byte {}", self.blocks.position());
                TraceError::unreadable(&self.name, place)(e)
            }
        })
    }

    fn items(&mut self, state: &mut State) -> Result<Option<Event>, Fault> {
        loop {
            let begun = self.blocks.begin_item();
            self.item = self.blocks.position();
            begun?;
            let tag = self.blocks.byte()?;
            if tag == STRING {
                self.string(state)?;
                continue;
            }
            if tag != 0 && tag < STRING {
                return Ok(Some(self.event(tag, state)?));
            }
            let item = Item::take(tag, &mut self.source(state, false))?;
            let Some(item) = item else {
                return expected(format!("a known tag, not {tag}"));
            };
            if !state.item(item)? {
                self.blocks.end()?;
                return Ok(None);
            }
        }
    }

    fn string(&mut self, state: &mut State) -> Result<(), Expected> {
        let length = self.blocks.number()?;
        let short = usize::try_from(length)
            .ok()
            .filter(|_| length <= STRING_MAX);
        let Some(string) = short.and_then(|length| self.blocks.bytes(length)) else {
            return expected(format!("a string of at most {STRING_MAX} bytes"));
        };
        self.strings.push(state.names.intern(string));
        Ok(())
    }

    fn event(&mut self, tag: u8, state: &mut State) -> Result<Event, Expected> {
        let thread = self.blocks.number()?;
        let since = unzigzag(self.blocks.number()?);
        let at = self.last.wrapping_add(since as u64);
        let took = self.blocks.number()?;
        let result = unzigzag(self.blocks.number()?);
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
            blocks: &mut self.blocks,
            ends: &mut self.ends,
            strings: &self.strings,
            state,
            opens,
        }
    }
}

/// Source that reads fields from a block.
struct Source<'a> {
    blocks: &'a mut Blocks,
    ends: &'a mut Ends,
    strings: &'a [Name],
    state: &'a State,
    opens: bool,
}

impl FieldSource for Source<'_> {
    type Error = Expected;

    fn fd(&mut self, _: &'static str) -> Result<Fd, Expected> {
        let fd = self.blocks.number()?;
        let fd = self.state.fd(fd, self.opens)?;
        self.ends.fd = fd.0;
        Ok(fd)
    }

    fn name(&mut self, key: &'static str) -> Result<Name, Expected> {
        let id = usize::try_from(self.blocks.number()?).unwrap_or(usize::MAX);
        match self.strings.get(id) {
            Some(&name) => self.state.path(key, name),
            None => expected("a string that is known"),
        }
    }

    fn number(&mut self, key: &'static str, max: u64) -> Result<u64, Expected> {
        let mut number = self.blocks.number()?;
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
        let index = usize::try_from(self.blocks.number()?).unwrap_or(usize::MAX);
        if index >= words.len() {
            return expected(format!("`{key}` of {}", words.join(", ")));
        }
        Ok(index)
    }

    fn bits(&mut self, key: &'static str, words: &'static [&'static str]) -> Result<u32, Expected> {
        let bits = self.blocks.number()?;
        match u32::try_from(bits) {
            Ok(bits) if bits >> words.len() == 0 => Ok(bits),
            _ => expected(format!("`{key}` of {}", words.join(", "))),
        }
    }
}
