//! Training of a deep-learning recommendation model, as in DLRM.
//!
//! Structures: tables of rows of 32 floats; the weights of a small network (13 dense features, 64,
//! 32; then 68, 64, 1) and for each thread their gradients. In a batch each thread takes its share
//! of the samples. For a sample it runs the dense features through the lower network, gathers ten
//! rows of each of eight tables and pools them by addition, runs the products of all pairs and the
//! lower network's output through the upper network, and propagates the squared error back. Then
//! all threads meet; each subtracts the gradients of its samples from the rows that they read, sums
//! a part of all threads' gradients and updates that part of the weights. Ten lookups a table and
//! uniformly drawn rows are the benchmark's defaults with random data.
//!
//! The rows that are accessed do not depend on values. Tables of more than [`HELD`] bytes hold no
//! values: their rows read as zero.
//!
//! Instructions besides loads and stores: vectors hold 16 floats; one multiply-add for each vector
//! of weights forward, and two backward; one addition for each vector that is pooled or updated; 6
//! to draw and bound an index.

use super::bfs::chunks;
use crate::graph::share;
use crate::mem::{Array, Mem, Space};
use crate::threads::Threads;
use sim::{Seed, Theta, Zipf, mix};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Largest size of the tables, in bytes, whose values are held.
pub const HELD: u64 = 1 << 30;
/// Floats of a table row.
pub const ROW: usize = 32;
/// Number of embedding tables.
pub const TABLES: usize = 8;
/// Rows that a sample reads from each table.
pub const LOOKUPS: usize = 10;
const DENSE: usize = 13;
const HIDDEN: usize = 64;
/// Pairs of the eight pooled rows and the lower network's output.
const PAIRS: usize = (TABLES + 1) * TABLES / 2;
const UPPER: usize = PAIRS + ROW;
/// Learning rate of the gradient descent.
const RATE: f32 = 1.0 / 128.0;

/// Inputs, outputs and index of the first weight of each layer.
const LAYERS: [(usize, usize, usize); 4] = [
    (DENSE, HIDDEN, 0),
    (HIDDEN, ROW, DENSE * HIDDEN),
    (UPPER, HIDDEN, (DENSE + ROW) * HIDDEN),
    (HIDDEN, 1, (DENSE + ROW + UPPER) * HIDDEN),
];
const WEIGHTS: usize = (DENSE + ROW + UPPER + 1) * HIDDEN;

/// State of the training, shared by its threads.
pub struct Dlrm {
    rows: u64,
    samples: u64,
    batch: u64,
    tables: Array,
    weights: Array,
    gradients: Array,
    end: u64,
    /// Values of the tables, one table after the other; empty if they are not held.
    values: Vec<Cell<f32>>,
    weight: Vec<Cell<f32>>,
    gradient: RefCell<Vec<f32>>,
    zipf: Option<Zipf>,
    seed: Seed,
    /// Sum of the squared errors of all samples so far.
    loss: Cell<f64>,
}

impl Dlrm {
    /// Number of rows of each table with which all tables fill `footprint` bytes.
    #[must_use]
    pub const fn rows(footprint: u64) -> u64 {
        let rows = footprint / (TABLES * ROW * 4) as u64;
        if rows == 0 { 1 } else { rows }
    }

    /// A model with tables of `rows` rows, trained with `samples` samples in batches of `batch`.
    /// Rows are drawn by Zipf's law with exponent `theta`, or uniformly if it is `None`.
    #[must_use]
    pub fn new(
        rows: u64,
        samples: u64,
        batch: u64,
        theta: Option<Theta>,
        threads: u32,
        seed: Seed,
    ) -> Rc<Self> {
        let mut space = Space::new();
        let all = rows * TABLES as u64;
        let held = if all * (ROW * 4) as u64 <= HELD {
            all * ROW as u64
        } else {
            0
        };
        let hash = seed.stream("values").next_u64();
        let zipf = theta.map(|theta| Zipf::new(rows, theta, &mut seed.stream("rows")));
        let weights = WEIGHTS as u64;
        Rc::new(Self {
            rows,
            samples,
            batch,
            tables: Array::new(&mut space, all, (ROW * 4) as u64),
            weights: Array::new(&mut space, weights, 4),
            gradients: Array::new(&mut space, weights * u64::from(threads), 4),
            end: space.end(),
            values: (0..held).map(|i| Cell::new(small(hash, i))).collect(),
            weight: (0..weights).map(|i| Cell::new(small(!hash, i))).collect(),
            gradient: RefCell::new(vec![0.0; WEIGHTS * threads as usize]),
            zipf,
            seed,
            loss: Cell::new(0.0),
        })
    }

    /// Program of the threads that the model was made for.
    #[must_use]
    pub fn program(self: &Rc<Self>) -> Threads {
        let threads = (self.gradient.borrow().len() / WEIGHTS) as u32;
        Threads::new(threads, self.end, |thread, mem| {
            let worker = Worker {
                dlrm: Rc::clone(self),
                thread,
                threads,
                mem,
            };
            worker.run()
        })
    }

    /// Rows of each table that `sample` reads.
    #[must_use]
    pub fn lookups(&self, sample: u64) -> [[u64; LOOKUPS]; TABLES] {
        let mut rng = self.seed.child(sample).stream("lookups");
        [(); TABLES].map(|()| {
            [(); LOOKUPS].map(|()| match &self.zipf {
                Some(zipf) => zipf.draw(&mut rng),
                None => rng.below(self.rows),
            })
        })
    }

    /// Sum of the given rows of a table.
    #[must_use]
    pub fn pooled(&self, table: usize, rows: &[u64]) -> [f32; ROW] {
        let mut sum = [0.0; ROW];
        for &row in rows {
            for (sum, value) in sum.iter_mut().zip(self.row(table, row)) {
                *sum += value.get();
            }
        }
        sum
    }

    /// Values of a row; empty if values are not held.
    fn row(&self, table: usize, row: u64) -> &[Cell<f32>] {
        let at = (table as u64 * self.rows + row) as usize * ROW;
        self.values.get(at..at + ROW).unwrap_or(&[])
    }

    /// Value at `column` of a row; 0 if values are not held.
    #[must_use]
    pub fn value(&self, table: usize, row: u64, column: usize) -> f32 {
        self.row(table, row).get(column).map_or(0.0, Cell::get)
    }

    /// Sum of the squared errors of all samples so far.
    #[must_use]
    pub const fn loss(&self) -> f64 {
        self.loss.get()
    }

    fn at(&self, table: usize, row: u64) -> u64 {
        self.tables.at(table as u64 * self.rows + row)
    }
}

/// Pseudo-random value between -1/8 and 1/8.
fn small(hash: u64, index: u64) -> f32 {
    let bits = mix(hash ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 40;
    (bits as f32 / (1_u32 << 23) as f32 - 1.0) / 8.0
}

/// Gradient through a ReLU: zero where the layer's `output` was zero.
fn alive(output: &[f32], gradient: &[f32]) -> Vec<f32> {
    let of = |(x, back): (&f32, &f32)| if *x > 0.0 { *back } else { 0.0 };
    output.iter().zip(gradient).map(of).collect()
}

/// Rows that a sample read, and the gradient of each pooled row.
struct Scatter {
    rows: [[u64; LOOKUPS]; TABLES],
    gradients: [[f32; ROW]; TABLES],
}

struct Worker {
    dlrm: Rc<Dlrm>,
    thread: u32,
    threads: u32,
    mem: Mem,
}

impl Worker {
    async fn run(mut self) {
        let dlrm = Rc::clone(&self.dlrm);
        // The first quarter of the batches is the warm-up.
        let batches = dlrm.samples.div_ceil(dlrm.batch);
        for (batch, samples) in (0..).zip(chunks(0..dlrm.samples, dlrm.batch)) {
            if batch == batches / 4 {
                self.mem.begin().await;
            }
            let count = samples.end - samples.start;
            let mut scatters = Vec::new();
            for sample in share(count, self.thread, self.threads) {
                scatters.push(self.sample(samples.start + sample));
                self.mem.breathe().await;
            }
            self.mem.meet().await;
            for scatter in &scatters {
                self.scatter(scatter);
                self.mem.breathe().await;
            }
            self.descend().await;
            self.mem.meet().await;
        }
        self.mem.end();
    }

    /// Runs one sample forward and backward.
    fn sample(&mut self, sample: u64) -> Scatter {
        let dlrm = Rc::clone(&self.dlrm);
        let rows = dlrm.lookups(sample);
        let mut rng = dlrm.seed.child(sample).stream("features");
        let dense: [f32; DENSE] = [(); DENSE].map(|()| rng.below(256) as f32 / 256.0);
        // Target of the training: whether the first feature is in its upper half.
        let wanted = if dense[0] >= 0.5 { 1.0 } else { 0.0 };

        let lower = self.forward(0, &dense);
        let bottom = self.forward(1, &lower);
        let mut vectors = [[0.0; ROW]; TABLES + 1];
        for (table, (rows, vector)) in rows.iter().zip(&mut vectors).enumerate() {
            self.gather(table, rows);
            *vector = dlrm.pooled(table, rows);
        }
        vectors[TABLES].copy_from_slice(&bottom);
        let crossed = self.cross(&vectors);
        let upper = self.forward(2, &crossed);
        let output = self.forward(3, &upper);
        let error = output[0] - wanted;
        dlrm.loss.set(dlrm.loss.get() + f64::from(error * error));

        let to_upper = self.backward(3, &upper, &[error]);
        let to_crossed = self.backward(2, &crossed, &alive(&upper, &to_upper));
        let gradients = self.uncross(&vectors, &to_crossed);
        let to_lower = self.backward(1, &lower, &alive(&bottom, &gradients[TABLES]));
        self.backward(0, &dense, &alive(&lower, &to_lower));
        Scatter {
            rows,
            gradients: std::array::from_fn(|table| gradients[table]),
        }
    }

    fn gather(&mut self, table: usize, rows: &[u64]) {
        for &row in rows {
            let at = self.dlrm.at(table, row);
            self.mem.compute(6);
            for half in 0..2 {
                self.mem.load(at + half * 64, 64);
                self.mem.compute(1);
            }
        }
    }

    /// Output of a layer. All layers but the last are followed by a ReLU.
    fn forward(&mut self, layer: usize, input: &[f32]) -> Vec<f32> {
        let (inputs, outputs, first) = LAYERS[layer];
        self.vectors(layer, 1, false);
        let of = |output: usize| {
            let row = &self.dlrm.weight[first + output * inputs..][..inputs];
            let sum: f32 = row.iter().zip(input).map(|(w, x)| w.get() * x).sum();
            if layer == 3 { sum } else { sum.max(0.0) }
        };
        (0..outputs).map(of).collect()
    }

    /// Adds to the gradients of a layer's weights; returns the gradient of its input.
    fn backward(&mut self, layer: usize, input: &[f32], output: &[f32]) -> Vec<f32> {
        let (inputs, _, first) = LAYERS[layer];
        self.vectors(layer, 2, true);
        let mut gradient = self.dlrm.gradient.borrow_mut();
        let own = &mut gradient[self.thread as usize * WEIGHTS + first..];
        let mut back = vec![0.0; inputs];
        for (index, out) in output.iter().enumerate() {
            for (i, (x, back)) in input.iter().zip(&mut back).enumerate() {
                own[index * inputs + i] += out * x;
                *back += out * self.dlrm.weight[first + index * inputs + i].get();
            }
        }
        back
    }

    /// Emits the accesses to a layer's weights and, with `gradients`, to this thread's gradients of
    /// them.
    fn vectors(&mut self, layer: usize, instructions: u32, gradients: bool) {
        let (inputs, outputs, first) = LAYERS[layer];
        let end = (first + inputs * outputs) as u64;
        for line in chunks(first as u64..end, 16) {
            let bytes = (line.end - line.start) as u8 * 4;
            self.mem.load(self.dlrm.weights.at(line.start), bytes);
            self.mem.compute(instructions);
            if gradients {
                let own = u64::from(self.thread) * WEIGHTS as u64 + line.start;
                self.mem.load(self.dlrm.gradients.at(own), bytes);
                self.mem.store(self.dlrm.gradients.at(own), bytes);
            }
        }
    }

    /// Products of all pairs of vectors, then the last vector itself.
    fn cross(&mut self, vectors: &[[f32; ROW]; TABLES + 1]) -> Vec<f32> {
        self.mem.compute(2 * PAIRS as u32);
        let mut all = Vec::with_capacity(UPPER);
        for (i, a) in vectors.iter().enumerate() {
            let dot = |b: &[f32; ROW]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            all.extend(vectors[..i].iter().map(dot));
        }
        all.extend_from_slice(&vectors[TABLES]);
        all
    }

    /// Gradients of the vectors, from those of their products.
    fn uncross(&mut self, vectors: &[[f32; ROW]], back: &[f32]) -> [[f32; ROW]; TABLES + 1] {
        self.mem.compute(4 * PAIRS as u32);
        let mut gradients = [[0.0; ROW]; TABLES + 1];
        let mut pair = 0;
        for i in 0..vectors.len() {
            for j in 0..i {
                for column in 0..ROW {
                    gradients[i][column] += back[pair] * vectors[j][column];
                    gradients[j][column] += back[pair] * vectors[i][column];
                }
                pair += 1;
            }
        }
        for (gradient, back) in gradients[TABLES].iter_mut().zip(&back[PAIRS..]) {
            *gradient += back;
        }
        gradients
    }

    /// Subtracts the gradients of a sample from the rows that it read.
    fn scatter(&mut self, scatter: &Scatter) {
        let dlrm = Rc::clone(&self.dlrm);
        for (table, rows) in scatter.rows.iter().enumerate() {
            for &row in rows {
                let at = dlrm.at(table, row);
                for half in 0..2 {
                    self.mem.load(at + half * 64, 64);
                    self.mem.compute(1);
                    self.mem.store(at + half * 64, 64);
                }
                let gradient = &scatter.gradients[table];
                for (value, gradient) in dlrm.row(table, row).iter().zip(gradient) {
                    value.set(value.get() - RATE * gradient);
                }
            }
        }
    }

    /// Updates this thread's part of the weights by the sum of all threads' gradients.
    async fn descend(&mut self) {
        let dlrm = Rc::clone(&self.dlrm);
        let own = share(WEIGHTS as u64, self.thread, self.threads);
        for line in chunks(own.clone(), 16) {
            let bytes = (line.end - line.start) as u8 * 4;
            for thread in 0..u64::from(self.threads) {
                let at = dlrm.gradients.at(thread * WEIGHTS as u64 + line.start);
                self.mem.load(at, bytes);
                self.mem.compute(1);
                self.mem.store(at, bytes);
            }
            self.mem.load(dlrm.weights.at(line.start), bytes);
            self.mem.compute(1);
            self.mem.store(dlrm.weights.at(line.start), bytes);
            self.mem.breathe().await;
        }
        let mut gradient = dlrm.gradient.borrow_mut();
        for index in own.start as usize..own.end as usize {
            let mut sum = 0.0;
            for thread in 0..self.threads as usize {
                sum += std::mem::take(&mut gradient[thread * WEIGHTS + index]);
            }
            let weight = &dlrm.weight[index];
            weight.set(weight.get() - RATE * sum / dlrm.batch as f32);
        }
    }
}
