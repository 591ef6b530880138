//! Limits: addresses past the end, media without room, and media that fail.

use crate::memory::{SECTORS, SIZE, layout, made, options, read, units, write};
use host::{BlockPort, Computing, RamDisk, Who};
use remap::{FormatError, FormatOptions, LayoutError, OpenError, Options, Variant};
use sim::{Kernel, Seed};
use ssd::{Content, IoError, Sink};
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Placement};

#[test]
fn requests_past_the_end_are_refused_and_change_nothing() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let port = made(&sim, options(Variant::Compact)).await;
        let sectors = units(&port) * SECTORS;
        let beyond = Extent::new(sectors - 8, 16);
        let error = IoError::OutOfRange {
            first: sectors - 8,
            last: sectors + 7,
            sectors,
        };
        let (who, content) = (Who::default(), Content::Fill(1));
        let written = port.write(beyond, content, Placement(0), who, true).await;
        assert_eq!(written, Err(error));
        assert_eq!(port.read(beyond, &mut (), who).await, Err(error));
        assert_eq!(port.trim(beyond).await, Err(error));
        assert_eq!(read(&port, units(&port) - 1).await, Ok(0));
        assert_eq!(port.metrics().pairs, 0);
    });
}

#[test]
fn too_small_medium_is_refused_with_its_size() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let disk = RamDisk::new(&sim, Bytes(256 << 10));
        let refused = remap::format(&disk, &layout()).await.unwrap_err();
        let FormatError::Layout(LayoutError::Small(why)) = &refused else {
            panic!("{refused}")
        };
        assert_eq!((why.limit, why.total), ("units", 64));
        let blank = RamDisk::new(&sim, SIZE);
        let opened = remap::open(&sim, &blank, options(Variant::Compact)).await;
        assert_eq!(opened.err(), Some(OpenError::NoSuperblock));
    });
}

/// A disk that refuses writes once a budget is used up.
#[derive(Clone)]
struct Failing {
    disk: RamDisk,
    /// Writes that will still succeed.
    left: Rc<Cell<u64>>,
}

impl BlockPort for Failing {
    host::pass_block!([|own| &own.disk] capacity, handles, read, trim, flush, compute);

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        placement: Placement,
        who: Who,
        fua: bool,
    ) -> Result<(), IoError> {
        let left = self.left.get().checked_sub(1).ok_or(IoError::ReadOnly)?;
        self.left.set(left);
        self.disk.write(extent, content, placement, who, fua).await
    }
}

#[test]
fn durable_units_survive_a_failure_of_any_write() {
    for fails_after in 0..60 {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        kernel.block_on(async move {
            let disk = RamDisk::new(&sim, SIZE);
            remap::format(&disk, &FormatOptions { ..layout() })
                .await
                .unwrap();
            let left = Rc::new(Cell::new(u64::MAX));
            let below = Failing {
                disk,
                left: Rc::clone(&left),
            };
            let port = remap::open(&sim, &below, options(Variant::Compact))
                .await
                .unwrap();
            left.set(fails_after);
            let (mut forced, mut failed) = (0, false);
            for unit in 0..units(&port) {
                let written = write(&port, unit, 1, unit + 1, unit % 4 == 3).await;
                match written {
                    Ok(()) if unit % 4 == 3 => forced = unit + 1,
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error, IoError::ReadOnly);
                        failed = true;
                        break;
                    }
                }
            }
            assert!(failed, "writes fail at last");
            for unit in 0..forced {
                assert_eq!(read(&port, unit).await, Ok(unit + 1));
            }
            left.set(u64::MAX);
            let again = remap::open(&sim, &below, options(Variant::Compact))
                .await
                .unwrap();
            again.check().unwrap();
            for unit in 0..forced {
                assert_eq!(read(&again, unit).await, Ok(unit + 1));
            }
        });
    }
}

#[test]
fn error_of_background_cleaning_is_reported() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let disk = RamDisk::new(&sim, SIZE);
        remap::format(&disk, &layout()).await.unwrap();
        let left = Rc::new(Cell::new(u64::MAX));
        let below = Failing {
            disk,
            left: Rc::clone(&left),
        };
        let options = Options {
            memory: None,
            ..options(Variant::Compact)
        };
        let port = remap::open(&sim, &below, options).await.unwrap();
        for unit in (0..units(&port)).chain((0..units(&port)).step_by(5)) {
            write(&port, unit, 1, unit + 1, false).await.unwrap();
        }
        port.flush().await.unwrap();
        assert_eq!(port.background_error(), None);
        left.set(0);
        sim.sleep(Ns::us(50)).await;
        assert_eq!(port.background_error(), Some(IoError::ReadOnly));
        assert_eq!(port.metrics().background_errors, 1);
        // The units stay where they were, and the layer keeps working.
        left.set(u64::MAX);
        for unit in 0..units(&port) {
            assert_eq!(read(&port, unit).await, Ok(unit + 1));
        }
        write(&port, 1, 1, 7, true).await.unwrap();
        port.check().unwrap();
    });
}

#[test]
fn a_long_log_is_replayed_in_little_memory() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let disk = RamDisk::new(&sim, Bytes(16 << 20));
        // A log of some 400 blocks, read in several commands.
        let layout = FormatOptions {
            log_per_10000: 1000,
            ..layout()
        };
        remap::format(&disk, &layout).await.unwrap();
        let unlimited = Options {
            memory: None,
            checkpoint_percent: 100,
            background: false,
            ..options(Variant::Compact)
        };
        let port = remap::open(&sim, &disk, unlimited).await.unwrap();
        let count = units(&port);
        let mut model = vec![0; count as usize];
        // The log restarts at a checkpoint and wraps around.
        for round in 0..700 {
            let unit = round * 701 % count;
            write(&port, unit, 1, round + 1, true).await.unwrap();
            model[unit as usize] = round + 1;
        }
        let left = disk.after_cut(&mut Seed(1).stream("cut"));
        let disk = RamDisk::holding(&sim, Bytes(16 << 20), left);
        let limited = Options {
            memory: Some(Bytes(2_000)),
            ..unlimited
        };
        let again = remap::open(&sim, &disk, limited).await.unwrap();
        let metrics = again.metrics();
        assert!(metrics.replayed > 256, "{metrics:?}");
        assert!(metrics.table_bytes <= 2_000, "{metrics:?}");
        for (unit, &expected) in (0..).zip(&model) {
            assert_eq!(read(&again, unit).await, Ok(expected), "unit {unit}");
        }
        again.check().unwrap();
    });
}
