//! Breadth-first search over all vertices in turn, as in Rodinia.
//!
//! Structures: a node of 8 bytes (first edge, number of edges), edges of 4 bytes, three arrays of
//! flags of 1 byte (in the frontier, reached now, visited), costs of 4 bytes. A level is two passes
//! over all vertices, each divided among the threads in equal ranges: the first follows the edges
//! of the frontier and marks unvisited vertices, the second turns the marks into the next frontier.
//! The search ends when a level marked nothing. Two threads may mark the same vertex; they write
//! the same values.
//!
//! Instructions besides loads and stores: 3 a vertex and pass (test, increment, loop), 5 an edge
//! (test, branch, addition of the cost, increment, loop).

use crate::graph::{Graph, share};
use crate::mem::{Array, Mem, Space};
use crate::threads::Threads;
use sim::Seed;
use std::cell::Cell;
use std::rc::Rc;

/// Bytes of one vertex without its edges.
const VERTEX: u64 = 8 + 3 + 4;
/// Bytes of one edge.
const EDGE: u64 = 4;

const FRONTIER: u8 = 1;
const MARKED: u8 = 2;
const VISITED: u8 = 4;

/// Cost of a vertex that the last search did not reach.
pub const UNREACHED: u32 = u32::MAX;

/// State of the search, shared by its threads.
pub struct Bfs {
    graph: Graph,
    nodes: Array,
    edges: Array,
    frontier: Array,
    marked: Array,
    visited: Array,
    costs: Array,
    end: u64,
    flags: Vec<Cell<u8>>,
    cost: Vec<Cell<u32>>,
    /// Whether a level marked a vertex, for even and odd levels.
    went_on: [Cell<bool>; 2],
    searches: u32,
    seed: Seed,
}

impl Bfs {
    /// Number of vertices with `degree` edges each that fill `footprint` bytes.
    #[must_use]
    pub const fn vertices(footprint: u64, degree: u64) -> u64 {
        footprint / (VERTEX + degree * EDGE)
    }

    /// One search as warm-up and `searches` more over `graph`.
    #[must_use]
    pub fn new(graph: Graph, searches: u32, seed: Seed) -> Rc<Self> {
        let mut space = Space::new();
        let vertices = graph.vertices();
        Rc::new(Self {
            nodes: Array::new(&mut space, vertices, 8),
            edges: Array::new(&mut space, graph.edges(), EDGE),
            frontier: Array::new(&mut space, vertices, 1),
            marked: Array::new(&mut space, vertices, 1),
            visited: Array::new(&mut space, vertices, 1),
            costs: Array::new(&mut space, vertices, 4),
            end: space.end(),
            flags: vec![Cell::new(0); vertices as usize],
            cost: vec![Cell::new(UNREACHED); vertices as usize],
            went_on: Default::default(),
            searches,
            seed,
            graph,
        })
    }

    /// Program of `threads` threads.
    #[must_use]
    pub fn program(self: &Rc<Self>, threads: u32) -> Threads {
        Threads::new(threads, self.end, |thread, mem| {
            run(Rc::clone(self), thread, threads, mem)
        })
    }

    /// Depth of `vertex` from the source of the last search, once the program has ended.
    #[must_use]
    pub fn cost(&self, vertex: u64) -> u32 {
        self.cost[vertex as usize].get()
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

    fn flag(&self, vertex: u64, flag: u8) -> bool {
        self.flags[vertex as usize].get() & flag != 0
    }

    fn set(&self, vertex: u64, flag: u8) {
        let cell = &self.flags[vertex as usize];
        cell.set(cell.get() | flag);
    }

    fn clear(&self, vertex: u64, flag: u8) {
        let cell = &self.flags[vertex as usize];
        cell.set(cell.get() & !flag);
    }
}

async fn run(bfs: Rc<Bfs>, thread: u32, threads: u32, mut mem: Mem) {
    let own = share(bfs.graph.vertices(), thread, threads);
    // The first offset of a range is looked up once; the others follow from it.
    let first_edge = bfs.graph.offset(own.start);
    for search in 0..=bfs.searches {
        if search == 1 {
            mem.begin().await;
        }
        prepare(&bfs, search, own.clone(), &mut mem).await;
        let mut level = 0;
        loop {
            mem.meet().await;
            let parity = level as usize % 2;
            bfs.went_on[1 - parity].set(false);
            follow(&bfs, level, own.clone(), first_edge, &mut mem).await;
            mem.meet().await;
            advance(&bfs, parity, own.clone(), &mut mem).await;
            mem.meet().await;
            if !bfs.went_on[parity].get() {
                break;
            }
            level += 1;
        }
    }
    mem.end();
}

/// Clears the flags and costs of `own` with stores of whole lines.
async fn prepare(bfs: &Bfs, search: u32, own: std::ops::Range<u64>, mem: &mut Mem) {
    let source = bfs.source(search);
    for chunk in chunks(own, 4096) {
        let count = chunk.end - chunk.start;
        for flags in [bfs.frontier, bfs.marked, bfs.visited] {
            mem.store_span(flags.at(chunk.start), count, None);
        }
        mem.store_span(bfs.costs.at(chunk.start), count * 4, None);
        for vertex in chunk {
            bfs.flags[vertex as usize].set(0);
            bfs.cost[vertex as usize].set(UNREACHED);
            if vertex == source {
                mem.store(bfs.frontier.at(vertex), 1);
                mem.store(bfs.visited.at(vertex), 1);
                mem.store(bfs.costs.at(vertex), 4);
                bfs.set(vertex, FRONTIER | VISITED);
                bfs.cost[vertex as usize].set(0);
            }
        }
        mem.breathe().await;
    }
}

/// Splits `range` into pieces of at most `most`.
pub(super) fn chunks(
    range: std::ops::Range<u64>,
    most: u64,
) -> impl Iterator<Item = std::ops::Range<u64>> {
    let end = range.end;
    range
        .step_by(most as usize)
        .map(move |start| start..end.min(start + most))
}

/// Follows the edges of the frontier in `own` and marks unvisited targets.
async fn follow(bfs: &Bfs, level: u32, own: std::ops::Range<u64>, mut edge: u64, mem: &mut Mem) {
    for vertex in own {
        mem.load(bfs.frontier.at(vertex), 1);
        mem.compute(3);
        let degree = bfs.graph.degree(vertex);
        if bfs.flag(vertex, FRONTIER) {
            bfs.clear(vertex, FRONTIER);
            mem.store(bfs.frontier.at(vertex), 1);
            let node = mem.load(bfs.nodes.at(vertex), 8);
            mem.load(bfs.costs.at(vertex), 4);
            for edge in edge..edge + degree {
                let id = mem.load_after(bfs.edges.at(edge), 4, node);
                let target = bfs.graph.target(vertex, edge);
                mem.load_after(bfs.visited.at(target), 1, id);
                mem.compute(5);
                if !bfs.flag(target, VISITED) {
                    mem.store_after(bfs.costs.at(target), 4, id);
                    mem.store_after(bfs.marked.at(target), 1, id);
                    bfs.cost[target as usize].set(level + 1);
                    bfs.set(target, MARKED);
                }
                mem.breathe().await;
            }
        }
        edge += degree;
        mem.breathe().await;
    }
}

/// Turns the marks in `own` into the next frontier.
async fn advance(bfs: &Bfs, parity: usize, own: std::ops::Range<u64>, mem: &mut Mem) {
    for vertex in own {
        mem.load(bfs.marked.at(vertex), 1);
        mem.compute(3);
        if bfs.flag(vertex, MARKED) {
            mem.store(bfs.frontier.at(vertex), 1);
            mem.store(bfs.visited.at(vertex), 1);
            mem.store(bfs.marked.at(vertex), 1);
            bfs.clear(vertex, MARKED);
            bfs.set(vertex, FRONTIER | VISITED);
            bfs.went_on[parity].set(true);
        }
        mem.breathe().await;
    }
}
