//! Speckle-reducing anisotropic diffusion, like the second version in Rodinia.
//!
//! Data structures: six arrays with a 4-byte float for each pixel (the image, its four derivatives
//! and the coefficient), and four short arrays of row and column numbers. In each iteration thread
//! 0 first computes mean and variance over a corner of 128 by 128 pixels. Then the derivatives and
//! the coefficient of each pixel are computed from its neighbours. Then each pixel is updated from
//! its own coefficient and those of two neighbours. The last two passes are divided among the
//! threads by rows. The first iteration is warm-up.
//!
//! The accesses do not depend on the values, so the values are not computed for an image whose
//! arrays are larger than [`HELD`] in total.
//!
//! Instructions besides loads and stores: 3 for each pixel of the corner (sum, square, sum of
//! squares), 35 for each pixel in the first pass (25 for arithmetic, 4 for clamping, 4 for indexes,
//! 2 for the loop) and 15 in the second pass (10 for arithmetic, 3 for indexes, 2 for the loop).

use crate::graph::share;
use crate::mem::{Array, Mem, Space};
use crate::threads::Threads;
use sim::{Seed, mix};
use std::cell::Cell;
use std::rc::Rc;

/// Largest total size of the six arrays, in bytes, for which the values are held.
pub const HELD: u64 = 1 << 30;
/// Rows and columns of the corner from which the speckle statistics are computed.
const CORNER: u64 = 128;
/// The parameter lambda, with Rodinia's value.
const LAMBDA: f32 = 0.5;
/// Number of arrays that hold a float for each pixel.
const ARRAYS: u64 = 6;

/// State of the image, shared by the threads.
pub struct Srad {
    rows: u64,
    columns: u64,
    iterations: u32,
    image: Array,
    derivatives: [Array; 4],
    coefficient: Array,
    row_numbers: [Array; 2],
    column_numbers: [Array; 2],
    end: u64,
    held: Values,
    /// Speckle scale of the current iteration.
    scale: Cell<f32>,
}

/// Values of each pixel; empty if they are not held.
struct Values {
    image: Vec<Cell<f32>>,
    derivatives: [Vec<Cell<f32>>; 4],
    coefficient: Vec<Cell<f32>>,
}

impl Srad {
    /// Rows and columns of an image that fills `footprint` bytes: about as many rows as columns,
    /// and a whole number of cache lines per row.
    #[must_use]
    pub const fn shape(footprint: u64) -> (u64, u64) {
        let pixels = footprint / (4 * ARRAYS);
        let columns = pixels.isqrt().next_multiple_of(16);
        let rows = pixels / columns;
        (if rows == 0 { 1 } else { rows }, columns)
    }

    /// An image of random pixels, with one warm-up iteration and `iterations` measured ones.
    #[must_use]
    pub fn new(rows: u64, columns: u64, iterations: u32, seed: Seed) -> Rc<Self> {
        let mut space = Space::new();
        let pixels = rows * columns;
        let mut array = |count| Array::new(&mut space, count, 4);
        let image = array(pixels);
        let derivatives = [(); 4].map(|()| array(pixels));
        let coefficient = array(pixels);
        let row_numbers = [(); 2].map(|()| array(rows));
        let column_numbers = [(); 2].map(|()| array(columns));
        let held = if pixels * 4 * ARRAYS <= HELD {
            pixels
        } else {
            0
        };
        let zero = || vec![Cell::new(0.0); held as usize];
        Rc::new(Self {
            rows,
            columns,
            iterations,
            image,
            derivatives,
            coefficient,
            row_numbers,
            column_numbers,
            end: space.end(),
            held: Values {
                image: drawn(held, seed),
                derivatives: [zero(), zero(), zero(), zero()],
                coefficient: zero(),
            },
            scale: Cell::new(1.0),
        })
    }

    /// The program that runs with `threads` threads.
    #[must_use]
    pub fn program(self: &Rc<Self>, threads: u32) -> Threads {
        Threads::new(threads, self.end, |thread, mem| {
            run(Rc::clone(self), thread, threads, mem)
        })
    }

    /// The pixels of the image, row by row; empty if they are not held.
    #[must_use]
    pub fn image(&self) -> Vec<f32> {
        self.held.image.iter().map(Cell::get).collect()
    }

    /// Rows and columns of the image.
    #[must_use]
    pub const fn size(&self) -> (u64, u64) {
        (self.rows, self.columns)
    }

    /// The pixels above, below, left and right of a pixel. At an edge, the pixel itself.
    const fn around(&self, row: u64, column: u64) -> [u64; 4] {
        let north = row.saturating_sub(1);
        let south = if row + 1 < self.rows { row + 1 } else { row };
        let west = column.saturating_sub(1);
        let east = if column + 1 < self.columns {
            column + 1
        } else {
            column
        };
        [
            north * self.columns + column,
            south * self.columns + column,
            row * self.columns + west,
            row * self.columns + east,
        ]
    }
}

/// Random pixel values from 1 to below 2, in steps of 2⁻²³.
fn drawn(count: u64, seed: Seed) -> Vec<Cell<f32>> {
    let hash = seed.stream("image").next_u64();
    let pixel = |i: u64| {
        let bits = mix(hash ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 41;
        Cell::new(f32::from_bits(0x3f80_0000 | bits as u32))
    };
    (0..count).map(pixel).collect()
}

async fn run(srad: Rc<Srad>, thread: u32, threads: u32, mut mem: Mem) {
    let rows = share(srad.rows, thread, threads);
    for iteration in 0..=srad.iterations {
        if iteration == 1 {
            mem.begin().await;
        }
        if thread == 0 {
            speckle(&srad, &mut mem).await;
        }
        mem.meet().await;
        for row in rows.clone() {
            derive(&srad, row, &mut mem).await;
        }
        mem.meet().await;
        for row in rows.clone() {
            diffuse(&srad, row, &mut mem).await;
        }
        mem.meet().await;
    }
    mem.end();
}

async fn speckle(srad: &Srad, mem: &mut Mem) {
    let (rows, columns) = (srad.rows.min(CORNER), srad.columns.min(CORNER));
    let (mut sum, mut squares) = (0.0_f32, 0.0_f32);
    for row in 0..rows {
        for column in 0..columns {
            let pixel = row * srad.columns + column;
            mem.load(srad.image.at(pixel), 4);
            mem.compute(3);
            if let Some(value) = srad.held.image.get(pixel as usize) {
                sum += value.get();
                squares += value.get() * value.get();
            }
        }
        mem.breathe().await;
    }
    let count = (rows * columns) as f32;
    let mean = sum / count;
    srad.scale
        .set((squares / count - mean * mean) / (mean * mean));
}

async fn derive(srad: &Srad, row: u64, mem: &mut Mem) {
    let [north, south] = srad.row_numbers;
    let above = mem.load(north.at(row), 4);
    let below = mem.load(south.at(row), 4);
    for column in 0..srad.columns {
        let pixel = row * srad.columns + column;
        let [n, s, w, e] = srad.around(row, column);
        mem.load(srad.image.at(pixel), 4);
        mem.load_after(srad.image.at(n), 4, above);
        mem.load_after(srad.image.at(s), 4, below);
        let left = mem.load(srad.column_numbers[0].at(column), 4);
        mem.load_after(srad.image.at(w), 4, left);
        let right = mem.load(srad.column_numbers[1].at(column), 4);
        mem.load_after(srad.image.at(e), 4, right);
        mem.compute(35);
        for derivative in srad.derivatives {
            mem.store(derivative.at(pixel), 4);
        }
        mem.store(srad.coefficient.at(pixel), 4);
        srad.held.derive(pixel, [n, s, w, e], srad.scale.get());
        mem.breathe().await;
    }
}

async fn diffuse(srad: &Srad, row: u64, mem: &mut Mem) {
    let below = mem.load(srad.row_numbers[1].at(row), 4);
    for column in 0..srad.columns {
        let pixel = row * srad.columns + column;
        let [_, s, _, e] = srad.around(row, column);
        mem.load(srad.coefficient.at(pixel), 4);
        mem.load_after(srad.coefficient.at(s), 4, below);
        let right = mem.load(srad.column_numbers[1].at(column), 4);
        mem.load_after(srad.coefficient.at(e), 4, right);
        for derivative in srad.derivatives {
            mem.load(derivative.at(pixel), 4);
        }
        mem.load(srad.image.at(pixel), 4);
        mem.compute(15);
        mem.store(srad.image.at(pixel), 4);
        srad.held.diffuse(pixel, s, e);
        mem.breathe().await;
    }
}

impl Values {
    #[inline]
    fn derive(&self, pixel: u64, around: [u64; 4], scale: f32) {
        if self.image.is_empty() {
            return;
        }
        let at = pixel as usize;
        let here = self.image[at].get();
        let d = around.map(|n| self.image[n as usize].get() - here);
        for (array, value) in self.derivatives.iter().zip(d) {
            array[at].set(value);
        }
        let squares = d.iter().map(|d| d * d).sum::<f32>() / (here * here);
        let laplacian = d.iter().sum::<f32>() / here;
        let top = 0.5 * squares - laplacian * laplacian / 16.0;
        let bottom = 1.0 + 0.25 * laplacian;
        let local = top / (bottom * bottom);
        let excess = (local - scale) / (scale * (1.0 + scale));
        let coefficient = 1.0 / (1.0 + excess);
        self.coefficient[at].set(coefficient.clamp(0.0, 1.0));
    }

    #[inline]
    fn diffuse(&self, pixel: u64, south: u64, east: u64) {
        if self.image.is_empty() {
            return;
        }
        let at = pixel as usize;
        let here = self.coefficient[at].get();
        let [n, s, w, e] = [0, 1, 2, 3].map(|i: usize| self.derivatives[i][at].get());
        let south = self.coefficient[south as usize].get();
        let east = self.coefficient[east as usize].get();
        let divergence = here * n + south * s + here * w + east * e;
        let image = &self.image[at];
        image.set(image.get() + 0.25 * LAMBDA * divergence);
    }
}
