//! Random requests against a model: a vector of bytes, which is all that a disk has to be.

use crate::memory::{made, options, units};
use host::{BlockPort, Who};
use nand::UNIT;
use remap::{Metrics, Options, Variant};
use sim::{Kernel, Rng, Seed, Sim};
use ssd::Content;
use units::{Bytes, Extent, Placement, SECTOR};

/// Requests in each random run.
const REQUESTS: u64 = 3_000;

fn bytes(rng: &mut Rng, sectors: u32) -> Vec<u8> {
    let words = (0..sectors as usize * SECTOR as usize / 8).map(|_| rng.next_u64());
    words.flat_map(u64::to_le_bytes).collect()
}

async fn requests(sim: Sim, seed: u64, options: Options, grain: u64) -> [u64; 4] {
    let mut rng = Seed(seed).stream("requests");
    let mut port = made(&sim, options).await;
    let mut counts = [0; 4];
    let sectors = port.capacity().0 / SECTOR;
    let mut model = vec![0; port.capacity().0 as usize];
    let who = Who::default();
    for number in 0..REQUESTS {
        let start = rng.below(sectors / grain) * grain;
        let most = (sectors - start).min(grain * (1 + rng.below(12)));
        let extent = Extent::new(start, most as u32);
        let range = (start * SECTOR) as usize..(extent.end() * SECTOR) as usize;
        match rng.below(16) {
            0..8 => {
                let new = bytes(&mut rng, extent.sectors);
                let fua = rng.below(8) == 0;
                let content = Content::Bytes(&new);
                port.write(extent, content, Placement(0), who, fua)
                    .await
                    .unwrap();
                model[range].copy_from_slice(&new);
            }
            8..13 => {
                let mut read = vec![1; range.len()];
                port.read(extent, &mut read.as_mut_slice(), who)
                    .await
                    .unwrap();
                assert!(read == model[range], "request {number} of seed {seed}");
            }
            13 => {
                port.trim(extent).await.unwrap();
                let whole = range.start.next_multiple_of(UNIT)..range.end / UNIT * UNIT;
                if whole.start < whole.end {
                    model[whole].fill(0);
                }
            }
            14 => port.flush().await.unwrap(),
            _ if rng.below(20) == 0 => {
                port.close().await.unwrap();
                count(&mut counts, &port.metrics());
                port = remap::open(&sim, port.below(), options).await.unwrap();
            }
            _ => sim.sleep(units::Ns(rng.below(1_500))).await,
        }
        port.check().unwrap();
    }
    let mut all = vec![1; model.len()];
    let extent = Extent::new(0, sectors as u32);
    port.read(extent, &mut all.as_mut_slice(), who)
        .await
        .unwrap();
    assert!(all == model, "in the end, of seed {seed}");
    count(&mut counts, &port.metrics());
    counts
}

/// Adds the counters of one mount.
fn count([dropped, read, trimmed, errors]: &mut [u64; 4], metrics: &Metrics) {
    *dropped += metrics.tables_dropped;
    *read += metrics.tables_read;
    *trimmed += metrics.trimmed_units;
    *errors += metrics.background_errors;
}

#[test]
fn reads_return_the_last_write() {
    for seed in 0..6 {
        let variant = Variant::ALL[seed as usize % 2];
        let memory = [Some(Bytes(2_000)), None][seed as usize / 2 % 2];
        let usual = options(variant);
        let options = Options {
            memory,
            trim: usual.trim.filter(|_| seed < 4),
            ..usual
        };
        // With a grain of 1, sectors within a unit are merged with the rest.
        for grain in [8, 1] {
            let kernel = Kernel::new();
            let counts = kernel.block_on(requests(kernel.sim(), seed, options, grain));
            let [dropped, read, trimmed, errors] = counts;
            assert_eq!(dropped > 0, memory.is_some(), "{counts:?}");
            assert!(memory.is_none() || read > dropped / 2, "{counts:?}");
            assert_eq!(trimmed > 0, options.trim.is_some(), "{counts:?}");
            assert_eq!(errors, 0);
        }
    }
}

#[test]
fn full_layer_takes_overwrites_with_one_move_each() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let options = Options {
            memory: None,
            ..options(Variant::Compact)
        };
        let port = made(&sim, options).await;
        let mut rng = Seed(5).stream("over");
        let count = units(&port);
        let mut model = vec![0; count as usize];
        for round in 0..10 * count {
            let unit = if round < count {
                round
            } else {
                rng.below(count)
            };
            crate::memory::write(&port, unit, 1, round, false)
                .await
                .unwrap();
            model[unit as usize] = round;
            port.check().unwrap();
        }
        for (unit, &expected) in model.iter().enumerate() {
            assert_eq!(
                crate::memory::read(&port, unit as u64).await.unwrap(),
                expected
            );
        }
        let metrics = port.metrics();
        assert_eq!(metrics.entries, count);
        assert!(
            metrics.foreground_passes > 0 && metrics.moves > 0,
            "{metrics:?}"
        );
        // A free run at the end costs at most as many moves as it has units.
        assert!(metrics.moves <= metrics.written_units, "{metrics:?}");
        let met = port.refusals();
        let why = met.met()[0].first.to_string();
        assert!(why.starts_with("units in a run: "), "{why}");
        assert!(why.contains("held by data ("), "{why}");
    });
}

#[test]
fn concurrent_tasks_read_their_own_writes() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let port = made(&sim, options(Variant::Tree)).await;
        let mut tasks = Vec::new();
        for task in 0..8_u64 {
            let (port, sim) = (port.clone(), sim.clone());
            tasks.push(async move {
                let mut rng = Seed(task).stream("task");
                let own = units(&port) / 8;
                let mut model = vec![0; own as usize];
                for number in 1..400 {
                    let at = rng.below(own);
                    let unit = task * own + at;
                    let kind = rng.below(8);
                    match kind {
                        0 => model[at as usize] = 0,
                        1..6 => model[at as usize] = number,
                        _ => {}
                    }
                    match kind {
                        0 => crate::memory::trim(&port, unit, 1).await,
                        1..6 => crate::memory::write(&port, unit, 1, number, false)
                            .await
                            .unwrap(),
                        6 => port.flush().await.unwrap(),
                        _ => sim.sleep(units::Ns(rng.below(400))).await,
                    }
                    let read = crate::memory::read(&port, unit).await.unwrap();
                    assert_eq!(read, model[at as usize]);
                }
            });
        }
        sim::join_all(tasks).await;
        port.flush().await.unwrap();
        port.check().unwrap();
        assert!(port.metrics().tables_dropped > 0 && port.metrics().checkpoints > 0);
    });
}

#[test]
fn trim_option_deallocates_units_that_cleaning_empties() {
    for trim in [None, options(Variant::Compact).trim] {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        kernel.block_on(async move {
            let options = Options {
                trim,
                ..options(Variant::Compact)
            };
            let port = made(&sim, options).await;
            let count = units(&port);
            let mut rng = Seed(7).stream("over");
            for round in 0..2 * count {
                let unit = if round < count {
                    round
                } else {
                    rng.below(count)
                };
                crate::memory::write(&port, unit, 1, unit + 1, false)
                    .await
                    .unwrap();
            }
            // Idle: units at the end move, and the end is deallocated.
            sim.sleep(units::Ns::us(50)).await;
            let metrics = port.metrics();
            assert!(metrics.passes > 0 && metrics.moves > 0, "{metrics:?}");
            let trimmed = port.below().ledger().trimmed;
            let by_layer = metrics.trimmed_units * UNIT as u64;
            assert_eq!(metrics.trimmed_units > 0, trim.is_some(), "{metrics:?}");
            // The format deallocated the whole data area.
            assert!(trimmed >= by_layer + port.capacity().0);
            port.check().unwrap();
            for unit in 0..count {
                assert_eq!(crate::memory::read(&port, unit).await, Ok(unit + 1));
            }
            let before = port.metrics().trimmed_units;
            crate::memory::trim(&port, 0, 64).await;
            let more = port.metrics().trimmed_units > before;
            assert_eq!(more, trim.is_some(), "a discard goes on to the medium");
            assert_eq!(crate::memory::read(&port, 63).await, Ok(0));
        });
    }
}
