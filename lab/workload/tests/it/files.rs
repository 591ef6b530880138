//! Traces of file calls: both forms are equivalent, and invalid contents are refused.

use bolero::TypeGenerator;
use proptest::prelude::*;
use sim::Seed;
use std::io::Cursor;
use units::Ns;
use workload::files::trace::{
    About, FileTrace, Form, LoadedFiles, MAGIC, Summarizer, TextWriter, TraceError, Writer,
};
use workload::files::{
    Call, Entry, EntryKind, Errno, Event, Fd, FieldSource, Mode, Name, Names, NodeKind, Setup,
    Step, Thread, ThreadId,
};

fn read(bytes: &[u8]) -> Result<LoadedFiles, TraceError> {
    FileTrace::from_reader("t", Cursor::new(bytes.to_vec()))?.load()
}

fn binary(trace: &LoadedFiles) -> Vec<u8> {
    let LoadedFiles {
        about,
        setup,
        names,
        threads,
        events,
    } = trace;
    let mut writer = Writer::new(Vec::new(), about, setup, names).unwrap();
    for thread in threads {
        writer.thread(thread, names).unwrap();
    }
    for event in events {
        writer.event(event, names).unwrap();
    }
    writer.finish().unwrap()
}

fn text(trace: &LoadedFiles) -> Vec<u8> {
    let LoadedFiles {
        about,
        setup,
        names,
        threads,
        events,
    } = trace;
    let mut writer = TextWriter::new(Vec::new(), about, setup, names).unwrap();
    for thread in threads {
        writer.thread(thread, names).unwrap();
    }
    for event in events {
        writer.event(event, names).unwrap();
    }
    writer.finish().unwrap()
}

/// Text form of a trace, which has strings in place of numbers of one table.
fn said(trace: &LoadedFiles) -> String {
    String::from_utf8(text(trace)).unwrap()
}

/// Source of fields from random numbers: descriptors are taken slots, names are among `paths`.
struct Numbers<'a> {
    numbers: &'a mut dyn Iterator<Item = u64>,
    paths: Vec<Name>,
    /// Slots that were taken, including the one of an open in progress.
    slots: u32,
}

impl Numbers<'_> {
    fn next(&mut self) -> u64 {
        self.numbers.next().unwrap_or(0)
    }
}

impl FieldSource for Numbers<'_> {
    type Error = ();

    fn fd(&mut self, _: &'static str) -> Result<Fd, ()> {
        Ok(Fd(self.next() as u32 % self.slots))
    }

    fn name(&mut self, _: &'static str) -> Result<Name, ()> {
        let index = self.next() as usize % self.paths.len();
        Ok(self.paths[index])
    }

    fn number(&mut self, _: &'static str, max: u64) -> Result<u64, ()> {
        let (number, bits) = (self.next(), self.next() % 63);
        Ok((number >> 1 >> bits).min(max))
    }

    fn word(&mut self, _: &'static str, words: &'static [&'static str]) -> Result<usize, ()> {
        Ok(self.next() as usize % words.len())
    }

    fn bits(&mut self, _: &'static str, words: &'static [&'static str]) -> Result<u32, ()> {
        Ok(self.next() as u32 & ((1 << words.len()) - 1))
    }
}

impl Numbers<'_> {
    /// Makes a call; the first call opens a file.
    fn call(&mut self) -> Call {
        let kind = match self.slots {
            0 => 0,
            _ => self.next() as usize % Call::KINDS.len(),
        };
        let number = Call::KINDS[kind].0;
        let taken = self.slots;
        self.slots += u32::from(number == 1);
        let call = Call::take(number, self).unwrap().unwrap();
        self.slots = match call {
            Call::Open { fd, .. } => taken.max(fd.0 + 1),
            _ => taken,
        };
        call
    }

    /// Makes an event that begins after the last one of its thread.
    fn event(&mut self, ends: &mut [u64; 2]) -> Event {
        let call = self.call();
        let thread = (self.next() % 2) as u32;
        let end = &mut ends[thread as usize];
        let think = self.next() % 1_000_000;
        let (at, took) = (*end + think, self.next() % 1_000_000);
        *end = at + took;
        let result = match self.next() % 3 {
            0 => Err(Errno(1 + (self.next() % 200) as u16)),
            _ => Ok(self.next() >> 1),
        };
        let step = Step {
            thread: ThreadId(thread),
            think: Ns(think),
            call,
        };
        Event {
            step,
            at: Ns(at),
            took: Ns(took),
            result,
        }
    }
}

/// A setup with every kind of entry.
fn setup(paths: &[Name], names: &mut Names) -> Setup {
    let entry = |path, kind| Entry {
        path,
        kind,
        mode: Mode(0o644),
    };
    let entries = vec![
        entry(names.intern(b"dir"), EntryKind::Directory),
        entry(paths[1], EntryKind::File { size: 1 << 40 }),
        entry(
            paths[0],
            EntryKind::Symlink {
                target: names.intern(b"../x"),
            },
        ),
        entry(paths[2], EntryKind::Link { to: paths[1] }),
        entry(names.intern(b"p"), EntryKind::Node(NodeKind::Fifo)),
    ];
    Setup { entries }
}

/// Makes a trace of `count` calls of all kinds from random numbers.
fn made(numbers: &mut dyn Iterator<Item = u64>, count: usize) -> LoadedFiles {
    let mut names = Names::default();
    let strings: [&[u8]; 4] = [b"a", b"dir/b c", b"dir/\xff\"\\", b""];
    let paths: Vec<_> = strings.iter().map(|path| names.intern(path)).collect();
    let program = names.intern(b"/usr/bin/tool");
    let thread = |process, parent| Thread {
        process,
        pid: 10 + process,
        tid: 10 + process,
        parent,
        born: Ns(5),
        program,
    };
    let setup = setup(&paths, &mut names);
    let mut source = Numbers {
        numbers,
        paths,
        slots: 0,
    };
    let mut ends = [5; 2];
    LoadedFiles {
        about: About {
            root: b"/home/me".to_vec(),
            command: b"tool -x \"y\"".to_vec(),
            notes: vec![b"io_uring was used".to_vec()],
        },
        setup,
        names,
        threads: vec![thread(0, None), thread(1, Some(ThreadId(0)))],
        events: (0..count).map(|_| source.event(&mut ends)).collect(),
    }
}

fn sample(count: usize) -> LoadedFiles {
    let mut rng = Seed(7).stream("files");
    made(&mut std::iter::repeat_with(move || rng.next_u64()), count)
}

#[test]
fn binary_and_text_forms_are_equivalent() {
    let trace = sample(20_000);
    let (binary, text) = (binary(&trace), text(&trace));
    assert_eq!(Form::detect(&binary), Some(Form::Flt));
    assert_eq!(Form::detect(&text), Some(Form::Text));
    assert!(binary.len() * 2 < text.len());
    for bytes in [&binary, &text] {
        let again = read(bytes).unwrap();
        assert_eq!(said(&again), said(&trace));
        assert_eq!(again.about, trace.about);
        let times = |trace: &LoadedFiles| -> Vec<_> {
            let times = trace
                .events
                .iter()
                .map(|it| (it.at, it.step.think, it.took));
            times.collect()
        };
        assert_eq!(times(&again), times(&trace));
    }
}

#[test]
fn summary_matches_a_count_of_the_events() {
    let trace = sample(5_000);
    let mut sum = Summarizer::default();
    trace.events.iter().for_each(|event| sum.add(event));
    let sum = sum.finish(&trace.threads, &trace.names);
    assert_eq!((sum.calls, sum.threads, sum.processes), (5_000, 2, 2));
    assert_eq!(sum.kinds.iter().map(|kind| kind.calls).sum::<u64>(), 5_000);
    assert_eq!(sum.kinds.len(), Call::KINDS.len());
    assert!(sum.files.len() <= Summarizer::FILES);
    assert_eq!(sum.paths, 4);
}

#[test]
fn truncated_trace_is_refused_with_its_offset() {
    let whole = binary(&sample(300));
    for end in (0..whole.len()).step_by(7) {
        let told = read(&whole[..end]).unwrap_err().to_string();
        assert!(told.starts_with("t: "), "{told}");
    }
    let mut longer = zstd::decode_all(&whole[MAGIC.len()..]).unwrap();
    longer.push(0);
    let longer = [&MAGIC[..], &zstd::encode_all(&longer[..], 1).unwrap()].concat();
    let told = read(&longer).unwrap_err().to_string();
    assert!(told.contains("nothing after the end"), "{told}");
}

#[test]
fn flipped_byte_is_detected() {
    let whole = binary(&sample(300));
    let body = zstd::decode_all(&whole[MAGIC.len()..]).unwrap();
    for at in (0..body.len()).step_by(11) {
        let mut changed = body.clone();
        changed[at] ^= 4;
        let bytes = [&MAGIC[..], &zstd::encode_all(&changed[..], 1).unwrap()].concat();
        assert!(read(&bytes).is_err(), "byte {at}");
    }
}

#[test]
fn invalid_lines_are_named_in_the_error() {
    let thread = "thread process=0 pid=1 tid=1 parent=0 born=0 program=\"\"";
    for (line, wants) in [
        (
            "7 0 open fd=1 path=\"a\" flags=read mode=0 = 0 +1",
            "an open file below 1",
        ),
        ("7 0 fsync fd=0 = 0 +1", "an open file below 0"),
        ("7 1 sync = 0 +1", "a thread that is known"),
        (
            "7 0 mkdir path=\"../a\" mode=0755 = 0 +1",
            "inside the root",
        ),
        ("7 0 mkdir path=\"/a\" mode=0755 = 0 +1", "inside the root"),
        ("7 0 mkdir path=\"a\" mode=010000 = 0 +1", "`mode`"),
        ("7 0 mkdir path=\"a\" = 0 +1", "`mode=`"),
        ("7 0 jump = 0 +1", "the name of a call"),
        ("7 0 sync", "`= RESULT +NANOSECONDS`"),
        ("7 0 sync = EWHAT +1", "the name of an error"),
        ("18446744073709551615 0 sync = 0 +1", "146 years"),
        ("setup-file path=\"a\" mode=0 size=1 x", "nothing more"),
        (
            "thread process=5 pid=1 tid=1 parent=0 born=0 program=\"\"",
            "numbered from 0",
        ),
        ("end events=3", "3 calls"),
        ("what", "the name of an item"),
    ] {
        let text = format!("flashloom file calls 1\n{thread}\n{line}\nend events=1\n");
        let told = read(text.as_bytes()).unwrap_err().to_string();
        assert!(
            told.starts_with("t:3: ") && told.contains(wants),
            "{line}: {told}"
        );
    }
    let told = read(b"flashloom file calls 1\n").unwrap_err().to_string();
    assert!(told.contains("the line `end`"), "{told}");
}

#[derive(Debug, TypeGenerator)]
struct Input {
    bytes: Vec<u8>,
    form: u8,
}

impl Input {
    /// The bytes at one of the places where a reader parses input.
    fn contents(&self) -> Vec<u8> {
        let bytes = &self.bytes;
        let block = [
            &(bytes.len() as u32).to_le_bytes()[..],
            &crc32c(bytes).to_le_bytes(),
            bytes,
        ];
        match self.form % 4 {
            0 => bytes.clone(),
            1 => [&MAGIC[..], bytes].concat(),
            2 => [
                &MAGIC[..],
                &zstd::encode_all(&block.concat()[..], 1).unwrap(),
            ]
            .concat(),
            _ => [b"flashloom file calls 1\n", &bytes[..]].concat(),
        }
    }
}

/// Checksum of blocks, bit by bit: the reference for the reader's implementation.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc))
    })
}

#[test]
fn hostile_bytes_never_panic() {
    bolero::check!().with_type::<Input>().for_each(|input| {
        if let Ok(trace) = read(&input.contents()) {
            assert!(trace.events.len() <= input.bytes.len());
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_trace_round_trips_through_both_forms(numbers in prop::collection::vec(any::<u64>(), 1..400)) {
        let trace = made(&mut numbers.into_iter(), 40);
        let again = read(&binary(&trace)).unwrap();
        prop_assert_eq!(said(&again), said(&trace));
        let again = read(said(&trace).as_bytes()).unwrap();
        prop_assert_eq!(said(&again), said(&trace));
    }

    #[test]
    fn lines_of_any_words_never_panic(words in prop::collection::vec(0_usize..24, 0..40)) {
        const WORDS: [&str; 24] = [
            "0", "1", " ", "\n", "open", "pread", "stat", "fd=0", "path=\"a\"", "of=path",
            "flags=read|write", "mode=0644", "at=9223372036854775807", "len=1", "= ", "0 +1",
            "ENOENT", "+", "end events=", "thread process=0", "setup-file", "\"", "\\x", "\u{e9}",
        ];
        let text: String = words.iter().map(|&word| WORDS[word]).collect();
        let _ = read(format!("flashloom file calls 1\n{text}").as_bytes());
    }
}
