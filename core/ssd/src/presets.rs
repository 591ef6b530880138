//! Presets: named drives. The generic ones share one flash, so that their results differ by
//! interface only.

mod large;
mod products;

use crate::config::{
    CacheHolds, Collection, Controller, DriveConfig, Flash, Interface, Limits, Mapping, Placements,
    SpareSplit, VictimPolicy, Wear,
};
use crate::front::FrontConfig;
use crate::raw::RawConfig;
use crate::zoned::{Unwritten, ZoneConfig, ZoneFirmware};
use large::micron_6600_ion;
use nand::{Faults, Geometry, Timing};
use products::{product, reading_ahead};
use units::{Bytes, GIB, KIB, MIB, Ns};

/// A drive configuration with a name.
pub struct Preset {
    /// Name of the preset on the command line and in drive files.
    pub name: &'static str,
    /// Description in one line.
    pub help: &'static str,
    /// Builds the configuration of the drive.
    pub config: fn() -> DriveConfig,
}

/// Every preset, in the order in which lists show them.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "block",
        help: "conventional drive: page-mapped, one handle, greedy cleaning",
        config: || generic("block", Interface::Block, 1, false),
    },
    Preset {
        name: "streams",
        help: "the same flash with 8 NVMe streams, separated when written; relocated data are \
            separated into hot and cold",
        config: || generic("streams", Interface::Streams, 8, false),
    },
    Preset {
        name: "fdp",
        help: "the same flash with 8 FDP reclaim unit handles, separated when written and \
            relocated",
        config: || generic("fdp", Interface::Fdp, 8, true),
    },
    Preset {
        name: "zns",
        help: "the same flash as zones of 12 MiB, each striped over all dies; at most 14 active at once",
        config: zns,
    },
    Preset {
        name: "ocssd",
        help: "the same flash as an open-channel drive, with the mapping in the host",
        config: ocssd,
    },
    Preset {
        name: "byte",
        help: "the block drive with a byte interface as well, through a page cache",
        config: byte,
    },
    Preset {
        name: "bytefs-emulator",
        help: "the emulated drive of ByteFS, 32 GiB, with its write log",
        config: bytefs_emulator,
    },
    Preset {
        name: "zn540",
        help: "a Western Digital ZN540 of 4 TB: zones of 2048 MiB with a capacity of 1077 MiB",
        config: zn540,
    },
    Preset {
        name: "zn540-1tb",
        help: "the same of 1 TB: 904 zones",
        config: zn540_1tb,
    },
    Preset {
        name: "hyfim-ocssd",
        help: "the open-channel drive of HyFiM: 8 channels of 2 units, 508 GB for files",
        config: hyfim_ocssd,
    },
    Preset {
        name: "skybyte",
        help: "the flash of SkyByte's CXL-SSD: 16 channels of 64 dies of Z-NAND, 128 GiB raw",
        config: skybyte,
    },
    Preset {
        name: "skybyte-channel",
        help: "the same with one die per channel and no bus, as in SkyByte's simulator",
        config: skybyte_channel,
    },
    Preset {
        name: "6600-ion",
        help: "a drive of QLC like Micron's 6600 ION of 61.44 TB, mapped in units of 16 KiB",
        config: micron_6600_ion,
    },
    Preset {
        name: "7450-max",
        help: "a Micron 7450 MAX of 800 GB: TLC of 176 layers, 1 TiB",
        config: || product("7450-max"),
    },
    Preset {
        name: "7450-pro",
        help: "a Micron 7450 PRO of 960 GB: TLC of 176 layers, 1 TiB",
        config: || product("7450-pro"),
    },
    Preset {
        name: "p5520",
        help: "a Solidigm D7-P5520 of 1,920 GB: TLC, 2 TiB assumed",
        config: || product("p5520"),
    },
    Preset {
        name: "pe8110",
        help: "an SK Hynix PE8110 of 960 GB: TLC, 1 TiB assumed",
        config: || product("pe8110"),
    },
    Preset {
        name: "pm9a3",
        help: "a Samsung PM9A3 of 960 GB: TLC, 1 TiB assumed",
        config: || product("pm9a3"),
    },
    Preset {
        name: "wd-960",
        help: "a Western Digital drive of 960 GB: TLC, 1 TiB assumed",
        config: || product("wd-960"),
    },
    Preset {
        name: "cm7-r",
        help: "a Kioxia CM7-R of 3,840 GB: TLC, 4 TiB assumed",
        config: || product("cm7-r"),
    },
    Preset {
        name: "970-pro",
        help: "a Samsung 970 PRO of 1 TB: MLC, 1 TiB assumed",
        config: || product("970-pro"),
    },
    Preset {
        name: "980-pro",
        help: "a Samsung 980 PRO of 1 TB without its SLC cache: TLC, 1 TiB",
        config: || product("980-pro"),
    },
];

impl Preset {
    /// The preset called `name`; `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }
}

/// The conventional drive behind a page cache of 256 MiB: the baseline for file systems made for
/// byte-addressable drives.
//= bytefs 5.1
fn byte() -> DriveConfig {
    DriveConfig {
        front: Some(FrontConfig::page_cache()),
        ..generic("byte", Interface::Block, 1, false)
    }
}

/// The drive that ByteFS was emulated on. From `bytefs` Table 4: 32 GiB, eight channels, pages of 4
/// KiB, 40 µs to read and 60 µs to program one; from 4.3 the log, from 4.9 the write buffer. Its
/// public emulator has one die a channel, blocks of 128 pages, and erases in 2 ms. Chosen here,
/// since neither source says: 7 % of spare flash, the bus, and the firmware's times, as in the
/// generic drives. The 3.5 and 2.5 GB/s of Table 4 are those of the host's link: eight dies give
/// 0.8 and 0.5.
//= bytefs 4.9
fn bytefs_emulator() -> DriveConfig {
    let generic = generic("bytefs-emulator", Interface::Block, 1, false);
    DriveConfig {
        capacity: Bytes(32 * GIB),
        flash: Flash {
            part: "slc".to_owned(),
            timing: Some(Timing {
                read: Ns::us(40),
                program: Ns::us(60),
                erase: Ns::ms(2),
                command: Ns(200),
                bus_bytes_per_s: 1_200_000_000,
                suspend: Ns::us(5),
            }),
            ..generic.flash
        },
        geometry: Geometry {
            channels: 8,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes: 1,
            blocks_per_plane: 8_768,
            pages_per_block: 128,
            page_bytes: 4 * KIB as u32,
            spare_bytes: 128,
            pages_per_program: 1,
            spare_words: 1,
        },
        controller: Controller {
            write_buffer: Bytes(16 * MIB),
            ..generic.controller
        },
        front: Some(FrontConfig::write_log()),
        ..generic
    }
}

/// 4 GiB for the host on TLC: four channels of four dies, as a slice of a data centre drive.
/// Channels, planes and one program of 96 KiB are those of NVMeVirt's model of the ZN540 with half
/// its channels and half its dies.
fn generic(name: &str, interface: Interface, handles: u16, isolated: bool) -> DriveConfig {
    DriveConfig {
        name: name.to_owned(),
        interface,
        capacity: Bytes(4 * GIB),
        flash: Flash {
            part: "tlc".to_owned(),
            timing: None,
            endurance: None,
            reads_first: true,
            bypass_limit: 16,
            suspend_limit: 0,
            page_registers: false,
            keep_contents: false,
        },
        geometry: Geometry {
            channels: 4,
            chips_per_channel: 4,
            dies_per_chip: 1,
            planes: 2,
            blocks_per_plane: 402,
            pages_per_block: 24,
            page_bytes: 16 * KIB as u32,
            spare_bytes: 1_664,
            pages_per_program: 3,
            spare_words: 1,
        },
        controller: Controller {
            command: Ns::us(3),
            dram_per_unit: Ns(500),
            write_buffer: Bytes(6 * MIB),
            power_loss_protection: true,
            ..Controller::default()
        },
        placement: placements(handles, isolated),
        mapping: Mapping {
            unit: Bytes(4 * KIB),
            cache: Bytes(0),
            cache_holds: CacheHolds::Pages,
        },
        collection: Collection {
            victim: VictimPolicy::Greedy,
            separate: true,
            reserve_lines: 2,
            background_lines: 2,
            batch_lines: 0,
            reads_per_die: 2,
            paced: false,
        },
        wear: Wear {
            dynamic: true,
            static_threshold: 0,
            spare_blocks: 2,
        },
        faults: Faults::default(),
        front: None,
        zones: None,
        raw: None,
    }
}

/// Placement of a generic drive. With pooled spare space the handles would compete for the space
/// that separation gains.
const fn placements(handles: u16, isolated: bool) -> Placements {
    Placements {
        handles,
        reclaim_groups: 1,
        persistently_isolated: isolated,
        spare: match handles {
            1 => SpareSplit::Pooled,
            _ => SpareSplit::ByDemand,
        },
    }
}

/// The generic flash in zones: a zone is a line, 12 MiB at addresses 16 MiB apart. Limits and
/// buffers are those of the ZN540. Without spare flash for garbage collection this flash could hold
/// more; the number of zones is that which holds the 4 GiB of the other drives.
fn zns() -> DriveConfig {
    DriveConfig {
        capacity: Bytes(342 * 12 * MIB),
        zones: Some(ZoneConfig {
            size: Bytes(16 * MIB),
            capacity: Bytes(12 * MIB),
            dies: 16,
            firmware: ZoneFirmware::default(),
            ..ZN540
        }),
        ..generic("zns", Interface::Zoned, 1, false)
    }
}

/// The zones of the ZN540. Size, capacity and the limit of 14 are from the `dissertation`, 3.1; the
/// striping over all dies and the buffer of ten programs are NVMeVirt's. The drive's random write
/// area is left out for want of a source for its size.
//= dissertation 3.1
const ZN540: ZoneConfig = ZoneConfig {
    size: Bytes(2048 * MIB),
    capacity: Bytes(1077 * MIB),
    dies: 32,
    max_open: 14,
    max_active: 14,
    buffer: Bytes(960 * KIB),
    append_limit: Bytes(0),
    conventional: 0,
    read_across: true,
    read_unwritten: Unwritten::Zeros,
    random_write_area: Bytes(0),
    random_write_step: Bytes(0),
    random_write_zones: 0,
    firmware: ZN540_FIRMWARE,
};

/// The firmware of the ZN540, from `nvmebenchmarks`: rows of the 1 TB drive that `validate` counts as
/// fitted. The commit is the mean reset of a finished empty zone, 1.58 ms. The time to unmap is the
/// rest of that of a zone with 275,711 blocks, 15.4 ms. Writes of 4 KiB to eight zones end at
/// 186,000 a second, appends to one zone at 132,000. Writes of 64 KiB to eight zones have 1,210 MB/s.
/// An open takes 9.57 µs and a close 11.0, of which command and host are 7.91 here. The first write of
/// a zone takes 13.6 µs, a later one 11.6.
const ZN540_FIRMWARE: ZoneFirmware = ZoneFirmware {
    open: Ns(1_660),
    close: Ns(3_090),
    first_write: Ns::us(2),
    commit: Ns(1_580_000),
    unmap_per_unit: Ns(50),
    padding: true,
    append: Ns(7_576),
};

/// Limits of the ZN540, from the same rows: reads of 4 KiB at depth 256 end at 437,000 a second.
const ZN540_LIMITS: Limits = Limits {
    read: Ns(2_288),
    write: Ns(5_376),
    program_bytes_per_s: 1_210_000_000,
};

/// The ZN540 as NVMeVirt models it: eight channels at 450 MB/s with four dies each, a program of 96
/// KiB in 561 µs, a read in 50 µs, and 5.6 µs for a write command plus 0.6 µs for each 4 KiB.
/// NVMeVirt charges reads more (13 to 20 µs) and erases nothing; here a command costs the same both
/// ways and an erase takes 3 ms. A zone of 1077 MiB is one block in each of 64 planes. Chosen here:
/// as many zones as hold 4 TB, and 24 spare blocks in each plane.
fn zn540() -> DriveConfig {
    let generic = generic("zn540", Interface::Zoned, 1, false);
    DriveConfig {
        capacity: Bytes(3_543 * 1077 * MIB),
        flash: Flash {
            timing: Some(Timing {
                read: Ns::us(50),
                program: Ns::us(561),
                erase: Ns::ms(3),
                command: Ns(200),
                bus_bytes_per_s: 450_000_000,
                suspend: Ns::us(5),
            }),
            ..generic.flash
        },
        geometry: Geometry {
            channels: 8,
            blocks_per_plane: 3_543 + 24 + 1,
            pages_per_block: 1_077,
            ..generic.geometry
        },
        controller: Controller {
            command: Ns(5_600),
            dram_per_unit: Ns(600),
            limits: ZN540_LIMITS,
            ..generic.controller
        },
        wear: Wear {
            spare_blocks: 24,
            ..generic.wear
        },
        zones: Some(ZN540),
        ..generic
    }
}

/// The smallest ZN540, of 1 TB: 904 zones, as `nvmebenchmarks` states. The rest is that of the
/// largest one, for want of a source on the dies of either; reads in order are those of a product.
fn zn540_1tb() -> DriveConfig {
    let large = zn540();
    DriveConfig {
        name: "zn540-1tb".to_owned(),
        capacity: Bytes(904 * 1077 * MIB),
        geometry: Geometry {
            blocks_per_plane: 904 + 24 + 1,
            ..large.geometry
        },
        flash: Flash {
            page_registers: true,
            ..large.flash
        },
        controller: reading_ahead(large.controller),
        ..large
    }
}

/// The generic flash as an open-channel drive. Its capacity is that of the other drives, so that
/// the host has as much spare flash as their firmware. One program writes all pages of a word line,
/// which are readable as soon as it completes: the host has to cache none. Chosen here: the
/// firmware's time for a command, as in the others, though there is less to do.
fn ocssd() -> DriveConfig {
    open_channel(generic("ocssd", Interface::OpenChannel, 1, false))
}

/// `config` with an open-channel interface that maps and buffers nothing.
fn open_channel(config: DriveConfig) -> DriveConfig {
    DriveConfig {
        geometry: Geometry {
            spare_words: 4,
            ..config.geometry
        },
        raw: Some(RawConfig {
            cached: 0,
            read_unwritten: Unwritten::Error,
        }),
        ..config
    }
}

/// The drive that HyFiM was measured on. From `hyfim` 4, A and Table I: eight channels with two
/// parallel units each, two planes a unit, 1478 blocks a plane, 768 pages a block, pages of 16 KiB,
/// 508 GB to use; from 4, B blocks of 4 KiB. The paper names neither the flash nor any time: with
/// 768 pages a block it is taken to be MLC, which programs one page at a time, with the times and
/// the bus of that part.
//= hyfim 4
fn hyfim_ocssd() -> DriveConfig {
    let generic = generic("hyfim-ocssd", Interface::OpenChannel, 1, false);
    open_channel(DriveConfig {
        capacity: Bytes(508_000_000_000 / 4096 * 4096),
        flash: Flash {
            part: "mlc".to_owned(),
            ..generic.flash
        },
        geometry: Geometry {
            channels: 8,
            chips_per_channel: 2,
            dies_per_chip: 1,
            planes: 2,
            blocks_per_plane: 1_478,
            pages_per_block: 768,
            pages_per_program: 1,
            ..generic.geometry
        },
        ..generic
    })
}

/// The flash behind SkyByte's front of cache lines, which is not part of this preset. From
/// `skybyte` Table II: 16 channels of 8 chips of 8 dies, 128 blocks of 256 pages of 4 KiB, in all
/// 128 GiB; garbage collection starts once 80 % are in use, which leaves 26 of 128 lines, and then
/// collects 19,660 blocks, which are 19 lines. Chosen here: half of the flash for the host, four
/// times as much as any of the workloads takes, so that as much can become free; a write buffer of
/// two pages a die; the order in which dies serve their queues. The front accounts for the costs of
/// commands and DRAM.
//= skybyte 6.1
fn skybyte() -> DriveConfig {
    let generic = generic("skybyte", Interface::Block, 1, false);
    DriveConfig {
        capacity: Bytes(64 * GIB),
        flash: Flash {
            part: "z-nand".to_owned(),
            ..generic.flash
        },
        geometry: Geometry {
            channels: 16,
            chips_per_channel: 8,
            dies_per_chip: 8,
            planes: 1,
            blocks_per_plane: 128,
            pages_per_block: 256,
            page_bytes: 4 * KIB as u32,
            spare_bytes: 128,
            pages_per_program: 1,
            spare_words: 1,
        },
        controller: Controller {
            command: Ns::ZERO,
            dram_per_unit: Ns::ZERO,
            write_buffer: Bytes(8 * MIB),
            ..generic.controller
        },
        collection: Collection {
            background_lines: 24,
            batch_lines: 19,
            ..generic.collection
        },
        wear: Wear {
            spare_blocks: 0,
            ..generic.wear
        },
        ..generic
    }
}

/// [`skybyte`] as its public simulator models it: one queue a channel, served in order, and no time
/// on the bus (1 ns, the shortest possible).
//= skybyte 3.1
fn skybyte_channel() -> DriveConfig {
    let dies = skybyte();
    DriveConfig {
        name: "skybyte-channel".to_owned(),
        flash: Flash {
            timing: Some(Timing {
                read: Ns::us(3),
                program: Ns::us(100),
                erase: Ns::ms(1),
                command: Ns::ZERO,
                bus_bytes_per_s: 4_096_000_000_000,
                suspend: Ns::ZERO,
            }),
            reads_first: false,
            ..dies.flash
        },
        geometry: Geometry {
            chips_per_channel: 1,
            dies_per_chip: 1,
            blocks_per_plane: 8_192,
            ..dies.geometry
        },
        controller: Controller {
            write_buffer: Bytes(128 * KIB),
            ..dies.controller
        },
        collection: Collection {
            // A fifth of all lines, less the reserve.
            background_lines: 1_636,
            batch_lines: 19_660 / 16,
            ..dies.collection
        },
        ..dies
    }
}
