//! The kernels compute the same results as plain versions of the algorithms.

use crate::drive::finish;
use programs::kernel::bc::Bc;
use programs::kernel::bfs::{Bfs, UNREACHED};
use programs::kernel::dlrm::{Dlrm, LOOKUPS, ROW, TABLES};
use programs::kernel::radix::Radix;
use programs::kernel::srad::Srad;
use programs::kernel::tpcc::{Size, Tpcc};
use programs::kernel::ycsb::{Letter, Ycsb};
use programs::{Graph, Shape};
use sim::{Seed, Theta};
use std::collections::VecDeque;

fn neighbours(graph: &Graph) -> Vec<Vec<usize>> {
    let of = |v| {
        let first = graph.offset(v);
        let edges = first..first + graph.degree(v);
        edges.map(|e| graph.target(v, e) as usize).collect()
    };
    (0..graph.vertices()).map(of).collect()
}

#[test]
fn bfs_finds_the_depths_of_a_plain_search() {
    for (shape, degree) in [(Shape::Uniform, 3), (Shape::Kronecker, 8)] {
        let graph = Graph::new(shape, 3000, degree, Seed(2));
        let bfs = Bfs::new(graph, 2, Seed(2));
        finish(bfs.program(3));
        let edges = neighbours(bfs.graph());
        let mut depth = vec![UNREACHED; edges.len()];
        let source = bfs.source(2) as usize;
        depth[source] = 0;
        let mut queue = VecDeque::from([source]);
        while let Some(from) = queue.pop_front() {
            for &to in &edges[from] {
                if depth[to] == UNREACHED {
                    depth[to] = depth[from] + 1;
                    queue.push_back(to);
                }
            }
        }
        let found: Vec<u32> = (0..edges.len() as u64).map(|v| bfs.cost(v)).collect();
        assert_eq!(found, depth, "{shape:?}");
        assert!(depth.iter().filter(|&&d| d != UNREACHED).count() > 1000);
    }
}

/// Brandes' algorithm with a queue and a stack.
fn brandes(edges: &[Vec<usize>], source: usize, scores: &mut [f64]) {
    let n = edges.len();
    let (mut depth, mut paths, mut delta) = (vec![-1_i64; n], vec![0.0; n], vec![0.0; n]);
    depth[source] = 0;
    paths[source] = 1.0;
    let mut order = vec![source];
    let mut at = 0;
    while at < order.len() {
        let from = order[at];
        at += 1;
        for &to in &edges[from] {
            if depth[to] < 0 {
                depth[to] = depth[from] + 1;
                order.push(to);
            }
            if depth[to] == depth[from] + 1 {
                paths[to] += paths[from];
            }
        }
    }
    for &from in order.iter().rev() {
        for &to in &edges[from] {
            if depth[to] == depth[from] + 1 {
                delta[from] += paths[from] / paths[to] * (1.0 + delta[to]);
            }
        }
        if from != source {
            scores[from] += delta[from];
        }
    }
}

#[test]
fn bc_scores_as_brandes() {
    for shape in [Shape::Kronecker, Shape::Uniform] {
        let bc = Bc::new(Graph::new(shape, 1024, 6, Seed(4)), 3, Seed(4));
        finish(bc.program(5));
        let edges = neighbours(bc.graph());
        let mut scores = vec![0.0; edges.len()];
        for search in 1..=3 {
            brandes(&edges, bc.source(search) as usize, &mut scores);
        }
        for (vertex, score) in scores.iter().enumerate() {
            let found = f64::from(bc.score(vertex as u64));
            // The sums of floats are computed in a different order.
            assert!(
                (found - score).abs() <= score * 1e-4 + 1e-4,
                "{vertex} {found} {score}"
            );
        }
        assert!(scores.iter().sum::<f64>() > 1000.0, "{shape:?}");
    }
}

#[test]
fn radix_sorts() {
    let radix = Radix::new(10_000, 7, Seed(3));
    finish(radix.program());
    let unsorted = Radix::new(10_000, 7, Seed(3)).sorted();
    let mut wanted = unsorted.clone();
    wanted.sort_unstable();
    assert_ne!(unsorted, wanted);
    assert_eq!(radix.sorted(), wanted);
}

/// One iteration as a plain loop, with a new image as the result.
fn diffuse(image: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let at = |r: usize, c: usize| image[r.min(rows - 1) * columns + c.min(columns - 1)];
    let corner: Vec<f32> = (0..rows.min(128))
        .flat_map(|r| (0..columns.min(128)).map(move |c| at(r, c)))
        .collect();
    let mean = corner.iter().sum::<f32>() / corner.len() as f32;
    let square = corner.iter().map(|v| v * v).sum::<f32>() / corner.len() as f32;
    let scale = (square - mean * mean) / (mean * mean);
    let derivatives = |r: usize, c: usize| {
        let here = at(r, c);
        [
            at(r.saturating_sub(1), c) - here,
            at(r + 1, c) - here,
            at(r, c.saturating_sub(1)) - here,
            at(r, c + 1) - here,
        ]
    };
    let coefficient = |r: usize, c: usize| {
        let (r, c) = (r.min(rows - 1), c.min(columns - 1));
        let [n, s, w, e] = derivatives(r, c);
        let here = at(r, c);
        let g = (n * n + s * s + w * w + e * e) / (here * here);
        let l = (n + s + w + e) / here;
        let q = (0.5 * g - l * l / 16.0) / (1.0 + 0.25 * l).powi(2);
        (1.0 / (1.0 + (q - scale) / (scale * (1.0 + scale)))).clamp(0.0, 1.0)
    };
    let pixel = |i: usize| {
        let (r, c) = (i / columns, i % columns);
        let [n, s, w, e] = derivatives(r, c);
        let here = coefficient(r, c);
        let sum = here * n + coefficient(r + 1, c) * s + here * w + coefficient(r, c + 1) * e;
        image[i] + 0.125 * sum
    };
    (0..image.len()).map(pixel).collect()
}

#[test]
fn srad_diffuses_as_a_plain_loop() {
    let (rows, columns) = (40, 48);
    let srad = Srad::new(rows, columns, 2, Seed(6));
    let mut image = srad.image();
    finish(srad.program(3));
    for _ in 0..3 {
        image = diffuse(&image, rows as usize, columns as usize);
    }
    for (at, (found, wanted)) in srad.image().iter().zip(&image).enumerate() {
        assert!((found - wanted).abs() < 1e-3, "{at}: {found} {wanted}");
    }
    assert_ne!(srad.image(), Srad::new(rows, columns, 2, Seed(6)).image());
}

#[test]
fn ycsb_updates_what_its_letter_says() {
    for (letter, percent) in [
        (Letter::A, 50),
        (Letter::B, 5),
        (Letter::C, 0),
        (Letter::F, 50),
    ] {
        let ycsb = Ycsb::new(letter, 1000, 20_000, 6, Seed(8));
        finish(ycsb.program(6));
        let updates: u64 = ycsb.versions().into_iter().map(u64::from).sum();
        assert_eq!(updates, ycsb.updates());
        // Five quarters of the operations are executed; the tolerance is five standard deviations.
        let expected = 25_000 * percent / 100;
        assert!(updates.abs_diff(expected) <= 5 * 80, "{letter:?} {updates}");
    }
}

#[test]
fn ycsb_does_the_same_on_any_number_of_threads() {
    let versions = |threads| {
        let ycsb = Ycsb::new(Letter::A, 500, 5_000, threads, Seed(8));
        finish(ycsb.program(threads));
        ycsb.versions()
    };
    assert_eq!(versions(1), versions(24));
}

//= tpcc 1.2
#[test]
fn tpcc_stays_consistent() {
    let size = Size {
        warehouses: 2,
        items: 300,
        customers: 30,
    };
    let sums = |threads| {
        let tpcc = Tpcc::new(size, 6_000, Seed(5));
        finish(tpcc.program(threads));
        tpcc.sums()
    };
    let once = sums(3);
    assert_eq!(once.done, 6_000);
    assert_eq!(once.warehouse_ytd, once.district_ytd);
    assert_eq!(once.sold, once.ordered);
    assert_eq!(once.balance, once.owed);
    // 45 % of the transactions are orders, with an average of ten lines and 5.5 items per line.
    let ordered = 6_000.0 * 0.45 * 10.0 * 5.5;
    assert!(
        (once.ordered as f64 / ordered - 1.0).abs() < 0.05,
        "{once:?}"
    );
    assert_eq!(once, sums(50), "threads beyond the districts rest");
}

#[test]
fn tpcc_fills_its_footprint() {
    for footprint in [64 << 20, 1 << 30] {
        let size = Size::of(footprint);
        let customers = size.warehouses * 10 * size.customers;
        let tpcc = Tpcc::new(size, customers, Seed(1));
        let filled = memsys::Program::footprint(&tpcc.program(1)).0;
        let share = filled as f64 / footprint as f64;
        assert!((0.9..1.1).contains(&share), "{footprint}: {share}");
    }
}

#[test]
fn dlrm_pools_sums_and_takes_gradients_off_the_rows_that_were_read() {
    let make = |samples| Dlrm::new(50, samples, 16, None, 3, Seed(7));
    let model = make(64);
    let lookups = model.lookups(5);
    for (table, rows) in lookups.iter().enumerate() {
        let pooled = model.pooled(table, rows);
        for (column, sum) in pooled.iter().enumerate() {
            let of = |&row: &u64| model.value(table, row, column);
            let plain: f32 = rows.iter().map(of).sum();
            assert!((sum - plain).abs() < 1e-5);
        }
    }
    let before = make(1);
    let after = make(1);
    finish(after.program());
    let read = after.lookups(0);
    assert_eq!((read.len(), read[0].len()), (TABLES, LOOKUPS));
    for (table, rows) in read.iter().enumerate() {
        for row in 0..50 {
            let changed =
                (0..ROW).any(|c| before.value(table, row, c) != after.value(table, row, c));
            assert_eq!(changed, rows.contains(&row), "{table} {row}");
        }
    }
}

#[test]
fn dlrm_learns() {
    // The error falls as the same few samples are repeated.
    let loss = |samples| {
        let model = Dlrm::new(4, samples, 8, Some(Theta(990_000)), 2, Seed(9));
        finish(model.program());
        model.loss()
    };
    let (first, all) = (loss(512) / 512.0, loss(16_384) / 16_384.0);
    assert!(all < first * 0.9, "{first} {all}");
}
