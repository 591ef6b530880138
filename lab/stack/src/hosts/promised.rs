//! The book's table of forces, read and compared with what the judge demands.
//!
//! Each file system of the table is mounted, and short histories of real calls run on it. A history
//! has states in which one [`Fact`] is lost. The fact is demanded if the judge rejects all of them.

use super::tests::plan;
use super::{Host, Memory, named};
use crate::attached::Attached;
use crate::files::ready;
use crate::name::{STACKS, StackName};
use ::crash::{Attributes, Chronicle, Scribe, Seen, Shown, Witness};
use nand::{Payload, UNIT};
use sim::Kernel;
use ssd::Precondition;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use vfs::{
    Access, AnyBody, CacheConfig, Clock, Compute, FileKind, OpenFlags, Process, RenameFlags,
    Source, Timestamp, Vfs,
};

const PAGE: &str = include_str!("../../../../docs/book/src/power-cuts.md");

/// A change that a power cut may undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    Contents,
    Size,
    Attributes,
    /// The last change of the forced file's name.
    OwnName,
    /// A name in the forced directory.
    NameInIt,
    /// A change of another name before the last change of a name of the forced file.
    EarlierName,
    /// A change of another name after that.
    LaterName,
    /// Contents of a file that is not forced.
    OtherContents,
    /// The name of the forced file may be there without earlier changes of names.
    MaybeOwnName,
}

use Fact::{
    Attributes as Attrs, Contents, EarlierName, LaterName, MaybeOwnName, NameInIt, OtherContents,
    OwnName, Size,
};

const NAMES: [Fact; 4] = [OwnName, NameInIt, EarlierName, LaterName];
const ALL: [Fact; 8] = [
    Contents,
    Size,
    Attrs,
    OwnName,
    NameInIt,
    EarlierName,
    LaterName,
    OtherContents,
];

/// The vocabulary of the cells.
const WORDS: [(&str, &[Fact]); 10] = [
    ("nothing", &[]),
    ("nothing more", &[]),
    ("contents", &[Contents]),
    ("size", &[Size]),
    ("attributes", &[Attrs]),
    ("own name", &[OwnName]),
    ("maybe own name", &[MaybeOwnName]),
    ("names in it", &[NameInIt]),
    ("earlier names", &[EarlierName]),
    ("all names", &NAMES),
];

fn facts(cell: &str) -> BTreeSet<Fact> {
    let word = |word: &str| -> &[Fact] {
        if word == "everything" {
            return &ALL;
        }
        let known = WORDS.iter().find(|(known, _)| *known == word);
        known
            .unwrap_or_else(|| panic!("`{word}` is not a word of the table"))
            .1
    };
    cell.split(", ").flat_map(word).copied().collect()
}

/// The object that is forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    New,
    Old,
    Directory,
}

impl Target {
    fn has(self, fact: Fact) -> bool {
        match fact {
            Contents | Size => self != Self::Directory,
            NameInIt => self == Self::Directory,
            MaybeOwnName => self == Self::New,
            _ => true,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Force {
    None,
    Fsync,
    Fdatasync,
    Sync,
}

/// Heads of the columns, each with the forces that its cells are about.
const COLUMNS: [(&str, Force, &[Target]); 6] = [
    (
        "no sync call",
        Force::None,
        &[Target::New, Target::Old, Target::Directory],
    ),
    ("`fsync` of a new file", Force::Fsync, &[Target::New]),
    ("`fsync` of another file", Force::Fsync, &[Target::Old]),
    ("`fsync` of a directory", Force::Fsync, &[Target::Directory]),
    (
        "`fdatasync` of a file",
        Force::Fdatasync,
        &[Target::New, Target::Old],
    ),
    (
        "`sync`",
        Force::Sync,
        &[Target::New, Target::Old, Target::Directory],
    ),
];

/// The table: facts of each cell, by host.
fn table(page: &str) -> BTreeMap<String, Vec<BTreeSet<Fact>>> {
    let section = page.split("## What each sync call promises").nth(1);
    let lines = section.expect("the page has the section").lines();
    let lines = lines.skip_while(|line| !line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        let inner = line.trim_matches('|').split('|');
        inner.map(|cell| cell.trim().to_owned()).collect()
    };
    let rows = lines.take_while(|line| line.starts_with('|')).map(cells);
    let rows: Vec<Vec<String>> = rows.collect();
    let heads = COLUMNS.map(|column| column.0);
    assert_eq!(rows[0][1..], heads, "the columns of the table");
    let hosts = rows[2..].iter().flat_map(|row| {
        let cells: Vec<_> = row[1..].iter().map(|cell| facts(cell)).collect();
        assert_eq!(cells.len(), heads.len(), "{row:?}");
        let hosts = row[0]
            .split(", ")
            .map(|host| host.trim_matches('`').to_owned());
        hosts.map(move |host| (host, cells.clone()))
    });
    hosts.collect()
}

type Mounted = Vfs<Witness<AnyBody>>;
type Calls = Process<Witness<AnyBody>>;

/// A mounted file system whose calls are recorded.
struct Bench {
    vfs: Mounted,
    calls: Calls,
    chronicle: Rc<RefCell<Chronicle>>,
    promises: super::Promises,
}

/// Files by path, as a reader sees them.
type Tree = BTreeMap<&'static str, Seen>;

/// Every path of a history, directories before their files.
const PATHS: [&str; 9] = [
    "/dir", "/dir/in", "/fresh", "/old", "/moved", "/other", "/new", "/early", "/later",
];

impl Bench {
    /// Begins a history: `/old`, `/other` and `/dir` are there and durable.
    async fn begin(&self) {
        for path in PATHS.iter().rev() {
            if self.calls.unlink(path.as_bytes()).await.is_err() {
                let _ = self.calls.rmdir(path.as_bytes()).await;
            }
        }
        // Only ext4 and its kin have it.
        let _ = self.calls.rmdir(b"/lost+found").await;
        self.write("/old", 0, 2, 1).await;
        self.write("/other", 0, 2, 1).await;
        self.calls
            .mkdir(b"/dir", 0o755)
            .await
            .expect("it can be made");
        self.calls.sync().await.expect("the drive is sound");
        let shown = Shown::read(self.vfs.body()).await.expect("it can be read");
        let mut past = Chronicle::default();
        past.set_in_order(self.promises.in_order);
        past.set_alone(self.promises.alone);
        past.adopt(&shown);
        *self.chronicle.borrow_mut() = past;
    }

    async fn write(&self, path: &str, page: u64, pages: u64, pattern: u64) {
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let fd = self
            .calls
            .open(path.as_bytes(), flags, 0o644)
            .await
            .expect("it can be made");
        let len = pages * UNIT as u64;
        if len > 0 {
            let source = Source::Fill { pattern, len };
            let done = self.calls.pwrite(fd, page * UNIT as u64, source).await;
            done.expect("there is room");
        }
        self.calls.close(fd).await.expect("it is open");
    }

    /// The file that is forced, after its last change of a name.
    async fn change_name(&self, target: Target) -> &'static str {
        match target {
            Target::New => {
                self.write("/new", 0, 0, 0).await;
                "/new"
            }
            Target::Old => {
                let moved = self
                    .calls
                    .rename(b"/old", b"/moved", RenameFlags::default());
                moved.await.expect("it can be moved");
                "/moved"
            }
            Target::Directory => {
                self.write("/dir/in", 0, 0, 0).await;
                "/dir"
            }
        }
    }

    async fn ino(&self, path: &str) -> vfs::Ino {
        let fd = self.calls.open(path.as_bytes(), OpenFlags::READ, 0).await;
        let fd = fd.expect("it is there");
        let ino = self.calls.ino(fd).expect("it is open");
        self.calls.close(fd).await.expect("it is open");
        ino
    }

    async fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        for path in PATHS {
            let Ok(attr) = self.calls.stat(path.as_bytes()).await else {
                continue;
            };
            let mut pages = Vec::new();
            if attr.kind == FileKind::Regular {
                let fd = self.calls.open(path.as_bytes(), OpenFlags::READ, 0).await;
                let fd = fd.expect("it is there");
                let bytes = self.calls.read_bytes(fd, 0, attr.size as usize).await;
                let bytes = bytes.expect("it can be read");
                let page = |page: &[u8]| Payload::Bytes(Arc::new(page.try_into().expect("whole")));
                pages = bytes.chunks(UNIT).map(page).collect();
                self.calls.close(fd).await.expect("it is open");
            }
            let (ino, kind, size) = (self.ino(path).await, attr.kind, attr.size);
            let (target, attributes) = (Vec::new(), Attributes::of(&attr));
            tree.insert(
                path,
                Seen {
                    ino,
                    kind,
                    size,
                    pages,
                    target,
                    attributes,
                },
            );
        }
        tree
    }

    /// Runs the history of `fact`; returns the path that is to be forced, and the states in which
    /// the fact is lost, of which the first has the forced file and lacks earlier names.
    async fn history(&self, fact: Fact, target: Target) -> (&'static str, Vec<Tree>) {
        let mut forced = match target {
            Target::New => "/new",
            Target::Old => "/old",
            Target::Directory => "/dir",
        };
        if target == Target::New && matches!(fact, Contents | Size | Attrs) {
            self.write(forced, 0, 2, 1).await;
        }
        if matches!(fact, LaterName) {
            forced = self.change_name(target).await;
        }
        let before = self.tree().await;
        match fact {
            Contents => self.write(forced, 0, 1, 2).await,
            Size => self.write(forced, 2, 1, 1).await,
            Attrs => {
                let changed = self.calls.chmod(forced.as_bytes(), 0o600).await;
                changed.expect("it can be changed");
            }
            OwnName if target == Target::Directory => {
                forced = "/fresh";
                let made = self.calls.mkdir(b"/fresh", 0o755).await;
                made.expect("it can be made");
            }
            OwnName | NameInIt => forced = self.change_name(target).await,
            EarlierName | MaybeOwnName => {
                self.write("/early", 0, 0, 0).await;
                forced = self.change_name(target).await;
                let mut without = self.tree().await;
                without.remove("/early");
                return (forced, vec![without, before]);
            }
            LaterName => self.write("/later", 0, 0, 0).await,
            OtherContents => {
                if target == Target::New {
                    self.write(forced, 0, 0, 0).await;
                }
                self.write("/other", 0, 1, 2).await;
                let mut lost = self.tree().await;
                lost.insert("/other", before["/other"].clone());
                return (forced, vec![lost, before]);
            }
        }
        (forced, vec![before])
    }

    async fn force(&self, force: Force, path: &str) {
        if let Force::Sync = force {
            return self.calls.sync().await.expect("the drive is sound");
        }
        let fd = self.calls.open(path.as_bytes(), OpenFlags::READ, 0).await;
        let fd = fd.expect("it is there");
        let done = match force {
            Force::Fsync => self.calls.fsync(fd).await,
            Force::Fdatasync => self.calls.fdatasync(fd).await,
            _ => Ok(()),
        };
        done.expect("the drive is sound");
        self.calls.close(fd).await.expect("it is open");
    }

    /// Faults that the judge finds in a tree.
    fn faults(&self, tree: &Tree, root: vfs::Ino) -> Vec<(::crash::Fault, String)> {
        let mut shown = Shown::default();
        for (path, seen) in tree {
            let (dir, name) = path.rsplit_once('/').expect("paths are absolute");
            let dir = if dir.is_empty() { root } else { tree[dir].ino };
            shown.add(dir, name.as_bytes(), seen.clone());
        }
        self.chronicle.borrow().judge(&shown)
    }

    /// Facts that the judge demands after `force` of `target`.
    async fn demanded(&self, force: Force, target: Target) -> BTreeSet<Fact> {
        let mut demanded = BTreeSet::new();
        let root = self.ino("/").await;
        for fact in ALL
            .into_iter()
            .chain([MaybeOwnName])
            .filter(|fact| target.has(*fact))
        {
            self.begin().await;
            let (forced, lost) = self.history(fact, target).await;
            self.force(force, forced).await;
            let now = self.tree().await;
            let faults = self.faults(&now, root);
            assert!(
                faults.is_empty(),
                "the newest state of {fact:?}: {faults:?}"
            );
            let accepted = lost.iter().map(|tree| self.faults(tree, root).is_empty());
            let accepted: Vec<bool> = accepted.collect();
            let holds = match fact {
                MaybeOwnName => accepted == [true, true],
                _ => !accepted.contains(&true),
            };
            if holds {
                demanded.insert(fact);
            }
        }
        demanded
    }
}

/// Every difference between a row and the judge.
async fn compare(bench: Bench, row: Vec<BTreeSet<Fact>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((head, force, targets), cell) in COLUMNS.iter().zip(&row) {
        for target in *targets {
            let said = cell.union(&row[0]).filter(|fact| target.has(**fact));
            let said: BTreeSet<Fact> = said.copied().collect();
            let demanded = bench.demanded(*force, *target).await;
            if said != demanded {
                wrong.push(format!(
                    "{head} ({target:?}): {said:?}, but the judge: {demanded:?}"
                ));
            }
        }
    }
    wrong
}

/// Mounts the file system of `stack` on a new drive and compares its judge with `row`.
fn differences(stack: &StackName, row: &[BTreeSet<Fact>]) -> Vec<String> {
    let mut plan = plan(stack);
    plan.precondition = Precondition::Fresh;
    let kernel = Kernel::new();
    let media = crate::run::media(&plan).expect("it can be built");
    let device = crate::run::attach(&plan, media, &kernel).expect("as above");
    let host = named(&stack.host, &stack.switches, &plan.behaviour).expect("it is one");
    let port = Attached::of(
        &kernel.sim(),
        &device,
        stack,
        (host.memory(), Memory::Blank),
    );
    let (port, sim, row) = (port.expect("it fits"), kernel.sim(), row.to_vec());
    kernel.block_on(async move {
        ready(&port, Some(host.deallocates()))
            .await
            .expect("it can be made");
        let made = host.format(&sim, &port, Timestamp::default()).await;
        made.expect("it can be made");
        let body = host.mount(&sim, &port, Timestamp::default()).await;
        let chronicle = Rc::new(RefCell::new(Chronicle::default()));
        let promises = host.promises();
        let body = body.expect("it was just made");
        let body = Witness::new(body, Rc::clone(&chronicle), promises.settles);
        let cache = CacheConfig::default();
        let vfs = Vfs::mount(&sim, body, cache, Clock::default(), Compute::free());
        vfs.observe(Rc::new(Scribe::new(Rc::clone(&chronicle))));
        let calls = Process::new(&vfs, Access::root());
        compare(
            Bench {
                vfs,
                calls,
                chronicle,
                promises,
            },
            row,
        )
        .await
    })
}

/// A cell that promises more or less than the judge demands fails here, and so does a file system
/// without a row. The names of zonefs are fixed and its files are zones: no history here applies.
#[test]
fn table_of_forces_agrees_with_the_judge() {
    let mut rows = table(PAGE);
    for stack in STACKS {
        let stack: StackName = stack.name.parse().expect("it is in the table");
        if ["raw", "zonefs"].contains(&stack.host.as_str()) || !stack.switches.is_empty() {
            continue;
        }
        let row = rows.get(&stack.host);
        let row = row.unwrap_or_else(|| panic!("the table has no row of {}", stack.host));
        let wrong = differences(&stack, row);
        assert!(wrong.is_empty(), "{stack}: {wrong:#?}");
    }
    let known = |host: &String| {
        STACKS
            .iter()
            .any(|s| s.name.starts_with(&format!("{host}@")))
    };
    rows.retain(|host, _| !known(host));
    assert!(
        rows.is_empty(),
        "rows of hosts that do not exist: {:?}",
        rows.keys()
    );
}

/// The comparison finds a cell that has one fact too few, and one that has one too many.
#[test]
fn wrong_cell_of_the_table_is_found() {
    let rows = table(PAGE);
    for name in ["ext4@block", "f2fs@block", "bytefs@byte"] {
        let stack: StackName = name.parse().expect("it is in the table");
        for column in 0..COLUMNS.len() {
            let mut row = rows[&stack.host].clone();
            // Facts that are durable without a force are durable after each.
            let known = row[column].clone();
            match known
                .iter()
                .find(|fact| !row[0].contains(*fact) || column == 0)
            {
                Some(fact) => drop(row[column].remove(fact)),
                None => drop(row[column].insert(OtherContents)),
            }
            assert!(!differences(&stack, &row).is_empty(), "{name}, {row:?}");
        }
    }
}
