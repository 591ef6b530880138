//! Presets of large drives, whose mapping unit is larger than 4 KiB.

use super::generic;
use crate::config::{Controller, DriveConfig, Flash, Interface, Mapping, Wear};
use nand::Geometry;
use units::{Bytes, KIB, MIB};

/// A drive like Micron's 6600 ION of 61.44 TB. From `micron-6600`: QLC, the capacity, and ratings
/// of endurance for random writes of 4 and of 16 KiB that differ by a factor of four, so a mapping
/// unit of 16 KiB. The flash is the part `qlc`, whose sources are older than this drive's flash.
/// Chosen here: 16 channels of 16 dies of four planes; blocks of 704 word lines; 1,400 blocks a
/// plane, which are 258 GB a die and 7.65 % over-provisioning; 24 of them spare; a write buffer of
/// one program a die. The rating itself is not used: it is compared with the model's in the book.
//= micron-6600 1
pub(super) fn micron_6600_ion() -> DriveConfig {
    let generic = generic("6600-ion", Interface::Block, 1, false);
    DriveConfig {
        capacity: Bytes(61_440_000_000_000 / (16 * KIB) * (16 * KIB)),
        flash: Flash {
            part: "qlc".to_owned(),
            ..generic.flash
        },
        geometry: Geometry {
            channels: 16,
            chips_per_channel: 4,
            dies_per_chip: 4,
            planes: 4,
            blocks_per_plane: 1_400,
            pages_per_block: 4 * 704,
            pages_per_program: 4,
            ..generic.geometry
        },
        controller: Controller {
            write_buffer: Bytes(64 * MIB),
            ..generic.controller
        },
        mapping: Mapping {
            unit: Bytes(16 * KIB),
            ..generic.mapping
        },
        wear: Wear {
            spare_blocks: 24,
            ..generic.wear
        },
        ..generic
    }
}
