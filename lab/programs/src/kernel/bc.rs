//! Betweenness centrality by Brandes' algorithm, as in GAP.
//!
//! Structures: offsets of 8 bytes a vertex, neighbours of 4 bytes an edge, depths of 4 bytes,
//! numbers of shortest paths of 8, dependencies of 4, scores of 4, a queue of 4 bytes a vertex, and
//! a bit an edge that marks successors. Forward, a level of the queue is divided among the threads;
//! the thread that first reaches a vertex puts it into the queue. Backward, the levels are
//! processed again, deepest first.
//!
//! On a real machine chance decides which thread reaches a vertex first. Here the threads of a
//! level win in their order, as if they ran one after the other, which is one of the possible
//! outcomes; so the work of a thread does not depend on the speed of any other.
//!
//! Instructions besides loads and stores: 6 an edge forward (test, branch, test, branch, increment,
//! loop) and 2 more for a successor (addition, setting the bit); backward 4 an edge (bit, branch,
//! increment, loop) and 3 more for a successor (division, addition, multiply-add).

use super::bfs::chunks;
use crate::graph::{Graph, share};
use crate::mem::{Array, Mem, Space, Tag};
use crate::threads::Threads;
use sim::Seed;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Bytes of one vertex without its edges.
const VERTEX: u64 = 8 + 4 + 8 + 4 + 4 + 4;
const UNREACHED: u32 = u32::MAX;
/// Mark in `winner` of a vertex whose winning thread has processed it.
const TAKEN: u16 = u16::MAX;

/// State of betweenness centrality, shared by its threads.
pub struct Bc {
    graph: Graph,
    offsets: Array,
    neighbours: Array,
    depths: Array,
    paths: Array,
    deltas: Array,
    scores: Array,
    queue: Array,
    successors: Array,
    end: u64,
    depth: Vec<Cell<u32>>,
    winner: Vec<Cell<u16>>,
    path: Vec<Cell<f64>>,
    delta: Vec<Cell<f32>>,
    score: Vec<Cell<f32>>,
    /// Bit of each edge that leads to a successor.
    successor: Vec<Cell<u64>>,
    levels: RefCell<Levels>,
    sources: u32,
    seed: Seed,
}

/// Queue of a search, cut into levels, and the start of each thread's additions to the newest
/// level.
#[derive(Default)]
struct Levels {
    queue: Vec<u32>,
    /// Start of each level in the queue; the last level ends with the queue.
    starts: Vec<usize>,
    /// Index in the queue at which each thread's additions to the newest level begin.
    added: Vec<usize>,
}

impl Bc {
    /// Number of vertices with `degree` edges each that fill `footprint` bytes.
    #[must_use]
    pub const fn vertices(footprint: u64, degree: u64) -> u64 {
        footprint * 8 / (VERTEX * 8 + degree * 33)
    }

    /// Number of edges per vertex with which `vertices` vertices fill `footprint` bytes.
    #[must_use]
    pub const fn degree(footprint: u64, vertices: u64) -> u64 {
        (footprint / vertices).saturating_sub(VERTEX) * 8 / 33
    }

    /// One search as warm-up, then searches from `sources` vertices of `graph`.
    #[must_use]
    pub fn new(graph: Graph, sources: u32, seed: Seed) -> Rc<Self> {
        let mut space = Space::new();
        let (vertices, edges) = (graph.vertices(), graph.edges());
        let count = vertices as usize;
        Rc::new(Self {
            offsets: Array::new(&mut space, vertices + 1, 8),
            neighbours: Array::new(&mut space, edges, 4),
            depths: Array::new(&mut space, vertices, 4),
            paths: Array::new(&mut space, vertices, 8),
            deltas: Array::new(&mut space, vertices, 4),
            scores: Array::new(&mut space, vertices, 4),
            queue: Array::new(&mut space, vertices, 4),
            successors: Array::new(&mut space, edges.div_ceil(64), 8),
            end: space.end(),
            depth: vec![Cell::new(UNREACHED); count],
            winner: vec![Cell::new(TAKEN); count],
            path: vec![Cell::new(0.0); count],
            delta: vec![Cell::new(0.0); count],
            score: vec![Cell::new(0.0); count],
            successor: vec![Cell::new(0); edges.div_ceil(64) as usize],
            levels: RefCell::default(),
            sources,
            seed,
            graph,
        })
    }

    /// Program of `threads` threads, at most 65,534.
    #[must_use]
    pub fn program(self: &Rc<Self>, threads: u32) -> Threads {
        Threads::new(threads, self.end, |thread, mem| {
            let worker = Worker {
                bc: Rc::clone(self),
                thread,
                threads,
                mem,
            };
            worker.run()
        })
    }

    /// Score of `vertex`: the sum over the sources of the shares of shortest paths through it.
    #[must_use]
    pub fn score(&self, vertex: u64) -> f32 {
        self.score[vertex as usize].get()
    }

    /// Source vertex of search `number`; search 0 is the warm-up.
    #[must_use]
    pub fn source(&self, number: u32) -> u64 {
        self.graph.source(self.seed.child(number.into()))
    }

    /// Graph that is searched.
    #[must_use]
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    fn is_successor(&self, edge: u64) -> bool {
        self.successor[(edge / 64) as usize].get() >> (edge % 64) & 1 == 1
    }

    /// Resets the queue to a search from `source`.
    fn seed_queue(&self, source: u64) {
        let mut levels = self.levels.borrow_mut();
        levels.queue.clear();
        levels.queue.push(source as u32);
        levels.starts = vec![0];
        levels.added.clear();
        self.depth[source as usize].set(0);
        self.path[source as usize].set(1.0);
    }

    /// Computes level `depth` + 1, unless that has been done.
    fn expand(&self, depth: u32, threads: u32) {
        let mut levels = self.levels.borrow_mut();
        let levels = &mut *levels;
        if levels.starts.len() > depth as usize + 1 {
            return;
        }
        let (start, end) = (levels.starts[depth as usize], levels.queue.len());
        levels.starts.push(end);
        levels.added.clear();
        for thread in 0..threads {
            levels.added.push(levels.queue.len());
            for at in share((end - start) as u64, thread, threads) {
                let from = u64::from(levels.queue[start + at as usize]);
                self.reach(from, depth + 1, thread as u16, &mut levels.queue);
            }
        }
    }

    /// Follows the edges of `from` to level `depth`; new vertices count as reached by `thread`.
    fn reach(&self, from: u64, depth: u32, thread: u16, queue: &mut Vec<u32>) {
        let first = self.graph.offset(from);
        let paths = self.path[from as usize].get();
        for edge in first..first + self.graph.degree(from) {
            let target = self.graph.target(from, edge) as usize;
            if self.depth[target].get() == UNREACHED {
                self.depth[target].set(depth);
                self.winner[target].set(thread);
                queue.push(target as u32);
            }
            if self.depth[target].get() == depth {
                let word = &self.successor[(edge / 64) as usize];
                word.set(word.get() | 1 << (edge % 64));
                let path = &self.path[target];
                path.set(path.get() + paths);
            }
        }
    }

    /// Range of the queue with the vertices of level `depth` that `thread` processes.
    fn own(&self, depth: u32, thread: u32, threads: u32) -> std::ops::Range<u64> {
        let levels = self.levels.borrow();
        let start = levels.starts[depth as usize];
        let end = levels.starts.get(depth as usize + 1);
        let end = end.copied().unwrap_or(levels.queue.len());
        let own = share((end - start) as u64, thread, threads);
        own.start + start as u64..own.end + start as u64
    }

    fn queued(&self, place: u64) -> u64 {
        self.levels.borrow().queue[place as usize].into()
    }
}

struct Worker {
    bc: Rc<Bc>,
    thread: u32,
    threads: u32,
    mem: Mem,
}

impl Worker {
    async fn run(mut self) {
        for search in 0..=self.bc.sources {
            if search == 1 {
                self.mem.begin().await;
            }
            self.clear().await;
            self.mem.meet().await;
            let levels = self.forward(search).await;
            if search > 0 {
                self.backward(levels).await;
            }
        }
        self.mem.end();
    }

    /// Clears the arrays of a search with stores of whole lines.
    async fn clear(&mut self) {
        let (bc, mem) = (&self.bc, &mut self.mem);
        for chunk in chunks(share(bc.graph.vertices(), self.thread, self.threads), 4096) {
            let count = chunk.end - chunk.start;
            mem.store_span(bc.depths.at(chunk.start), count * 4, None);
            mem.store_span(bc.paths.at(chunk.start), count * 8, None);
            mem.store_span(bc.deltas.at(chunk.start), count * 4, None);
            for vertex in chunk.start as usize..chunk.end as usize {
                bc.depth[vertex].set(UNREACHED);
                bc.path[vertex].set(0.0);
                bc.delta[vertex].set(0.0);
            }
            mem.breathe().await;
        }
        let words = bc.successor.len() as u64;
        for chunk in chunks(share(words, self.thread, self.threads), 4096) {
            mem.store_span(
                bc.successors.at(chunk.start),
                (chunk.end - chunk.start) * 8,
                None,
            );
            for word in chunk {
                bc.successor[word as usize].set(0);
            }
            mem.breathe().await;
        }
    }

    /// Runs the forward phase; returns the number of levels.
    async fn forward(&mut self, search: u32) -> u32 {
        let bc = Rc::clone(&self.bc);
        if self.thread == 0 {
            let source = bc.source(search);
            bc.seed_queue(source);
            self.mem.store(bc.depths.at(source), 4);
            self.mem.store(bc.paths.at(source), 8);
            self.mem.store(bc.queue.at(0), 4);
        }
        let mut depth = 0;
        loop {
            self.mem.meet().await;
            bc.expand(depth, self.threads);
            let mut slot = bc.levels.borrow().added[self.thread as usize] as u64;
            for place in bc.own(depth, self.thread, self.threads) {
                self.search_from(place, depth + 1, &mut slot).await;
            }
            self.mem.meet().await;
            depth += 1;
            let levels = bc.levels.borrow();
            if levels.starts[depth as usize] == levels.queue.len() {
                return depth;
            }
        }
    }

    /// Loads the vertex at `place` of the queue, the bounds of its edges and its number of paths;
    /// returns the vertex and the tag of its first offset.
    fn take(&mut self, place: u64) -> (u64, Tag) {
        let vertex = self.bc.queued(place);
        let id = self.mem.load(self.bc.queue.at(place), 4);
        let begin = self.mem.load_after(self.bc.offsets.at(vertex), 8, id);
        self.mem.load_after(self.bc.offsets.at(vertex + 1), 8, id);
        self.mem.load_after(self.bc.paths.at(vertex), 8, id);
        (vertex, begin)
    }

    async fn search_from(&mut self, place: u64, depth: u32, slot: &mut u64) {
        let bc = Rc::clone(&self.bc);
        let (from, begin) = self.take(place);
        let mem = &mut self.mem;
        let first = bc.graph.offset(from);
        for edge in first..first + bc.graph.degree(from) {
            let target = bc.graph.target(from, edge);
            let id = mem.load_after(bc.neighbours.at(edge), 4, begin);
            mem.load_after(bc.depths.at(target), 4, id);
            mem.compute(6);
            let winner = &bc.winner[target as usize];
            let here = bc.depth[target as usize].get() == depth;
            if here && u32::from(winner.get()) == self.thread {
                winner.set(TAKEN);
                mem.store_after(bc.depths.at(target), 4, id);
                mem.store(bc.queue.at(*slot), 4);
                *slot += 1;
            }
            if bc.is_successor(edge) {
                mem.load(bc.successors.at(edge / 64), 8);
                mem.store(bc.successors.at(edge / 64), 8);
                mem.load_after(bc.paths.at(target), 8, id);
                mem.store_after(bc.paths.at(target), 8, id);
                mem.compute(2);
            }
            mem.breathe().await;
        }
    }

    async fn backward(&mut self, levels: u32) {
        let bc = Rc::clone(&self.bc);
        // The deepest level has no successors, and the source gets no score.
        for depth in (1..levels.saturating_sub(1)).rev() {
            for place in bc.own(depth, self.thread, self.threads) {
                self.gather(place).await;
            }
            self.mem.meet().await;
        }
    }

    /// Sums the dependencies of the successors of the vertex at `place`, and adds the sum to its
    /// score.
    async fn gather(&mut self, place: u64) {
        let bc = Rc::clone(&self.bc);
        let (from, begin) = self.take(place);
        let mem = &mut self.mem;
        let first = bc.graph.offset(from);
        let (mut sum, paths) = (0.0_f32, bc.path[from as usize].get());
        for edge in first..first + bc.graph.degree(from) {
            let bit = mem.load_after(bc.successors.at(edge / 64), 8, begin);
            mem.compute(4);
            if bc.is_successor(edge) {
                let target = bc.graph.target(from, edge);
                let id = mem.load_after(bc.neighbours.at(edge), 4, bit);
                mem.load_after(bc.paths.at(target), 8, id);
                mem.load_after(bc.deltas.at(target), 4, id);
                mem.compute(3);
                let target = target as usize;
                let share = paths / bc.path[target].get();
                sum += share as f32 * (1.0 + bc.delta[target].get());
            }
            mem.breathe().await;
        }
        bc.delta[from as usize].set(sum);
        let score = &bc.score[from as usize];
        score.set(score.get() + sum);
        mem.store(bc.deltas.at(from), 4);
        mem.load(bc.scores.at(from), 4);
        mem.store(bc.scores.at(from), 4);
        mem.compute(1);
    }
}
