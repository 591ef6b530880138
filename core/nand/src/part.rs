//! Timing of flash parts, as a table with a source for each row.

use serde::{Deserialize, Serialize};
use units::Ns;

/// Times and rates of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Array to page register (tR).
    pub read: Ns,
    /// Page register to array (tPROG), for all pages of one program.
    pub program: Ns,
    /// Erase of a block (tBERS).
    pub erase: Ns,
    /// Command and address cycles of one operation on the bus.
    pub command: Ns,
    /// Bus rate in bytes per second.
    pub bus_bytes_per_s: u64,
    /// Time that one suspension adds to the suspended operation.
    pub suspend: Ns,
}

/// A kind of flash: its cell type, times and endurance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the part in drive files.
    pub name: &'static str,
    /// Number of bits per cell.
    pub bits_per_cell: u32,
    /// Number of pages that one program writes.
    pub pages_per_program: u32,
    /// Times and bus rate of the part.
    pub timing: Timing,
    /// Rated program/erase cycles of a block.
    pub endurance: u32,
    /// Sources of the numbers.
    pub source: &'static str,
}

/// The parts that drive files can name.
pub const PARTS: &[Part] = &[
    Part {
        name: "z-nand",
        bits_per_cell: 1,
        pages_per_program: 1,
        timing: times(3, 100, 1_000, 1_200),
        endurance: 50_000,
        source: "tR, tPROG, tBERS: SkyByte (HPCA 2025) Tables II and IV, ULL; bus: ONFI 4.2 at 1,200 MT/s; endurance: SLC class",
    },
    Part {
        name: "xl-flash",
        bits_per_cell: 1,
        pages_per_program: 1,
        timing: times(4, 75, 850, 1_200),
        endurance: 50_000,
        source: "tR, tPROG, tBERS: SkyByte (HPCA 2025) Table IV, ULL2; bus: ONFI 4.2 at 1,200 MT/s; endurance: SLC class",
    },
    Part {
        name: "slc",
        bits_per_cell: 1,
        pages_per_program: 1,
        timing: times(25, 200, 1_500, 400),
        endurance: 100_000,
        source: "tR, tPROG, tBERS: SkyByte (HPCA 2025) Table IV, SLC; bus: ONFI 3 at 400 MT/s; endurance: usual rating of planar SLC",
    },
    Part {
        name: "mlc",
        bits_per_cell: 2,
        pages_per_program: 1,
        timing: times(50, 600, 3_000, 400),
        endurance: 10_000,
        source: "tR, tPROG, tBERS: SkyByte (HPCA 2025) Table IV, MLC; bus: ONFI 3 at 400 MT/s; endurance: usual rating of enterprise MLC",
    },
    Part {
        name: "tlc",
        bits_per_cell: 3,
        pages_per_program: 3,
        timing: times(50, 561, 3_000, 1_200),
        endurance: 3_000,
        source: "tR, tPROG (one program of three pages): NVMeVirt's model of the ZN540; tBERS: ConfZNS++; bus: ONFI 4.2 at 1,200 MT/s; endurance: usual rating of 3D TLC",
    },
    Part {
        name: "qlc",
        bits_per_cell: 4,
        pages_per_program: 4,
        timing: Timing {
            read: Ns(121_700),
            program: Ns::us(7_440),
            erase: Ns::us(6_340),
            ..times(0, 0, 0, 800)
        },
        endurance: 1_000,
        source: "Chen et al., PACA (ICCD 2022): mean of the four page types' tR; tPROG of four pages at 1.86 ms a page; tBERS and 800 MT/s as in FEMU's table of the same part; endurance: usual rating of 3D QLC",
    },
];

const fn times(read_us: u64, program_us: u64, erase_us: u64, bus_mb: u64) -> Timing {
    Timing {
        read: Ns::us(read_us),
        program: Ns::us(program_us),
        erase: Ns::us(erase_us),
        // Both times are a choice of ours: command and address cycles at the rate of the bus,
        // and the order of magnitude of a suspension in data sheets.
        command: Ns(200),
        bus_bytes_per_s: bus_mb * 1_000_000,
        suspend: Ns::us(5),
    }
}

impl Part {
    /// The part of that name in [`PARTS`].
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PARTS.iter().find(|part| part.name == name)
    }
}
