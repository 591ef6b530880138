//! Workloads side by side, compared with each member alone.

use super::model::{Run, run};
use sim::Seed;
use std::collections::{BTreeMap, BTreeSet};
use units::Ns;
use workload::files::beside::parts;
use workload::files::{
    Call, EntryKind, Errno, Fd, FileWorkload, Name, Source, ThreadId, Turn, asks_for_files,
};
use workload::shipped::Asked;

/// Workloads whose calls do not depend on time: their threads share nothing.
const STEADY: [&str; 6] = [
    "varmail:threads=1,files=60,ops=700",
    "streams:files=3,size=200k,bs=16k",
    "fileserver:threads=1,files=30,ops=400",
    "create:threads=1,files=90",
    "iozone:size=256k,bs=16k,order=random,sync=end",
    "randrw:threads=1,size=1m,ops=300",
];

/// Call with its open files and strings taken out of it: the bare call, the files, the strings.
type Spelled = (Call, Vec<Fd>, Vec<String>);

fn spelled(source: &dyn Source, call: &Call) -> Spelled {
    let (mut fds, mut strings) = (Vec::new(), Vec::new());
    let fd = |fd: Fd| {
        fds.push(fd);
        Some(Fd(0))
    };
    let name = |_: &str, name: Name| {
        strings.push(String::from_utf8_lossy(source.names().bytes(name)).into_owned());
        Some(Name::ROOT)
    };
    let bare = call.map(fd, name).unwrap();
    (bare, fds, strings)
}

/// Calls of each thread with their byte counts, in order.
fn by_thread(run: &Run) -> BTreeMap<ThreadId, Vec<(Spelled, u64)>> {
    let mut threads: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for made in &run.made {
        let call = spelled(&*run.source, &made.call);
        threads
            .entry(made.thread)
            .or_default()
            .push((call, made.count));
    }
    threads
}

/// Threads of a member, sorted by number.
fn threads_of(source: &dyn Source, member: usize) -> Vec<ThreadId> {
    let all = (0..source.threads()).map(ThreadId);
    all.filter(|thread| source.member(*thread) == member)
        .collect()
}

#[test]
fn each_member_makes_its_calls_of_a_run_alone() {
    let mut rng = Seed(7).stream("members");
    for round in 0..12 {
        let count = 1 + rng.below(4) as usize;
        let mut pick = |_| STEADY[rng.below(STEADY.len() as u64) as usize];
        let texts: Vec<&str> = (0..count).map(&mut pick).collect();
        let named = texts.iter().enumerate();
        let named: Vec<String> = named.map(|(at, text)| format!("m{at}={text}")).collect();
        let both = run(&named.join(" & "), round);
        assert_eq!(both.source.members().len(), count);
        let calls = by_thread(&both);
        // Member of each open file, and its slot in the run alone.
        let mut slots: BTreeMap<Fd, (usize, Fd)> = BTreeMap::new();
        let mut processes = BTreeSet::new();
        for (member, text) in texts.iter().enumerate() {
            let alone = run(text, round);
            let threads = threads_of(&*both.source, member);
            assert_eq!(threads.len() as u32, alone.source.threads());
            let own: BTreeSet<u32> = threads.iter().map(|t| both.source.process(*t)).collect();
            assert!(processes.is_disjoint(&own), "{named:?}");
            processes.extend(own);
            for (thread, (number, expected)) in threads.iter().zip(by_thread(&alone)) {
                let made = &calls[thread];
                assert_eq!(made.len(), expected.len(), "{text} {number:?}");
                for (made, expected) in made.iter().zip(&expected) {
                    same(made, expected, (member, &mut slots));
                }
            }
        }
    }
}

/// Asserts that `made` by a member equals `expected` in the member's own directory and slots.
fn same(
    ((call, fds, strings), count): &(Spelled, u64),
    (expected, wanted): &(Spelled, u64),
    (member, slots): (usize, &mut BTreeMap<Fd, (usize, Fd)>),
) {
    assert_eq!((call, count), (&expected.0, wanted));
    let moved = |path: &String| match path.is_empty() {
        true => format!("m{member}"),
        false => format!("m{member}/{path}"),
    };
    assert_eq!(strings, &expected.2.iter().map(moved).collect::<Vec<_>>());
    for (fd, own) in fds.iter().zip(&expected.1) {
        assert_eq!(*slots.entry(*fd).or_insert((member, *own)), (member, *own));
    }
}

#[test]
fn stores_with_parked_threads_finish_side_by_side() {
    let store = "db-bench:benchmarks=fillrandom,records=3000,threads=2,memtable=64k,table=64k";
    let both = run(
        &format!("a={store} & b={store} & ycsb-a:records=500,ops=800"),
        1,
    );
    assert_eq!(both.source.members(), ["a", "b", "ycsb-a"]);
    let calls = by_thread(&both);
    let writes = |member: usize| {
        let threads = threads_of(&*both.source, member);
        let bytes = |thread: &ThreadId| -> u64 {
            let calls = calls.get(thread).into_iter().flatten();
            let writes = calls.filter(|((call, ..), _)| matches!(call.name(), "write" | "pwrite"));
            writes.map(|(_, count)| count).sum()
        };
        threads.iter().map(bytes).sum::<u64>()
    };
    let alone = run(store, 1).model.written;
    for member in [0, 1] {
        // The time decides when tables are merged.
        let ratio = writes(member) as f64 / alone as f64;
        assert!((0.5..2.0).contains(&ratio), "{member}: {ratio}");
    }
    assert_eq!(writes(0) + writes(1) + writes(2), both.model.written);
}

#[test]
fn finished_operation_belongs_to_the_member_of_the_last_turn() {
    let text = "a=ycsb-c:records=200,ops=300,threads=2 & b=ycsb-c:records=200,ops=100,threads=2";
    let mut source = FileWorkload::parse(text).unwrap().open(Seed(1)).unwrap();
    let (mut done, mut now) = ([0_u64; 2], Ns::ZERO);
    let mut ready: Vec<ThreadId> = (0..source.threads()).map(ThreadId).collect();
    while let Some(thread) = ready.pop() {
        now += Ns(1_000);
        let turn = source.next(thread, now);
        while source.finished().is_some() {
            done[source.member(thread)] += 1;
        }
        match turn {
            Turn::Call { call, .. } => {
                let count = match call {
                    Call::Pread { len, .. }
                    | Call::Pwrite { len, .. }
                    | Call::Write { len, .. } => len,
                    _ => 0,
                };
                source.ended(thread, Ok(count));
                ready.insert(0, thread);
            }
            Turn::Pause(_) => ready.insert(0, thread),
            Turn::Park | Turn::Done => {}
        }
        while let Some(woken) = source.wake() {
            ready.insert(0, woken);
        }
    }
    assert_eq!(done, [300, 100]);
}

#[test]
fn failure_of_a_member_carries_its_name() {
    let text = "varmail:files=20,threads=2 & log=streams:files=1,size=100,bs=60";
    let mut source = FileWorkload::parse(text).unwrap().open(Seed(1)).unwrap();
    let thread = threads_of(&*source, 1)[0];
    assert_eq!(thread, ThreadId(2));
    assert_eq!(source.failure(), None);
    let opened = source.next(thread, Ns::ZERO);
    assert!(matches!(
        opened,
        Turn::Call {
            call: Call::Open { .. },
            ..
        }
    ));
    source.ended(thread, Err(Errno(5)));
    let told = source.failure().unwrap();
    assert!(
        told.starts_with("log: seq/0 could not be written"),
        "{told}"
    );
    assert_eq!(source.next(thread, Ns::ZERO), Turn::Done);
    // The other members continue.
    assert!(matches!(
        source.next(ThreadId(0), Ns::ZERO),
        Turn::Call { .. }
    ));
}

#[test]
fn trees_of_members_lie_in_their_own_directories() {
    let source = FileWorkload::parse("a=streams:files=2 & streams:files=1");
    let source = source.unwrap().open(Seed(1)).unwrap();
    let entry = |entry: &workload::files::Entry| {
        let path = String::from_utf8_lossy(source.names().bytes(entry.path)).into_owned();
        (path, entry.kind == EntryKind::Directory)
    };
    let entries: Vec<(String, bool)> = source.setup().entries.iter().map(entry).collect();
    let is = |path: &str, dir: bool| (path.to_owned(), dir);
    let expected = [
        is("a", true),
        is("a/seq", true),
        is("a/seq/0", false),
        is("a/seq/1", false),
        is("streams", true),
        is("streams/seq", true),
        is("streams/seq/0", false),
    ];
    assert_eq!(entries, expected);
}

#[test]
fn shipped_recordings_keep_their_names_as_members() {
    let told = "sqlite:think=no & log=wiredtiger & streams:files=1";
    let asked = Asked::new(told).unwrap();
    assert!(asks_for_files(&asked.text), "{}", asked.text);
    assert_eq!(asked.named(&asked.text), told);
    assert_eq!(asked.size(), None);
    let source = FileWorkload::parse(&asked.text).unwrap();
    let source = source.open(Seed(1)).unwrap();
    assert_eq!(source.members(), ["sqlite", "log", "streams"]);
    let one = Asked::new("sqlite").unwrap().size().unwrap();
    let two = Asked::new("sqlite & wiredtiger").unwrap().size().unwrap();
    assert_eq!(two.0, 2 * one.0);
    let same = Asked::new("sqlite=sqlite").unwrap();
    assert_eq!(same.named(&same.text), "sqlite=sqlite");
}

#[test]
fn invalid_text_is_refused_with_the_expectation() {
    let says = |text: &str| FileWorkload::parse(text).unwrap_err().to_string();
    let cases = [
        ("varmail & varmail", "a name of its own for each"),
        ("a=varmail & a=create", "found a twice"),
        ("varmail & ", "expected a workload beside each \" & \""),
        ("a=", "expected a workload beside each \" & \""),
        ("a=b=varmail", "found \"b=varmail\""),
        ("varmail & creat", "did you mean create"),
        ("varmail & randwrite & randr", "found \"randr\""),
        ("a=varmail:file=3", "files"),
        ("a=zipfwrite", "is a block workload"),
    ];
    for (text, expected) in cases {
        let said = says(text);
        assert!(said.contains(expected), "{text}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let blocks = workload::Workload::parse("varmail & create").unwrap_err();
    assert!(
        blocks.to_string().contains("is a file workload"),
        "{blocks}"
    );
    assert_eq!(parts("varmail:threads=4"), None);
}

#[test]
fn any_text_is_parsed_or_refused() {
    let words = [
        " & ",
        "&",
        "=",
        "a=",
        "b=",
        "m0=create",
        "varmail",
        "streams:files=2",
        "randrw:ops=9,threads=1",
        ",",
        "é",
        "/",
        "sqlite",
    ];
    let mut rng = Seed(3).stream("words");
    let mut opened = 0;
    for _ in 0..4_000 {
        let count = 1 + rng.below(6);
        let pick = |_| words[rng.below(words.len() as u64) as usize];
        let text: String = (0..count).map(pick).collect();
        let Ok(workload) = FileWorkload::parse(&text) else {
            continue;
        };
        let source = workload
            .open(Seed(1))
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        let members = source.members();
        let distinct: BTreeSet<&String> = members.iter().collect();
        assert_eq!(distinct.len(), members.len(), "{text}");
        opened += u32::from(members.len() > 1);
    }
    assert!(opened > 3, "{opened}");
}
