//! Format-aware fuzzing of zones: edits change fields of known structures, mostly with
//! matching checksums, and addresses point to existing blocks.

use crate::memory::{ZONE_BLOCKS, limits, on, ram_made, ram_mounted, served};
use bolero::TypeGenerator;
use host::{RamZones, ZonesAtRest};
use lfs::{BLOCK, Block, MountOptions};
use nand::Payload;
use persimmon::{Options, Pages};
use sim::Kernel;
use ssd::ZoneState;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use units::{Bytes, Ns};
use vfs::{Access, OpenFlags, Process, Source, XattrFlags};

/// A block: its zone, and its index in the zone.
type Place = (usize, usize);

/// Kind of a block that ends with a checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sum {
    Page = 1,
    Directory,
    Footer,
}

/// Zones, and their blocks by kind.
struct Image {
    zones: ZonesAtRest,
    /// Checksum seed, made from the UUID.
    seed: u32,
    footers: Vec<Place>,
    directories: Vec<Place>,
    /// First and last block of each F2FS pack, which are equal, and the blocks between.
    heads: Vec<(Place, Place)>,
    between: Vec<Place>,
    pages: Vec<Place>,
    /// Blocks of the F2FS tables.
    tables: Vec<Place>,
    /// Node blocks, and blocks of directory entries and file contents.
    nodes: Vec<Place>,
    contents: Vec<Place>,
}

fn bytes_at(zones: &ZonesAtRest, place: Place) -> Block {
    let payload = zones.zones[place.0].payloads.get(place.1);
    payload.unwrap_or(&Payload::Zero).to_bytes()
}

fn word(block: &Block, at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

fn sum_of(seed: u32, block: &Block, kind: Sum) -> u32 {
    let seeded = crc32c::crc32c_append(seed, &[kind as u8]);
    crc32c::crc32c_append(seeded, &block[..BLOCK - 4])
}

impl Image {
    fn of(zones: &ZonesAtRest) -> Self {
        let first = bytes_at(zones, (0, 0));
        let seed = crc32c::crc32c(&first[1024 + 108..1024 + 124]);
        let main = word(&first, 1024 + 92) as usize / ZONE_BLOCKS;
        let has = |block: &Block, kind: Sum| word(block, BLOCK - 4) == sum_of(seed, block, kind);
        let used = |range: std::ops::Range<usize>| -> Vec<(Place, Block)> {
            let places = range.flat_map(|zone| {
                let len = zones.zones[zone].payloads.len();
                (0..len).map(move |at| (zone, at))
            });
            places
                .map(|place| (place, bytes_at(zones, place)))
                .collect()
        };
        let mut image = Self {
            seed,
            footers: Vec::new(),
            directories: Vec::new(),
            heads: Vec::new(),
            between: Vec::new(),
            pages: Vec::new(),
            tables: Vec::new(),
            nodes: Vec::new(),
            contents: Vec::new(),
            zones: zones.clone(),
        };
        let mut pack: Vec<Place> = Vec::new();
        for (place, block) in used(1..3) {
            if has(&block, Sum::Footer) {
                image.footers.push(place);
                let len = word(&block, 16) as usize;
                image.heads.push((pack[0], pack[len - 1]));
                image.between.extend(&pack[1..len - 1]);
                pack.clear();
            } else if has(&block, Sum::Directory) {
                image.directories.push(place);
            } else {
                pack.push(place);
            }
        }
        for (place, block) in used(3..main) {
            match has(&block, Sum::Page) {
                true => image.pages.push(place),
                false => image.tables.push(place),
            }
        }
        for (place, block) in used(main..zones.zones.len()) {
            let (nid, ino) = (word(&block, 4072), word(&block, 4076));
            match (3..1 << 16).contains(&nid) && (3..=nid).contains(&ino) {
                true => image.nodes.push(place),
                false => image.contents.push(place),
            }
        }
        let all = [&image.footers, &image.pages, &image.tables, &image.nodes];
        assert!(all.into_iter().all(|places| !places.is_empty()));
        image
    }
}

/// A cleanly unmounted image, and one after a power cut between fsyncs, with metadata
/// appended behind the checkpoint.
fn images() -> &'static [Image; 2] {
    static IMAGES: OnceLock<[Image; 2]> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let left = on(ram_made(), async |sim, port| {
            let vfs = ram_mounted(&sim, &port).await;
            let p = Process::new(&vfs, Access::root());
            let flags = OpenFlags::BOTH | OpenFlags::CREATE;
            p.mkdir(b"/d", 0o700).await.unwrap();
            for n in 0..300_u64 {
                let path = format!("/d/{n}");
                let fd = p.open(path.as_bytes(), flags, 0o600).await.unwrap();
                let (pattern, len) = (n, 1 + n * 40);
                let far = [0, 0, 1, 4, 20][n as usize % 5] * 1_000_000;
                p.pwrite(fd, far, Source::Fill { pattern, len })
                    .await
                    .unwrap();
                p.close(fd).await.unwrap();
                if n % 40 == 0 {
                    p.sync().await.unwrap();
                }
            }
            p.symlink(b"d", b"/link").await.unwrap();
            let any = XattrFlags::Any;
            p.set_xattr(b"/d/1", b"user.a", &[1; 900], any)
                .await
                .unwrap();
            p.exit().await;
            vfs.unmount().await.unwrap();
        });
        let left = left.at_rest();
        let kernel = Kernel::new();
        let (sim, port) = (kernel.sim(), RamZones::holding(&kernel.sim(), left.clone()));
        let kept = port.clone();
        kernel.sim().spawn_detached(async move {
            let vfs = ram_mounted(&sim, &port).await;
            let p = Process::new(&vfs, Access::root());
            let flags = OpenFlags::BOTH | OpenFlags::CREATE;
            for n in 0..200_u64 {
                let path = format!("/d/{}", n * 3);
                let fd = p.open(path.as_bytes(), flags, 0o600).await.unwrap();
                let (pattern, len) = (n, 12_000);
                p.pwrite(fd, 0, Source::Fill { pattern, len })
                    .await
                    .unwrap();
                p.fsync(fd).await.unwrap();
                p.close(fd).await.unwrap();
            }
        });
        // Cut at an arbitrary event.
        for _ in 0..4_000 {
            kernel.step();
        }
        [left, kept.at_rest()].map(|zones| Image::of(&zones))
    })
}

/// A change of one field; [`Edit::apply`] maps the random numbers to a place and a value.
#[derive(Clone, Copy, Debug, TypeGenerator)]
struct Edit {
    what: u8,
    block: u16,
    field: u16,
    width: u8,
    how: u8,
    value: u32,
}

impl Edit {
    fn of<T: Copy>(self, from: &[T]) -> Option<T> {
        // The newest blocks are last.
        let back = match self.how & 0x80 {
            0 => usize::from(self.block) % from.len().max(1),
            _ => usize::from(self.block) % 3,
        };
        from.len().checked_sub(1 + back).map(|at| from[at])
    }

    /// New value of a field: random, a boundary, near the old value, or a block's address.
    fn number(self, image: &Image, old: u32) -> u32 {
        let somewhere = |places: &[Place]| {
            let place = places.get(self.value as usize % places.len().max(1));
            place.map_or(7, |(zone, at)| (zone * ZONE_BLOCKS + at) as u32)
        };
        match self.how % 14 {
            0 => self.value,
            1 => self.value % 64,
            2 => somewhere(&image.nodes),
            3 => somewhere(&image.contents),
            4 => self.value % 1_200,
            5 => u32::MAX,
            6 => 0,
            7 => old ^ 1 << (self.value % 32),
            8 => old.wrapping_add(1),
            9 => old.wrapping_sub(1),
            10 => somewhere(&image.tables),
            11 => somewhere(&image.pages),
            12 => somewhere(&image.footers),
            _ => u32::MAX / 2 + self.value % 3,
        }
    }

    fn put(self, image: &Image, block: &mut Block, at: usize) {
        let at = at.min(BLOCK - 4);
        let width = [4, 4, 2, 1][usize::from(self.width) % 4];
        let new = self.number(image, word(block, at)).to_le_bytes();
        block[at..at + width].copy_from_slice(&new[..width]);
    }

    /// Changes a block at byte `at`, and mostly updates its checksum.
    fn sealed(self, image: &Image, zones: &mut ZonesAtRest, places: &[Place], at: usize, sum: Sum) {
        let Some(place) = self.of(places) else { return };
        change(zones, place, |block| {
            self.put(image, block, at);
            if self.width < 240 {
                let sum = sum_of(image.seed, block, sum);
                block[BLOCK - 4..].copy_from_slice(&sum.to_le_bytes());
            }
        });
    }

    fn plain(self, image: &Image, zones: &mut ZonesAtRest, places: &[Place], at: usize) {
        if let Some(place) = self.of(places) {
            change(zones, place, |block| self.put(image, block, at));
        }
    }

    fn apply(self, image: &Image, zones: &mut ZonesAtRest) {
        let field = usize::from(self.field);
        // Sizes of table entries in bytes.
        let entry = [9, 74, 7][field % 3];
        let in_entry = field % (BLOCK / entry) * entry + [0, 1, 2, 5][field % 4];
        match self.what % 20 {
            // Rarely: most changes of a superblock fail the mount at once.
            0 if self.width < 64 => self.superblock(image, zones, field % 2 == 0),
            1 | 2 => {
                let places = [8, 16, 20, 24, 64 + field % 40 * 4];
                self.sealed(image, zones, &image.footers, places[field % 5], Sum::Footer);
            }
            3 => self.sealed(
                image,
                zones,
                &image.directories,
                field % 8 * 4,
                Sum::Directory,
            ),
            4 | 5 => self.sealed(image, zones, &image.pages, field % 1010 * 4, Sum::Page),
            6 => {
                let places = [4040, 4044, 4048, 4088, 4090];
                self.sealed(image, zones, &image.pages, places[field % 5], Sum::Page);
            }
            7 | 8 => self.head(image, zones, field % 192),
            9 => self.plain(image, zones, &image.between, field % BLOCK),
            10..13 => self.plain(image, zones, &image.tables, in_entry),
            13 => self.plain(image, zones, &image.nodes, field % 370),
            14 => self.plain(image, zones, &image.nodes, 4052 + field % 11 * 4),
            15 => self.plain(image, zones, &image.nodes, 360 + field % 923 * 4),
            16 => self.plain(image, zones, &image.contents, field % BLOCK),
            17 => self.swap(image, zones),
            _ => self.zone(zones),
        }
    }

    /// Changes both superblocks: fields of F2FS, or the record before them.
    fn superblock(self, image: &Image, zones: &mut ZonesAtRest, record: bool) {
        let field = usize::from(self.field) / 2;
        for copy in 0..2 {
            change(zones, (0, copy), |block| {
                if !record {
                    return self.put(image, block, 1024 + field % 27 * 4);
                }
                self.put(image, block, field % 6 * 4);
                if self.width < 240 {
                    let sum = crc32c::crc32c_append(image.seed, &block[..20]);
                    block[20..24].copy_from_slice(&sum.to_le_bytes());
                }
            });
        }
    }

    /// Changes the head of a pack, with its checksum, in both places.
    fn head(self, image: &Image, zones: &mut ZonesAtRest, at: usize) {
        let Some((first, last)) = self.of(&image.heads) else {
            return;
        };
        change(zones, first, |block| {
            self.put(image, block, at);
            let end = (word(block, 164) as usize).min(BLOCK - 4);
            let sum = block[..end].iter().fold(0xF2F5_2010, |crc: u32, &byte| {
                let step = |crc: u32| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1));
                (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc))
            });
            block[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        });
        let same = zones.zones[first.0].payloads.get(first.1).cloned();
        if let (Some(same), Some(to)) = (same, zones.zones[last.0].payloads.get_mut(last.1)) {
            *to = same;
        }
    }

    /// Overwrites a block with a copy of another one.
    fn swap(self, image: &Image, zones: &mut ZonesAtRest) {
        let kinds = [
            &image.pages,
            &image.tables,
            &image.footers,
            &image.nodes,
            &image.contents,
        ];
        let from = self.of(kinds[usize::from(self.field) % 5]);
        let to = self.of(kinds[usize::from(self.width) % 5]);
        if let (Some(from), Some(to)) = (from, to) {
            let block = bytes_at(zones, from);
            change(zones, to, |bytes| *bytes = block);
        }
    }

    /// Changes a zone's write pointer or state.
    fn zone(self, zones: &mut ZonesAtRest) {
        let at = usize::from(self.block) % zones.zones.len().min(16);
        let zone = &mut zones.zones[at];
        match self.width % 4 {
            0 | 1 => {
                let cut = [1, 2, 7, 400][usize::from(self.field) % 4];
                zone.payloads
                    .truncate(zone.payloads.len().saturating_sub(cut));
                zone.state = match zone.payloads.is_empty() {
                    true => ZoneState::Empty,
                    false => ZoneState::Closed,
                };
            }
            2 => zone.state = [ZoneState::ReadOnly, ZoneState::Full][usize::from(self.field) % 2],
            _ => {
                zone.state = ZoneState::Offline;
                zone.payloads.clear();
            }
        }
    }
}

fn change(zones: &mut ZonesAtRest, (zone, at): Place, edit: impl FnOnce(&mut Block)) {
    if let Some(payload) = zones.zones[zone].payloads.get_mut(at) {
        let mut bytes = payload.to_bytes();
        edit(&mut bytes);
        *payload = Payload::Bytes(Arc::new(bytes));
    }
}

/// Bound on the events of one run; some thousands are usual.
const STEPS: u64 = 3_000_000;

fn survive(zones: ZonesAtRest, options: Options) {
    let _ = persimmon::check(&zones);
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let port = RamZones::holding(&sim, zones);
    let done = Rc::new(Cell::new(false));
    let ended = Rc::clone(&done);
    sim.clone().spawn_detached(async move {
        if let Ok((body, _)) = persimmon::mount(&sim, &port, options).await {
            let vfs = served(&sim, body);
            let process = Process::new(&vfs, Access::root());
            vfs::model::endure(&process).await;
            // Long enough for background cleaning to run.
            sim.sleep(Ns(30_000)).await;
            vfs::model::endure(&process).await;
            process.exit().await;
            let _ = vfs.unmount().await;
        }
        ended.set(true);
    });
    while !done.get() && kernel.step() {
        assert!(kernel.sim().events() < STEPS, "it does not end");
    }
    assert!(done.get(), "it came to rest before its end");
}

#[test]
fn changed_fields_of_an_image_never_panic() {
    assert_eq!(ZONE_BLOCKS as u64 * 8, limits().capacity);
    bolero::check!()
        .with_type::<(bool, bool, Vec<Edit>)>()
        .with_iterations(300)
        .for_each(|(cut, lean, edits)| {
            let image = &images()[usize::from(*cut)];
            let mut zones = image.zones.clone();
            for edit in edits.iter().take(6) {
                edit.apply(image, &mut zones);
            }
            let options = Options {
                memory: lean.then_some(Bytes(4_200)),
                pages: if *lean { Pages::Paired } else { Pages::Batched },
                body: MountOptions {
                    interval: Ns(5_000),
                    cleaning: Ns(600),
                    ..MountOptions::default()
                },
                ..Options::default()
            };
            survive(zones, options);
        });
}
