//! The judge against brute force.
//!
//! [`Model`] enumerates every tree of names that a promise allows after a short history; the
//! module `contents` does the same for the contents of one file. Over bounded-exhaustive corpora (every sequence of
//! calls up to a length, as ACE generates them: Mohan et al., "Finding Crash-Consistency Bugs
//! with Bounded Black-Box Crash Testing", OSDI 2018) the judge has to accept these states and
//! reject every other state of the same names, inodes and values. A judge that loses nothing
//! falsely fails here if it lets a state through, and the other way round.

use crash::{Attributes, Chronicle, Leads, Scribe, Seen, Shown, Ticket};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfs::{Act, FileKind, Ino, Observer};

const ROOT: Ino = Ino(2);
/// Inodes that a settled history begins with: `foo`, the directory `A`, and `A/foo`.
const SETTLED: [Ino; 3] = [Ino(10), Ino(11), Ino(12)];

type Key = (Ino, &'static str);
type Names = BTreeMap<Key, Ino>;
/// Names that a call changes, each with its inode after the call.
type Changes = Vec<(Key, Option<Ino>)>;

/// A call of the corpus, by paths.
#[derive(Clone, Copy, Debug)]
enum Call {
    Mkdir(&'static str),
    Create(&'static str),
    Link(&'static str, &'static str),
    Rename(&'static str, &'static str),
    Exchange(&'static str, &'static str),
    Unlink(&'static str),
    Fsync(&'static str),
    Fdatasync(&'static str),
    Sync,
}

/// Changes of names and forces: every sequence of these is a history. Calls that fail in
/// their turn, since a name is missing or taken, end their branch of the corpus.
const CALLS: [Call; 20] = [
    Call::Mkdir("A"),
    Call::Create("bar"),
    Call::Create("A/foo"),
    Call::Create("foo"),
    Call::Link("bar", "A/foo"),
    Call::Link("foo", "baz"),
    Call::Rename("bar", "foo"),
    Call::Rename("foo", "bar"),
    Call::Rename("A/foo", "bar"),
    Call::Rename("bar", "A/foo"),
    Call::Exchange("foo", "bar"),
    Call::Unlink("bar"),
    Call::Unlink("foo"),
    Call::Fsync("bar"),
    Call::Fsync("foo"),
    Call::Fsync("A/foo"),
    Call::Fsync("A"),
    Call::Fsync("."),
    Call::Fdatasync("bar"),
    Call::Sync,
];

/// Names, by the promise: every moment since the floor, and names of files that were forced
/// by themselves over it.
#[derive(Clone)]
struct Model {
    entries: bool,
    moments: Vec<Names>,
    /// Inodes that the change to each moment touched.
    touched: Vec<BTreeSet<Ino>>,
    floor: usize,
    dirs: BTreeSet<Ino>,
    /// Files forced by themselves: moment of creation, name, inode, whether promised.
    over: Vec<(usize, Key, Ino, bool)>,
    /// Changes of an inode before this moment are forced.
    forced: BTreeMap<Ino, usize>,
}

impl Model {
    fn now(&self) -> &Names {
        &self.moments[self.moments.len() - 1]
    }

    fn change(&mut self, names: Names) {
        let old = self.now().clone();
        let keys: BTreeSet<&Key> = old.keys().chain(names.keys()).collect();
        let differs = keys.into_iter().filter(|k| old.get(k) != names.get(k));
        let touched = differs.flat_map(|k| [Some(&k.0), old.get(k), names.get(k)]);
        self.touched.push(touched.flatten().copied().collect());
        self.moments.push(names);
    }

    /// The moment that created `ino` under its only name, if no other change touched it and
    /// no force did.
    fn just_made(&self, ino: Ino) -> Option<(usize, Key)> {
        let forced = self.forced.get(&ino).copied().unwrap_or(0);
        let touches: Vec<usize> = (1..self.moments.len())
            .filter(|&at| self.touched[at].contains(&ino) && at > forced)
            .collect();
        let [made] = touches[..] else { return None };
        let names = |at: usize| self.moments[at].iter().filter(|(_, to)| **to == ino);
        let is_new = (0..made).all(|at| names(at).count() == 0) && !self.dirs.contains(&ino);
        let key = names(made).map(|(key, _)| *key).next()?;
        (self.entries && is_new).then_some((made, key))
    }

    fn force(&mut self, ino: Ino, data_only: bool) {
        let made = self.just_made(ino);
        let last = self.moments.len() - 1;
        if let Some((made, key)) = made {
            self.over.retain(|over| over.2 != ino);
            self.over.push((made, key, ino, !data_only));
            self.over.sort_unstable();
        }
        if data_only {
            return;
        }
        let forced = self.forced.insert(ino, last).unwrap_or(0);
        let needed = match made {
            // The directory of the name has to be there.
            Some((_, key)) => self
                .moments
                .iter()
                .position(|names| self.is_dir(names, key.0)),
            None => (forced + 1..=last)
                .rev()
                .find(|at| self.touched[*at].contains(&ino)),
        };
        self.floor = self.floor.max(needed.unwrap_or(0));
    }

    fn is_dir(&self, names: &Names, dir: Ino) -> bool {
        dir == ROOT || names.values().any(|to| *to == dir)
    }

    /// Every tree of names that recovery may show.
    fn allowed(&self) -> BTreeSet<Names> {
        let mut all = BTreeSet::new();
        for at in self.floor..self.moments.len() {
            let base = &self.moments[at];
            let mut states = BTreeSet::from([base.clone()]);
            for &(_, key, ino, promised) in self.over.iter().filter(|over| over.0 > at) {
                let laid = states.iter().filter_map(|state| {
                    let is_dir = base.get(&key).is_some_and(|to| self.dirs.contains(to));
                    let mut state = state.clone();
                    state.insert(key, ino);
                    (!is_dir).then_some(state)
                });
                let laid: BTreeSet<Names> = laid.collect();
                match promised {
                    true => states = laid,
                    false => states.extend(laid),
                }
            }
            all.extend(states);
        }
        all
    }
}

/// A history as the judge and the model have it.
struct History {
    chronicle: Rc<RefCell<Chronicle>>,
    model: Model,
    /// The next new inode.
    next: u64,
    calls: Vec<Call>,
}

impl Clone for History {
    fn clone(&self) -> Self {
        Self {
            chronicle: Rc::new(RefCell::new(self.chronicle.borrow().clone())),
            model: self.model.clone(),
            next: self.next,
            calls: self.calls.clone(),
        }
    }
}

impl History {
    fn new(entries: bool, settled: bool) -> Self {
        let mut chronicle = Chronicle::default();
        chronicle.set_in_order(true);
        chronicle.set_alone(entries);
        let [file, dir, inner] = SETTLED;
        let there: [(Key, Ino, FileKind); 3] = [
            ((ROOT, "foo"), file, FileKind::Regular),
            ((ROOT, "A"), dir, FileKind::Directory),
            ((dir, "foo"), inner, FileKind::Regular),
        ];
        let mut model = Model {
            entries,
            moments: vec![Names::new()],
            touched: vec![BTreeSet::new()],
            floor: 0,
            dirs: BTreeSet::from([ROOT]),
            over: Vec::new(),
            forced: BTreeMap::new(),
        };
        if settled {
            let mut shown = Shown::default();
            for (key, ino, kind) in there {
                shown.add(key.0, key.1.as_bytes(), seen(ino, kind));
                model.moments[0].insert(key, ino);
            }
            model.dirs.insert(dir);
            chronicle.adopt(&shown);
        }
        Self {
            chronicle: Rc::new(RefCell::new(chronicle)),
            model,
            next: 20,
            calls: Vec::new(),
        }
    }

    fn key(&self, path: &'static str) -> Option<Key> {
        match path.split_once('/') {
            None => Some((ROOT, path)),
            Some((dir, name)) => Some((self.find(dir)?, name)),
        }
    }

    fn find(&self, path: &'static str) -> Option<Ino> {
        match path {
            "." => Some(ROOT),
            path => self.model.now().get(&self.key(path)?).copied(),
        }
    }

    /// A new inode as `path`, unless that is taken.
    fn make(&mut self, path: &'static str, kind: FileKind) -> Option<Changes> {
        let key = self.key(path)?;
        if self.find(path).is_some() {
            return None;
        }
        let ino = Ino(self.next);
        self.next += 1;
        if kind == FileKind::Directory {
            self.model.dirs.insert(ino);
        }
        Some(vec![(key, Some(ino))])
    }

    /// The changes of names of `call`; none if it fails.
    fn changes(&mut self, call: Call) -> Option<Changes> {
        Some(match call {
            Call::Mkdir(path) => self.make(path, FileKind::Directory)?,
            Call::Create(path) => self.make(path, FileKind::Regular)?,
            Call::Link(from, to) if self.find(to).is_none() => {
                vec![(self.key(to)?, Some(self.find(from)?))]
            }
            Call::Rename(from, to) => {
                let (old, new) = (self.find(from)?, self.find(to));
                if new == Some(old) {
                    return None;
                }
                vec![(self.key(from)?, None), (self.key(to)?, Some(old))]
            }
            Call::Exchange(a, b) => {
                let (x, y) = (self.find(a)?, self.find(b)?);
                if x == y {
                    return None;
                }
                vec![(self.key(a)?, Some(y)), (self.key(b)?, Some(x))]
            }
            Call::Unlink(path) => {
                self.find(path)?;
                vec![(self.key(path)?, None)]
            }
            _ => return None,
        })
    }

    fn kind(&self, ino: Ino) -> FileKind {
        match self.model.dirs.contains(&ino) {
            true => FileKind::Directory,
            false => FileKind::Regular,
        }
    }

    /// Begins to change names; gives the ticket, if the call does not fail.
    fn begin(&mut self, call: Call) -> Option<(Ticket, Changes)> {
        let before = self.next;
        let changes = self.changes(call)?;
        let leads = |to: Option<Ino>| match to {
            None => Leads::Nowhere,
            Some(ino) if ino.0 >= before => Leads::New(self.kind(ino), b""),
            Some(ino) => Leads::To(ino),
        };
        let names: Vec<_> = changes
            .iter()
            .map(|((dir, name), to)| (*dir, name.as_bytes(), leads(*to)))
            .collect();
        let ticket = self.chronicle.borrow_mut().begin_names(&names);
        Some((ticket, changes))
    }

    fn changed(&self, changes: &[(Key, Option<Ino>)]) -> Names {
        let mut names = self.model.now().clone();
        for &(key, to) in changes {
            match to {
                Some(ino) => names.insert(key, ino),
                None => names.remove(&key),
            };
        }
        names
    }

    /// Trees after a call that is under way: a file that the call makes has an inode from
    /// `fresh` on, or one of its kind that no name leads to.
    fn afterwards(&self, changes: &[(Key, Option<Ino>)], fresh: u64) -> Vec<Names> {
        let after = self.changed(changes);
        let mut all = vec![after.clone()];
        let [(key, Some(made))] = changes else {
            return all;
        };
        if made.0 >= fresh {
            let now = self.model.now();
            let known = self.model.moments.iter().flat_map(BTreeMap::values);
            let free = known.filter(|ino| {
                self.kind(**ino) == self.kind(*made) && !now.values().any(|to| to == *ino)
            });
            all.extend(free.map(|ino| {
                let mut reused = after.clone();
                reused.insert(*key, *ino);
                reused
            }));
        }
        all
    }

    /// Makes `call`; false if it fails.
    fn call(&mut self, call: Call) -> bool {
        self.calls.push(call);
        let (path, data_only) = match call {
            Call::Fsync(path) => (path, false),
            Call::Fdatasync(path) => (path, true),
            Call::Sync => {
                self.force(&Act::ForceAll);
                self.model.floor = self.model.moments.len() - 1;
                self.model.over.clear();
                return true;
            }
            _ => return self.change(call),
        };
        let Some(ino) = self.find(path) else {
            return false;
        };
        let range = 0..u64::MAX;
        self.force(&Act::Force {
            ino,
            range,
            data_only,
        });
        self.model.force(ino, data_only);
        true
    }

    fn change(&mut self, call: Call) -> bool {
        let before = self.next;
        let Some((ticket, changes)) = self.begin(call) else {
            return false;
        };
        let mut all = self.chronicle.borrow_mut();
        for ino in (before..self.next).map(Ino) {
            all.made(ino, self.kind(ino), b"");
        }
        let names: Vec<_> = changes
            .iter()
            .map(|((dir, name), to)| (*dir, name.as_bytes(), *to))
            .collect();
        all.end_names(ticket, &names);
        drop(all);
        let names = self.changed(&changes);
        self.model.change(names);
        true
    }

    fn force(&self, act: &Act<'_>) {
        let scribe = Scribe::new(Rc::clone(&self.chronicle));
        let ticket = scribe.begins(act);
        scribe.ends(ticket, Some(0));
    }

    fn accepts(&self, names: &Names) -> bool {
        let mut shown = Shown::default();
        for (&(dir, name), &ino) in names {
            shown.add(dir, name.as_bytes(), seen(ino, self.kind(ino)));
        }
        self.chronicle.borrow().judge(&shown).is_empty()
    }

    /// Compares the judge with the model over every tree of the names and inodes that the
    /// history has, `also` among what is allowed; counts the trees.
    fn compare(&self, also: &[Names]) -> u64 {
        let mut allowed = self.model.allowed();
        allowed.extend(also.iter().cloned());
        let moments = self.model.moments.iter().chain(also.iter());
        let keys: BTreeSet<Key> = moments.clone().flat_map(BTreeMap::keys).copied().collect();
        let inos: BTreeSet<Ino> = moments.flat_map(BTreeMap::values).copied().collect();
        let mut trees = vec![Names::new()];
        for key in keys {
            // A directory has one name, and names are found in directories that are there.
            let with = trees.iter().filter(|tree| self.model.is_dir(tree, key.0));
            let with = with.flat_map(|tree| {
                let free = |ino: &&Ino| {
                    self.kind(**ino) == FileKind::Regular || !tree.values().any(|to| to == *ino)
                };
                inos.iter().filter(free).map(move |ino| {
                    let mut tree = tree.clone();
                    tree.insert(key, *ino);
                    tree
                })
            });
            let with: Vec<Names> = with.collect();
            trees.extend(with);
        }
        for tree in &trees {
            let (judge, model) = (self.accepts(tree), allowed.contains(tree));
            assert_eq!(judge, model, "{:?} leaves {tree:?}", self.calls);
        }
        trees.len() as u64
    }
}

/// A file without contents, as recovery shows it.
fn seen(ino: Ino, kind: FileKind) -> Seen {
    Seen {
        ino,
        kind,
        size: 0,
        pages: Vec::new(),
        target: Vec::new(),
        attributes: Attributes::default(),
    }
}

/// Counts of a corpus: histories, and states that were compared.
#[derive(Debug, Default)]
struct Compared {
    histories: u64,
    states: u64,
}

fn walk(history: &History, left: u32, cut_inside: bool, counts: &mut Compared) {
    counts.histories += 1;
    if cut_inside {
        for call in CALLS {
            let mut begun = history.clone();
            begun.calls.push(call);
            if let Some((_, changes)) = begun.begin(call) {
                let after = begun.afterwards(&changes, history.next);
                counts.states += begun.compare(&after);
            }
        }
    } else {
        counts.states += history.compare(&[]);
    }
    if left == 0 {
        return;
    }
    for call in CALLS {
        let mut next = history.clone();
        if next.call(call) {
            walk(&next, left - 1, cut_inside, counts);
        }
    }
}

fn corpus(calls: u32, cut_inside: bool) -> Compared {
    let mut counts = Compared::default();
    for (entries, settled) in [(false, false), (false, true), (true, false), (true, true)] {
        walk(
            &History::new(entries, settled),
            calls,
            cut_inside,
            &mut counts,
        );
    }
    counts
}

#[test]
fn judge_of_names_agrees_with_brute_force_between_calls() {
    let counts = corpus(3, false);
    assert!(counts.histories > 1_000, "{counts:?}");
    println!("{counts:?}");
}

#[test]
fn judge_of_names_agrees_with_brute_force_inside_a_call() {
    let counts = corpus(2, true);
    assert!(counts.histories > 100, "{counts:?}");
    println!("{counts:?}");
}
