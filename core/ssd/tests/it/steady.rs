//! Bench for long random workloads on drives without contents, and measures of their steady state.

use nand::Geometry;
use sim::{Kernel, Rng, Seed};
use ssd::{Cause, Content, Drive, DriveConfig, Interface, Ledger, LineState, Precondition, Preset};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Bytes, Extent, Origin, Placement};

/// A drive of `lines` lines of 64 pages, one of which is the summary, with a capacity of `pages`
/// pages.
pub(crate) fn bare(lines: u32, pages: u32) -> DriveConfig {
    let mut config = (Preset::named("block").expect("a preset").config)();
    config.geometry = Geometry {
        channels: 2,
        chips_per_channel: 1,
        dies_per_chip: 1,
        planes: 2,
        blocks_per_plane: lines,
        pages_per_block: 16,
        page_bytes: 4096,
        spare_bytes: 64,
        pages_per_program: 1,
        spare_words: 1,
    };
    config.flash.part = "z-nand".to_owned();
    config.capacity = Bytes(u64::from(pages) * 4096);
    config.controller.write_buffer = Bytes(16 * 4096);
    config.collection.reserve_lines = 1;
    config.collection.background_lines = 1;
    config.collection.reads_per_die = 1;
    config.wear.spare_blocks = 0;
    config
}

/// `config` with `handles` placement handles.
pub(crate) fn with_handles(mut config: DriveConfig, handles: u16, isolated: bool) -> DriveConfig {
    config.interface = Interface::Fdp;
    config.placement.handles = handles;
    config.placement.persistently_isolated = isolated;
    config.placement.spare = (Preset::named("fdp").expect("a preset").config)()
        .placement
        .spare;
    config
}

/// A drive under a workload.
pub(crate) struct Bench {
    pub(crate) kernel: Kernel,
    pub(crate) drive: Drive,
    seed: u64,
}

/// Measurements of a drive between two instants.
pub(crate) struct Seen {
    pub(crate) before: Ledger,
    pub(crate) after: Ledger,
    /// For each placement handle: pages of lines that hold its data, on average.
    space: Vec<f64>,
}

/// Pages of lines that hold data, by placement handle. Free lines, lines that wait for their erase,
/// and summaries count nothing; an open line counts half.
fn space(drive: &Drive) -> Vec<f64> {
    let layout = drive.layout();
    let mut space = vec![0.0; (layout.handles * layout.groups) as usize];
    for line in drive.lines() {
        let Some(handle) = line.handle else { continue };
        let share = match line.state {
            LineState::Closed => 1.0,
            LineState::Collecting if line.valid > 0 => 1.0,
            LineState::Open => 0.5,
            _ => 0.0,
        };
        space[handle as usize] += share * f64::from(layout.line_data);
    }
    space
}

impl Bench {
    pub(crate) fn new(config: &DriveConfig, past: Precondition, seed: u64) -> Self {
        let kernel = Kernel::new();
        let media = past.media(config, Seed(seed)).expect("a good drive");
        let drive = Drive::ready(&kernel.sim(), config, media, Seed(seed)).expect("a good drive");
        Self {
            kernel,
            drive,
            seed,
        }
    }

    pub(crate) fn pages(&self) -> u64 {
        u64::from(self.drive.layout().host_pages)
    }

    /// Writes `writes` single pages, sixteen at a time; `pick` chooses the page and its handle.
    /// Returns the measurements of this period.
    pub(crate) fn write(
        &mut self,
        writes: u64,
        pick: impl Fn(&mut Rng) -> (u64, u16) + Copy + 'static,
    ) -> Seen {
        const WORKERS: u64 = 16;
        self.seed += 1;
        let before = self.drive.ledger();
        let done = Rc::new(Cell::new(0));
        let sum = Rc::new(RefCell::new((0_u64, vec![0.0; before.handles.len()])));
        for worker in 0..WORKERS {
            let (drive, sum, all_done) = (self.drive.clone(), Rc::clone(&sum), Rc::clone(&done));
            let mut rng = Seed(self.seed).stream(&format!("worker {worker}"));
            let per_page = u64::from(drive.layout().sectors_per_page) * 8;
            self.kernel.sim().spawn_detached(async move {
                for number in 0..writes / WORKERS {
                    let (page, handle) = pick(&mut rng);
                    let extent = Extent::new(page * per_page, per_page as u32);
                    let (content, placement) = (Content::Nothing, Placement(handle));
                    let done = drive.write(extent, content, placement, Origin(0), false);
                    done.await.expect("the drive has room");
                    all_done.set(all_done.get() + 1);
                    if worker == 0 && number % 64 == 0 {
                        let (count, total) = &mut *sum.borrow_mut();
                        *count += 1;
                        for (total, now) in total.iter_mut().zip(space(&drive)) {
                            *total += now;
                        }
                    }
                }
            });
        }
        self.kernel.run();
        self.drive.check();
        assert_eq!(done.get(), writes / WORKERS * WORKERS, "the drive hangs");
        let (count, total) = sum.take();
        Seen {
            before,
            after: self.drive.ledger(),
            space: total.iter().map(|sum| sum / count as f64).collect(),
        }
    }

    /// Writes every page once, in order, through the handle that `handle` returns.
    pub(crate) fn fill(&mut self, handle: impl Fn(u64) -> u16 + 'static) {
        let (drive, pages) = (self.drive.clone(), self.pages());
        let per_page = u64::from(drive.layout().sectors_per_page) * 8;
        self.kernel.block_on(async move {
            for page in 0..pages {
                let extent = Extent::new(page * per_page, per_page as u32);
                let (content, placement) = (Content::Nothing, Placement(handle(page)));
                let done = drive.write(extent, content, placement, Origin(0), false);
                done.await.expect("the drive has room");
            }
        });
        self.kernel.run();
    }

    /// Writes uniformly over all pages, `rounds` times as many as there are.
    pub(crate) fn overwrite(&mut self, rounds: u64) -> Seen {
        let pages = self.pages();
        self.write(rounds * pages, move |rng| (rng.below(pages), 0))
    }
}

impl Seen {
    pub(crate) fn by_cause(&self, cause: Cause) -> u64 {
        self.after.by_cause(cause) - self.before.by_cause(cause)
    }

    /// Pages of data programmed for each page that the host's writes needed. Pages absorbed by the
    /// buffer, summaries and padding do not count.
    pub(crate) fn amplification(&self) -> f64 {
        let (host, moved) = (self.by_cause(Cause::Host), self.by_cause(Cause::Gc));
        (host + moved) as f64 / host as f64
    }

    /// Pages programmed for a handle, relocations included, for each page that the host wrote to
    /// it.
    pub(crate) fn amplification_of(&self, handle: usize) -> f64 {
        let (before, after) = (self.before.handles[handle], self.after.handles[handle]);
        (after.media_pages - before.media_pages) as f64
            / ((after.host_sectors - before.host_sectors) / 8) as f64
    }

    /// Pages of lines that held data of a handle, on average.
    pub(crate) fn space(&self, handle: usize) -> f64 {
        self.space[handle]
    }
}
