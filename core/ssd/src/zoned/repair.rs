//! Repairs of the flash at power-on, and the time that power-on takes.

use super::Zoned;
use super::recover::{Repair, contents, rebuild};
use super::rules::ZoneState;
use crate::ledger::{Cause, ReadCause};
use nand::{Priority, Program, Row};
use std::rc::Rc;

/// Largest number of repair rounds: each piece of a die takes two.
const ROUNDS: u32 = 1 << 16;

impl Zoned {
    /// Repairs the flash without taking time.
    pub(crate) fn repair_at_once(self: &Rc<Self>) {
        for _ in 0..ROUNDS {
            let repairs = self.look();
            if repairs.is_empty() {
                return;
            }
            for repair in repairs {
                match repair {
                    Repair::Erase(row) => self.erase_at_once(row),
                    Repair::Move {
                        from,
                        to,
                        programs,
                        label,
                    } => self.move_at_once((from, to), programs, label),
                }
            }
        }
        unreachable!("every round makes something good");
    }

    /// Takes the time of finding the ends of the zones, then repairs the flash, all dies in
    /// parallel.
    pub(crate) async fn repair(self: &Rc<Self>) {
        self.read_ends().await;
        for _ in 0..ROUNDS {
            let repairs = self.look();
            if repairs.is_empty() {
                return;
            }
            let repairs: Vec<_> = repairs
                .into_iter()
                .map(|repair| {
                    let zoned = Rc::clone(self);
                    self.core
                        .sim
                        .spawn(async move { zoned.carry_out(repair).await })
                })
                .collect();
            for repair in repairs {
                repair.await;
            }
        }
        unreachable!("every round makes something good");
    }

    /// Rebuilds the table from the current flash, and returns the repairs that are needed.
    fn look(&self) -> Vec<Repair> {
        let media = self.media.borrow();
        let kept = media.as_ref().expect("recovery is not over");
        let cells = self.core.nand.media();
        let (table, repairs) = rebuild(&self.layout, &self.config, self.rules, &cells, kept);
        let next = self.table.borrow().sequence.max(table.sequence);
        *self.table.borrow_mut() = table;
        self.table.borrow_mut().sequence = next;
        repairs
    }

    /// Ends recovery: from here on the firmware's memory is authoritative.
    pub(crate) fn start(self: &Rc<Self>) {
        *self.media.borrow_mut() = None;
        for zone in 0..self.layout.sequential() {
            self.issue_full(zone);
        }
    }

    fn erase_at_once(&self, row: Row) {
        for block in row.blocks() {
            let mut media = self.core.nand.media_mut();
            // A bad block holds no valid data, and stays as it is.
            let _ = media.erase(block);
        }
    }

    fn move_at_once(&self, (from, to): (Row, Row), programs: u32, label: u64) {
        for program in 0..programs {
            let page = program * self.layout.geometry.pages_per_program;
            let mut media = self.core.nand.media_mut();
            let (words, payload) = contents(&self.layout, &media, Row { page, ..from });
            let stamp = self.next_stamp();
            let row = Row { page, ..to };
            let programmed = media.program(row, stamp, label, &words, &payload);
            programmed.expect("the blocks were erased");
        }
    }

    fn next_stamp(&self) -> u64 {
        let mut table = self.table.borrow_mut();
        table.sequence += 1;
        table.sequence - 1
    }

    async fn carry_out(self: &Rc<Self>, repair: Repair) {
        match repair {
            // A block that fails to erase is bad, and the next round skips it.
            Repair::Erase(row) => drop(self.core.nand.erase(row).await),
            Repair::Move {
                from,
                to,
                programs,
                label,
            } => self.move_piece((from, to), programs, label).await,
        }
    }

    /// Copies the first programs of a piece. If one fails, the blocks of the copy are retired, and
    /// the next round finds that copy to be the shorter one.
    async fn move_piece(self: &Rc<Self>, (from, to): (Row, Row), programs: u32, label: u64) {
        let geometry = self.layout.geometry;
        for program in 0..programs {
            let page = program * geometry.pages_per_program;
            for read in page..page + geometry.pages_per_program {
                self.read_page(Row { page: read, ..from }, geometry.page_bytes)
                    .await;
            }
            let (words, payload) =
                contents(&self.layout, &self.core.nand.media(), Row { page, ..from });
            let program = Program {
                row: Row { page, ..to },
                stamp: self.next_stamp(),
                label,
                words: &words,
                payload: &payload,
            };
            let ticket = self.core.nand.submit_program(program);
            let ticket = ticket.expect("the blocks were erased");
            let sectors = u64::from(self.layout.unit);
            self.core
                .state
                .borrow_mut()
                .ledger
                .program(Cause::Zone as u8, 0, sectors);
            if self.core.nand.finish_program(ticket).await.is_err() {
                to.blocks().for_each(|block| self.core.nand.retire(block));
                return;
            }
        }
    }

    async fn read_page(&self, row: Row, bytes: u32) {
        let pages = row.planes.count_ones();
        let ledger = &self.core.state;
        ledger.borrow_mut().ledger.reads[ReadCause::Recovery as usize] += u64::from(pages);
        // Pages that cannot be read count as unwritten; the read still takes its time.
        let _ = self
            .core
            .nand
            .read(row, bytes * pages, Priority::Normal)
            .await;
    }

    /// Takes the time of finding the ends of the zones: one page of every piece that has data, and
    /// for zones that are not full the further pages of a binary search.
    async fn read_ends(self: &Rc<Self>) {
        self.look();
        let mut by_die: Vec<Vec<(Row, u32)>> =
            vec![Vec::new(); self.layout.geometry.dies() as usize];
        {
            let table = self.table.borrow();
            for (zone, entry) in (0..).zip(&table.zones) {
                let search = self.layout.programs.ilog2() + 1;
                let reads = 1 + if entry.state == ZoneState::Full {
                    0
                } else {
                    search
                };
                let pieces =
                    (0..self.layout.pieces()).filter(|&p| table.has_piece(&self.layout, zone, p));
                for piece in pieces {
                    let row = table.row(&self.layout, zone, piece, 0);
                    by_die[row.die as usize].push((row, reads));
                }
            }
        }
        let spare = self.layout.geometry.spare_bytes;
        let dies: Vec<_> = by_die
            .into_iter()
            .map(|rows| {
                let zoned = Rc::clone(self);
                self.core.sim.spawn(async move {
                    for (row, reads) in rows {
                        for _ in 0..reads {
                            zoned.read_page(row, spare).await;
                        }
                    }
                })
            })
            .collect();
        for die in dies {
            die.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::zoned::write::word;
    use crate::{Content, Drive, DriveConfig, DriveMedia, Preset, ZoneInfo};
    use nand::Payload;
    use sim::{Kernel, Seed};
    use units::{Bytes, Extent, Origin};

    #[test]
    fn labels_distinguish_pieces_from_backups() {
        assert_eq!(word::parse_label(word::label(7, 3)), (7, Some(3)));
        assert_eq!(word::parse_label(word::backup_label(9)), (9, None));
    }

    /// Eight zones over two dies, with four programs in a block.
    fn small(protected: bool) -> DriveConfig {
        let mut config = (Preset::named("zns").expect("a preset").config)();
        config.geometry.channels = 2;
        config.geometry.chips_per_channel = 1;
        config.geometry.pages_per_block = 12;
        config.geometry.blocks_per_plane = 30;
        config.flash.keep_contents = true;
        config.controller.power_loss_protection = protected;
        let zones = config.zones.as_mut().expect("it has zones");
        zones.dies = 2;
        zones.capacity = Bytes(8 * 24 * 4096);
        zones.size = zones.capacity;
        config.capacity = Bytes(8 * zones.capacity.0);
        config
    }

    type Seen = Vec<(ZoneInfo, Vec<Payload>)>;

    fn seen(config: &DriveConfig, media: DriveMedia) -> Seen {
        let kernel = Kernel::new();
        let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).expect("a good one");
        drive.check();
        let zones = &drive.zones().expect("a zoned drive").inner;
        let sectors = zones.layout.capacity;
        let all = (0..zones.layout.zones).filter_map(|zone| zones.info(zone));
        all.map(|info| {
            let contents = (0..sectors).map(|at| zones.sector(info.zone, at));
            (info, contents.collect())
        })
        .collect()
    }

    /// Media of a cut after `events` events, while every zone is written: torn programs on both
    /// dies. `None` if the writes end before.
    fn torn(config: &DriveConfig, events: u32) -> Option<DriveMedia> {
        let kernel = Kernel::new();
        let media = DriveMedia::new(config, Seed(1)).expect("a good one");
        let drive = Drive::ready(&kernel.sim(), config, media, Seed(1)).expect("a good one");
        for zone in 0..8_u64 {
            let zones = drive.zones().expect("a zoned drive").clone();
            let start = zone * zones.limits().size;
            kernel.sim().spawn_detached(async move {
                for turn in 0..30 {
                    let extent = Extent::new(start + turn * 40, 40);
                    let content = Content::Fill(turn + 1);
                    let forced = turn % 4 == 3;
                    let write = zones.write(extent, content, Origin(0), forced).await;
                    write.expect("no fault is injected");
                }
            });
        }
        let went_on = (0..events).all(|_| kernel.step());
        went_on.then(|| drive.at_power_cut())
    }

    /// A further cut during the repair of the flash does not change the result of power-on.
    #[test]
    fn cut_during_recovery_changes_no_contents() {
        let (mut cuts, mut moved) = (0, 0);
        let points = [true, false].into_iter().flat_map(|protected| {
            let config = small(protected);
            let media = (1..).map_while(move |turn| torn(&config, turn * 31));
            media.map(move |media| (protected, media))
        });
        for (number, (protected, media)) in points.enumerate() {
            let config = small(protected);
            let want = seen(&config, media.clone());
            let kernel = Kernel::new();
            let drive = Drive::prepare(&kernel.sim(), &config, media, Seed(1)).expect("a good one");
            let zones = drive.zones().expect("a zoned drive").clone();
            kernel
                .sim()
                .spawn_detached(async move { zones.inner.repair().await });
            while kernel.step() {
                cuts += 1;
                let left = drive.at_power_cut();
                let context = format!("cut {number}, then {cuts}");
                assert!(seen(&config, left) == want, "{context}");
            }
            moved += drive.ledger().by_cause(crate::Cause::Zone);
        }
        assert!(
            cuts > 100 && moved > 100,
            "{cuts} cuts, {moved} sectors moved"
        );
    }
}
