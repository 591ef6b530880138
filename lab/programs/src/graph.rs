//! Random graphs that are computed rather than held.
//!
//! Invariants: an edge is a function of the seed and its number, so that a graph of billions of
//! edges costs a few bits a vertex; the edges of a vertex are the numbers from its offset to that
//! of the next vertex, as in compressed sparse rows, and offsets ascend to the number of edges.
//!
//! In a **uniform** graph each vertex has the same number of edges, to random vertices. In a
//! **Kronecker** graph (Leskovec and others 2010; the probabilities are Graph500's, which GAP uses
//! too: A 0.57, B 0.19, C 0.19) the expected degree of a vertex whose number has k bits set, of L,
//! is m·0.76^(L-k)·0.24^k; it is rounded up or down at random. The target of an edge is drawn bit
//! by bit: a bit is set with probability 1/4 where the source's is clear, and 5/24 where it is set.
//! Numbers of vertices are then scattered by a bijection, as GAP permutes them. Both kinds are
//! directed.

use sim::{Seed, mix};

/// Vertices that share one stored offset.
const BLOCK: u64 = 64;

/// Distribution of the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Equal degrees and uniformly random targets.
    Uniform,
    /// Skewed degrees: a few vertices have most edges.
    Kronecker,
}

/// Directed graph, computed from its seed.
#[derive(Debug)]
pub struct Graph {
    seed: u64,
    vertices: u64,
    degree: u64,
    kronecker: Option<Kronecker>,
}

#[derive(Debug)]
struct Kronecker {
    bits: u32,
    scatter: Bijection,
    /// Expected degree of a vertex by its number of set bits, with 32 bits after the point.
    degrees: Vec<u64>,
    /// Offset of the first vertex of each block.
    offsets: Vec<u64>,
}

impl Graph {
    /// A graph of `vertices` vertices with about `degree` edges each. A Kronecker graph has the
    /// largest power of two of vertices that is not above `vertices`.
    ///
    /// # Panics
    /// If there is no vertex, or more than 2³².
    #[must_use]
    pub fn new(shape: Shape, vertices: u64, degree: u64, seed: Seed) -> Self {
        assert!((1..=1 << 32).contains(&vertices), "a graph has vertices");
        let mut graph = Self {
            seed: seed.stream("graph").next_u64(),
            vertices,
            degree,
            kronecker: None,
        };
        if shape == Shape::Kronecker {
            let bits = vertices.ilog2();
            graph.vertices = 1 << bits;
            graph.kronecker = Some(Kronecker::new(bits, degree, graph.seed, seed));
        }
        graph
    }

    /// Number of vertices.
    #[must_use]
    pub const fn vertices(&self) -> u64 {
        self.vertices
    }

    /// Number of edges.
    #[must_use]
    pub fn edges(&self) -> u64 {
        match &self.kronecker {
            None => self.vertices * self.degree,
            Some(k) => k.offsets[k.offsets.len() - 1],
        }
    }

    /// Number of the first edge of `vertex`; the number of edges for `vertex` = `vertices()`.
    #[must_use]
    pub fn offset(&self, vertex: u64) -> u64 {
        match &self.kronecker {
            None => vertex * self.degree,
            Some(k) => {
                let first = vertex - vertex % BLOCK;
                let held = k.offsets[(vertex / BLOCK) as usize];
                held + (first..vertex).map(|v| self.degree(v)).sum::<u64>()
            }
        }
    }

    /// Number of edges that leave `vertex`.
    #[must_use]
    #[inline]
    pub fn degree(&self, vertex: u64) -> u64 {
        match &self.kronecker {
            None => self.degree,
            Some(k) => k.degree(vertex, self.seed),
        }
    }

    /// Vertex that edge number `edge`, which leaves `from`, leads to.
    #[must_use]
    #[inline]
    pub fn target(&self, from: u64, edge: u64) -> u64 {
        let hash = mix(self.seed ^ edge.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match &self.kronecker {
            None => ((u128::from(hash) * u128::from(self.vertices)) >> 64) as u64,
            Some(k) => k.target(from, hash),
        }
    }

    /// First vertex with an edge, from a random place on and around; vertex 0 if there are no
    /// edges.
    #[must_use]
    pub fn source(&self, seed: Seed) -> u64 {
        let start = seed.stream("source").below(self.vertices);
        let all = (start..self.vertices).chain(0..start);
        all.into_iter().find(|&v| self.degree(v) > 0).unwrap_or(0)
    }
}

impl Kronecker {
    fn new(bits: u32, degree: u64, hash: u64, seed: Seed) -> Self {
        let vertices = 1_u64 << bits;
        let mut kronecker = Self {
            bits,
            scatter: Bijection::new(bits, seed),
            degrees: degrees(bits, degree),
            offsets: Vec::with_capacity((vertices / BLOCK + 2) as usize),
        };
        let mut offset = 0;
        for vertex in 0..vertices {
            if vertex % BLOCK == 0 {
                kronecker.offsets.push(offset);
            }
            offset += kronecker.degree(vertex, hash);
        }
        kronecker.offsets.push(offset);
        kronecker
    }

    #[inline]
    fn degree(&self, vertex: u64, hash: u64) -> u64 {
        let original = self.scatter.back(vertex);
        let expected = self.degrees[original.count_ones() as usize];
        let up = mix(hash.rotate_left(17) ^ vertex) >> 32 < (expected & 0xffff_ffff);
        (expected >> 32) + u64::from(up)
    }

    #[inline]
    fn target(&self, from: u64, hash: u64) -> u64 {
        let source = self.scatter.back(from);
        let mut draws = hash;
        let mut draw = || {
            draws = draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(draws)
        };
        // Each bit of `quarter` is set with probability 1/4, and 5/24 is 5/6 of that. Eight binary
        // places of 5/6, 0.11010101…, are used.
        let quarter = draw() & draw();
        let mut five_sixths = draw();
        for place in [0_u8, 1, 0, 1, 0, 1, 1] {
            let next = draw();
            five_sixths = if place == 1 {
                five_sixths | next
            } else {
                five_sixths & next
            };
        }
        let mask = (1 << self.bits) - 1;
        let target = quarter & (!source | five_sixths) & mask;
        self.scatter.forth(target)
    }
}

/// Expected degrees by number of set bits, with 32 bits after the point.
fn degrees(bits: u32, degree: u64) -> Vec<u64> {
    let edges = u128::from(degree) << bits;
    let of = |set: u32| {
        let mut expected = edges << 32;
        for bit in 0..bits {
            expected = expected * if bit < set { 24 } else { 76 } / 100;
        }
        u64::try_from(expected).unwrap_or(u64::MAX)
    };
    (0..=bits).map(of).collect()
}

/// Invertible bijection of the numbers below a power of two: a multiplication, a fold and another
/// multiplication.
#[derive(Debug)]
struct Bijection {
    mask: u64,
    fold: u32,
    forth: [u64; 2],
    back: [u64; 2],
}

impl Bijection {
    fn new(bits: u32, seed: Seed) -> Self {
        let mut rng = seed.stream("vertices");
        let forth = [rng.next_u64() | 1, rng.next_u64() | 1];
        Self {
            mask: (1 << bits) - 1,
            fold: bits.div_ceil(2).max(1),
            forth,
            back: forth.map(inverse),
        }
    }

    #[inline]
    fn forth(&self, number: u64) -> u64 {
        let first = number.wrapping_mul(self.forth[0]) & self.mask;
        let folded = first ^ first >> self.fold;
        folded.wrapping_mul(self.forth[1]) & self.mask
    }

    #[inline]
    fn back(&self, number: u64) -> u64 {
        let folded = number.wrapping_mul(self.back[1]) & self.mask;
        // The fold xors the upper half onto the lower; folding twice is the identity.
        let first = folded ^ folded >> self.fold;
        first.wrapping_mul(self.back[0]) & self.mask
    }
}

/// Inverse of the odd `number` modulo 2^64, by Newton's method.
fn inverse(number: u64) -> u64 {
    let mut inverse = number;
    for _ in 0..5 {
        let error = 2_u64.wrapping_sub(number.wrapping_mul(inverse));
        inverse = inverse.wrapping_mul(error);
    }
    inverse
}

/// Range number `index` when `whole` is divided into `count` nearly equal ranges.
pub(crate) fn share(whole: u64, index: u32, count: u32) -> std::ops::Range<u64> {
    let at = |i: u32| (u128::from(whole) * u128::from(i) / u128::from(count)) as u64;
    at(index)..at(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_ascend_by_degrees_to_the_number_of_edges() {
        for shape in [Shape::Uniform, Shape::Kronecker] {
            let graph = Graph::new(shape, 1 << 12, 16, Seed(3));
            let mut offset = 0;
            for vertex in 0..graph.vertices() {
                assert_eq!(graph.offset(vertex), offset, "{shape:?} {vertex}");
                offset += graph.degree(vertex);
            }
            assert_eq!(graph.edges(), offset);
            assert_eq!(graph.offset(graph.vertices()), offset);
        }
    }

    #[test]
    fn bijection_is_inverted_by_back() {
        for bits in [1, 2, 5, 12] {
            let scatter = Bijection::new(bits, Seed(9));
            let mut seen = vec![false; 1 << bits];
            for number in 0..1_u64 << bits {
                let there = scatter.forth(number);
                assert_eq!(scatter.back(there), number, "{bits}");
                seen[there as usize] = true;
            }
            assert!(seen.into_iter().all(|s| s), "{bits}");
        }
    }

    /// Share of target bits that are set, among edges whose source has the bit clear, and set.
    fn shares_of_set_bits(graph: &Graph) -> [f64; 2] {
        let scatter = &graph.kronecker.as_ref().unwrap().scatter;
        let (mut set, mut all) = ([0_u64; 2], [0_u64; 2]);
        for vertex in 0..graph.vertices() {
            for edge in graph.offset(vertex)..graph.offset(vertex) + graph.degree(vertex) {
                let target = scatter.back(graph.target(vertex, edge));
                let source = scatter.back(vertex);
                for bit in 0..graph.vertices().ilog2() {
                    let kind = (source >> bit & 1) as usize;
                    all[kind] += 1;
                    set[kind] += target >> bit & 1;
                }
            }
        }
        [0, 1].map(|k| set[k] as f64 / all[k] as f64)
    }

    #[test]
    fn kronecker_edges_have_the_probabilities_of_graph500() {
        let graph = Graph::new(Shape::Kronecker, 1 << 11, 16, Seed(5));
        let [clear, set] = shares_of_set_bits(&graph);
        assert!((clear - 0.19 / 0.76).abs() < 0.005, "{clear}");
        assert!((set - 0.05 / 0.24).abs() < 0.005, "{set}");
        // Each clear bit of a source has probability A + B; rounding of degrees changes the number
        // of edges little.
        let edges = graph.edges() as f64 / (2048.0 * 16.0);
        assert!((edges - 1.0).abs() < 0.03, "{edges}");
        let most = (0..2048).map(|v| graph.degree(v)).max().unwrap();
        let expected = 16.0 * 2048.0 * 0.76_f64.powi(11);
        assert!((most as f64 - expected).abs() <= 1.0, "{most} {expected}");
    }

    #[test]
    fn uniform_targets_are_evenly_distributed() {
        let graph = Graph::new(Shape::Uniform, 1000, 8, Seed(1));
        let mut seen = vec![0_u32; 1000];
        for vertex in 0..1000 {
            for edge in vertex * 8..vertex * 8 + 8 {
                seen[graph.target(vertex, edge) as usize] += 1;
            }
        }
        // Mean 8, variance 8: no cell of a thousand should be beyond 6 deviations.
        assert!(seen.iter().all(|&n| n < 26), "{seen:?}");
        assert_eq!(seen.iter().sum::<u32>(), 8000);
    }

    #[test]
    fn shares_cover_the_whole() {
        for count in [1, 3, 7] {
            let all: Vec<u64> = (0..count).flat_map(|i| share(100, i, count)).collect();
            assert!(all.into_iter().eq(0..100));
        }
    }
}
