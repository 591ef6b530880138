//! Presets of products, as far as public facts go.
//!
//! Facts, each with its source: kind of flash and capacities (the makers' datasheets, in
//! `lab/stack/validate`), and the rows of [`PRODUCTS`] that say so. Assumed for all, since no source
//! says: dies of 64 GiB, two planes, blocks of 1,152 pages of 16 KiB, the times of the parts `tlc`
//! and `mlc`, the times of the firmware, a write buffer of two programs a die, the sizes of
//! read-ahead, that reads suspend a program or an erase as often as they may go before it, and that
//! collection paces the host. The values of datasheets that set a limit are marked as fitted in
//! `flashloom validate`; no number is taken from another measurement that it compares.

use super::generic;
use crate::config::{Collection, Controller, DriveConfig, Flash, Interface, Limits, Wear};
use nand::{Geometry, Part, Timing};
use units::{Bytes, GIB, KIB, MIB, Ns};

/// Facts of one product.
struct Product {
    name: &'static str,
    /// Capacity for the host, 10^9 bytes: from the datasheet.
    gb: u64,
    /// Flash, in dies of 64 GiB.
    dies: u32,
    channels: u32,
    part: &'static str,
    /// Bus of the flash, MB/s; 0 for that of the part.
    bus_mb: u64,
    /// Random reads of 4 KiB, thousands per second: from the datasheet.
    read_kiops: u64,
    /// Writes in order, 10^6 bytes per second: from the datasheet; 0 for a drive whose datasheet has
    /// the speed of its SLC cache.
    write_mb: u64,
}

impl Product {
    /// Limits of the whole drive. Assumed: a write occupies the processors as long as a read, and
    /// programs of garbage collection take their part of the bandwidth of writes in order.
    fn limits(&self) -> Limits {
        let service = Ns(1_000_000 / self.read_kiops);
        Limits {
            read: service,
            write: service,
            program_bytes_per_s: self.write_mb * 1_000_000,
        }
    }
}

/// Products, by facts and assumptions.
const PRODUCTS: [Product; 9] = [
    // Flash of 1 TiB: `ssdiq`. 176 layers with a bus of 1,600 MT/s: `micron-176`. 8 channels:
    // assumed.
    Product {
        name: "7450-max",
        gb: 800,
        dies: 16,
        channels: 8,
        part: "tlc",
        bus_mb: 1_600,
        read_kiops: 530,
        write_mb: 1_400,
    },
    // Flash: assumed to be that of the MAX of 800 GB, which differs in its spare space.
    Product {
        name: "7450-pro",
        gb: 960,
        dies: 16,
        channels: 8,
        part: "tlc",
        bus_mb: 1_600,
        read_kiops: 530,
        write_mb: 1_400,
    },
    // Flash of 2 TiB, 16 channels, bus of the part: assumed.
    Product {
        name: "p5520",
        gb: 1_920,
        dies: 32,
        channels: 16,
        part: "tlc",
        bus_mb: 0,
        read_kiops: 700,
        write_mb: 1_900,
    },
    // Flash of 1 TiB, 8 channels, bus of the part: assumed.
    Product {
        name: "pe8110",
        gb: 960,
        dies: 16,
        channels: 8,
        part: "tlc",
        bus_mb: 0,
        read_kiops: 900,
        write_mb: 1_700,
    },
    // As the PE8110.
    Product {
        name: "pm9a3",
        gb: 960,
        dies: 16,
        channels: 8,
        part: "tlc",
        bus_mb: 0,
        read_kiops: 580,
        write_mb: 1_500,
    },
    // As the PE8110.
    Product {
        name: "wd-960",
        gb: 960,
        dies: 16,
        channels: 8,
        part: "tlc",
        bus_mb: 0,
        read_kiops: 434,
        write_mb: 1_190,
    },
    // Flash of 4 TiB, 16 channels, bus of the part: assumed.
    Product {
        name: "cm7-r",
        gb: 3_840,
        dies: 64,
        channels: 16,
        part: "tlc",
        bus_mb: 0,
        read_kiops: 2_700,
        write_mb: 6_750,
    },
    // MLC of 64 layers: its datasheet. Flash of 1 TiB, 8 channels: assumed.
    Product {
        name: "970-pro",
        gb: 1_024,
        dies: 16,
        channels: 8,
        part: "mlc",
        bus_mb: 0,
        read_kiops: 500,
        write_mb: 2_700,
    },
    // Two packages of 512 GB: `techpowerup-980`. 8 channels: assumed. Its SLC cache is left out: the
    // model has none.
    Product {
        name: "980-pro",
        gb: 1_000,
        dies: 16,
        channels: 8,
        part: "tlc",
        bus_mb: 0,
        read_kiops: 1_000,
        write_mb: 0,
    },
];

/// `controller` with read-ahead for 16 streams of 1 MiB each. Drives read ahead (`memblaze` 1), in
/// zones too (`zone-read-ahead` 1); both sizes are assumed, since no maker publishes them.
pub(super) fn reading_ahead(controller: Controller) -> Controller {
    Controller {
        read_ahead: Bytes(16 * MIB),
        read_streams: 16,
        ..controller
    }
}

/// The product called `name`.
///
/// # Panics
/// If there is none.
pub(super) fn product(name: &str) -> DriveConfig {
    let facts = PRODUCTS.iter().find(|product| product.name == name);
    let facts = facts.expect("each preset of a product has its facts");
    let generic = generic(facts.name, Interface::Block, 1, false);
    let unit = 4 * KIB;
    let part = Part::named(facts.part);
    let pages_per_program = part.map_or(1, |part| part.pages_per_program);
    let timing = part.filter(|_| facts.bus_mb > 0).map(|part| Timing {
        bus_bytes_per_s: facts.bus_mb * 1_000_000,
        ..part.timing
    });
    let page = u64::from(generic.geometry.page_bytes);
    let (planes, pages) = (2, 1_152);
    let block = page * u64::from(pages);
    let program = page * planes * u64::from(pages_per_program);
    DriveConfig {
        capacity: Bytes(facts.gb * 1_000_000_000 / unit * unit),
        flash: Flash {
            part: facts.part.to_owned(),
            timing,
            page_registers: true,
            suspend_limit: generic.flash.bypass_limit,
            ..generic.flash
        },
        geometry: Geometry {
            channels: facts.channels,
            chips_per_channel: facts.dies / facts.channels,
            planes: planes as u32,
            blocks_per_plane: (64 * GIB / planes / block) as u32,
            pages_per_block: pages,
            pages_per_program,
            ..generic.geometry
        },
        controller: Controller {
            write_buffer: Bytes(2 * program * u64::from(facts.dies)),
            limits: facts.limits(),
            ..reading_ahead(generic.controller)
        },
        collection: Collection {
            paced: true,
            ..generic.collection
        },
        wear: Wear {
            spare_blocks: 8,
            ..generic.wear
        },
        ..generic
    }
}
