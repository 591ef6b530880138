//! Geometry of the flash, and addresses in it.
//!
//! Invariants of a checked [`Geometry`]: every count is at least one, a page is
//! a whole number of sectors, a block a whole number of programs. Dies are
//! numbered channel first: die d is on channel d mod channels.

use crate::media::NandError;
use crate::payload::UNIT;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum number of planes per die.
pub const MAX_PLANES: usize = 8;

/// Numbers and sizes of the parts of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Number of channels, which are independent buses.
    pub channels: u32,
    /// Number of packages per channel.
    pub chips_per_channel: u32,
    /// Number of dies per package.
    pub dies_per_chip: u32,
    /// Number of planes per die, which work together in a multi-plane operation.
    pub planes: u32,
    /// Number of erase blocks per plane.
    pub blocks_per_plane: u32,
    /// Number of pages per block.
    pub pages_per_block: u32,
    /// Bytes per page, without the spare area.
    pub page_bytes: u32,
    /// Bytes of a page's spare area: the firmware's words and the error-correcting code.
    pub spare_bytes: u32,
    /// Number of pages that one program writes at once (three on TLC).
    pub pages_per_program: u32,
    /// Number of 32-bit words in the spare area per sector. Firmware with its own mapping
    /// needs one; four are the 16 bytes of metadata that a drive offers to the host.
    #[serde(default = "one_word", skip_serializing_if = "is_one_word")]
    pub spare_words: u32,
}

fn one_word() -> u32 {
    1
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_one_word(words: &u32) -> bool {
    *words == one_word()
}

/// The error for an impossible geometry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The count of that name is zero.
    #[error("geometry: {0} is 0; at least 1 is needed")]
    Zero(&'static str),
    /// More than [`MAX_PLANES`] planes.
    #[error("geometry: planes is {0}; at most {MAX_PLANES} are supported")]
    Planes(u32),
    /// The page is not a whole number of sectors.
    #[error("geometry: page_bytes is {0}; a multiple of {UNIT} is needed")]
    Page(u32),
    /// The block is not a whole number of programs.
    #[error(
        "geometry: pages_per_block is {pages}; a multiple of pages_per_program ({step}) is needed"
    )]
    Block {
        /// Configured pages per block.
        pages: u32,
        /// Configured pages per program.
        step: u32,
    },
    /// More words per sector than [`Geometry::MAX_WORDS`].
    #[error("geometry: spare_words is {0}; at most {max} are supported", max = Geometry::MAX_WORDS)]
    Words(u32),
    /// The spare area cannot hold the firmware's words.
    #[error("geometry: spare_bytes is {have}; {need} are needed for the firmware's own words")]
    Spare {
        /// Configured bytes per spare area.
        have: u32,
        /// Required bytes: eight for the stamp, and four for each word of each sector.
        need: u32,
    },
    /// More sectors than [`Geometry::MAX_SECTORS`].
    #[error("geometry: {0} sectors of 4 KiB; at most {max} (256 TiB) are supported", max = Geometry::MAX_SECTORS)]
    TooLarge(u128),
    /// More erase blocks than [`Geometry::MAX_BLOCKS`].
    #[error("geometry: {0} erase blocks; at most {max} are supported", max = Geometry::MAX_BLOCKS)]
    Blocks(u128),
    /// A block in all planes of a die has more sectors than [`Geometry::MAX_ROW_SECTORS`].
    #[error(
        "geometry: {0} sectors of 4 KiB in a block of all planes; at most {max} are supported",
        max = Geometry::MAX_ROW_SECTORS
    )]
    RowSectors(u128),
}

/// The address of an erase block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockId {
    /// Number of the die, below [`Geometry::dies`].
    pub die: u32,
    /// Number of the plane in the die.
    pub plane: u32,
    /// Number of the block in the plane.
    pub block: u32,
}

/// The target of a multi-plane operation: the same page of one block in each
/// participating plane of a die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Number of the die, below [`Geometry::dies`].
    pub die: u32,
    /// Page number in each block; the first page of an operation on several pages.
    pub page: u32,
    /// Block number by plane; ignored for planes that take no part.
    pub blocks: [u32; MAX_PLANES],
    /// Bit p is set if plane p takes part.
    pub planes: u8,
}

impl Row {
    /// The row of one page of one block.
    #[must_use]
    pub fn single(block: BlockId, page: u32) -> Self {
        let mut blocks = [0; MAX_PLANES];
        blocks[block.plane as usize] = block.block;
        Self {
            die: block.die,
            page,
            blocks,
            planes: 1 << block.plane,
        }
    }

    /// Whether all pages of `other` are pages of this row.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let same = |block: BlockId| self.blocks[block.plane as usize] == block.block;
        self.planes & other.planes == other.planes
            && (self.die, self.page) == (other.die, other.page)
            && other.blocks().all(same)
    }

    /// The blocks of the participating planes, in the order of planes.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + use<> {
        let mut row = *self;
        std::iter::from_fn(move || {
            let plane = row.planes.trailing_zeros();
            row.planes &= row.planes.wrapping_sub(1);
            Some(BlockId {
                die: row.die,
                plane,
                block: *row.blocks.get(plane as usize)?,
            })
        })
    }
}

impl Geometry {
    /// Maximum number of sectors of 4 KiB. Products over the whole flash are of 64 bits; blocks,
    /// and sectors within a block, are counted in 32 bits and have limits of their own.
    pub const MAX_SECTORS: u64 = 1 << 36;

    /// Maximum number of erase blocks, whose indices take 32 bits.
    pub const MAX_BLOCKS: u64 = 1 << 31;

    /// Maximum number of sectors in one block of each plane of a die.
    pub const MAX_ROW_SECTORS: u64 = 1 << 31;

    /// Number of sectors that 31 bits can name (8 TiB): the limit of zoned and open-channel
    /// drives, whose tables hold numbers of sectors.
    pub const NAMED_SECTORS: u64 = 1 << 31;

    /// Maximum number of spare words per sector: 64 bytes, the maximum of drives that format
    /// their blocks with metadata.
    pub const MAX_WORDS: u32 = 16;

    /// Returns the geometry itself if it is possible.
    ///
    /// # Errors
    /// Names the first impossible count.
    pub fn checked(self) -> Result<Self, GeometryError> {
        for (count, name) in self.counts() {
            if count == 0 {
                return Err(GeometryError::Zero(name));
            }
        }
        if self.planes as usize > MAX_PLANES {
            return Err(GeometryError::Planes(self.planes));
        }
        if !(self.page_bytes as usize).is_multiple_of(UNIT) {
            return Err(GeometryError::Page(self.page_bytes));
        }
        if !self.pages_per_block.is_multiple_of(self.pages_per_program) {
            return Err(GeometryError::Block {
                pages: self.pages_per_block,
                step: self.pages_per_program,
            });
        }
        if self.spare_words > Self::MAX_WORDS {
            return Err(GeometryError::Words(self.spare_words));
        }
        self.check_spare()?;
        self.check_size()?;
        Ok(self)
    }

    fn check_size(&self) -> Result<(), GeometryError> {
        let blocks = self.counts()[..5].iter().fold(1_u128, |product, count| {
            product.saturating_mul(u128::from(count.0))
        });
        let per_block = u128::from(self.pages_per_block) * u128::from(self.sectors_per_page());
        let sectors = blocks.saturating_mul(per_block);
        if sectors > u128::from(Self::MAX_SECTORS) {
            return Err(GeometryError::TooLarge(sectors));
        }
        if blocks > u128::from(Self::MAX_BLOCKS) {
            return Err(GeometryError::Blocks(blocks));
        }
        let per_row = u128::from(self.planes) * per_block;
        if per_row > u128::from(Self::MAX_ROW_SECTORS) {
            return Err(GeometryError::RowSectors(per_row));
        }
        Ok(())
    }

    fn counts(&self) -> [(u32, &'static str); 9] {
        [
            (self.channels, "channels"),
            (self.chips_per_channel, "chips_per_channel"),
            (self.dies_per_chip, "dies_per_chip"),
            (self.planes, "planes"),
            (self.blocks_per_plane, "blocks_per_plane"),
            (self.pages_per_block, "pages_per_block"),
            (self.page_bytes, "page_bytes"),
            (self.pages_per_program, "pages_per_program"),
            (self.spare_words, "spare_words"),
        ]
    }

    fn check_spare(&self) -> Result<(), GeometryError> {
        let words = u64::from(self.spare_words) * u64::from(self.sectors_per_page());
        let need = u32::try_from(8 + 4 * words).unwrap_or(u32::MAX);
        if self.spare_bytes < need {
            return Err(GeometryError::Spare {
                have: self.spare_bytes,
                need,
            });
        }
        Ok(())
    }

    /// Total number of dies.
    #[must_use]
    pub const fn dies(&self) -> u32 {
        self.channels * self.chips_per_channel * self.dies_per_chip
    }

    /// Number of the channel of `die`.
    #[inline]
    #[must_use]
    pub const fn channel(&self, die: u32) -> u32 {
        die % self.channels
    }

    /// Number of sectors of 4 KiB per page.
    #[must_use]
    pub const fn sectors_per_page(&self) -> u32 {
        self.page_bytes / UNIT as u32
    }

    /// Number of spare words per page.
    #[must_use]
    pub const fn words_per_page(&self) -> u32 {
        self.sectors_per_page() * self.spare_words
    }

    /// Number of sectors per block.
    #[must_use]
    pub const fn sectors_per_block(&self) -> u32 {
        self.pages_per_block * self.sectors_per_page()
    }

    /// Number of sectors that a program in all planes of a die writes.
    #[must_use]
    pub const fn sectors_per_program(&self) -> u32 {
        self.planes * self.pages_per_program * self.sectors_per_page()
    }

    /// Total number of erase blocks.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.dies() as u64 * self.planes as u64 * self.blocks_per_plane as u64
    }

    /// Total number of bytes, without spare areas.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.blocks() * self.pages_per_block as u64 * self.page_bytes as u64
    }

    /// Rejects a row outside this flash with [`NandError::NoSuchRow`].
    #[inline]
    pub(crate) fn check(&self, row: &Row) -> Result<(), NandError> {
        let fits = row.die < self.dies()
            && row.page < self.pages_per_block
            && row.planes != 0
            && u32::from(row.planes) >> self.planes == 0
            && row.blocks().all(|id| id.block < self.blocks_per_plane);
        if fits {
            Ok(())
        } else {
            Err(NandError::NoSuchRow {
                die: row.die,
                page: row.page,
                planes: row.planes,
            })
        }
    }

    /// Index of a block among all blocks, in order of die, plane and block number.
    #[inline]
    #[must_use]
    pub const fn index(&self, block: BlockId) -> usize {
        let plane = block.die * self.planes + block.plane;
        plane as usize * self.blocks_per_plane as usize + block.block as usize
    }

    /// The block with that [`Self::index`].
    #[must_use]
    pub const fn block_at(&self, index: usize) -> BlockId {
        let (plane, block) = (
            index / self.blocks_per_plane as usize,
            index % self.blocks_per_plane as usize,
        );
        BlockId {
            die: plane as u32 / self.planes,
            plane: plane as u32 % self.planes,
            block: block as u32,
        }
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ch × {} dies × {} planes × {} blocks × {} pages × {} KiB",
            self.channels,
            self.chips_per_channel * self.dies_per_chip,
            self.planes,
            self.blocks_per_plane,
            self.pages_per_block,
            self.page_bytes / 1024
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Geometry = Geometry {
        channels: 4,
        chips_per_channel: 2,
        dies_per_chip: 2,
        planes: 2,
        blocks_per_plane: 10,
        pages_per_block: 48,
        page_bytes: 16_384,
        spare_bytes: 1_664,
        pages_per_program: 3,
        spare_words: 1,
    };

    #[test]
    fn a_good_geometry_counts_up() {
        let g = GOOD.checked().unwrap();
        assert_eq!(g.dies(), 16);
        assert_eq!(g.sectors_per_program(), 24);
        assert_eq!(g.bytes(), 16 * 2 * 10 * 48 * 16_384);
        let last = BlockId {
            die: 15,
            plane: 1,
            block: 9,
        };
        assert_eq!(g.index(last) as u64, g.blocks() - 1);
        for index in 0..g.blocks() as usize {
            assert_eq!(g.index(g.block_at(index)), index);
        }
    }

    #[test]
    fn impossible_geometries_say_which_count() {
        let says = |g: Geometry| g.checked().unwrap_err().to_string();
        assert!(
            says(Geometry {
                channels: 0,
                ..GOOD
            })
            .contains("channels is 0")
        );
        assert!(says(Geometry { planes: 9, ..GOOD }).contains("at most 8"));
        assert!(
            says(Geometry {
                page_bytes: 5000,
                ..GOOD
            })
            .contains("multiple of 4096")
        );
        assert!(
            says(Geometry {
                pages_per_block: 50,
                ..GOOD
            })
            .contains("pages_per_program (3)")
        );
        assert!(
            says(Geometry {
                spare_bytes: 16,
                ..GOOD
            })
            .contains("24 are needed")
        );
        let huge = Geometry {
            channels: u32::MAX,
            blocks_per_plane: u32::MAX,
            ..GOOD
        };
        assert!(says(huge).contains("256 TiB"));
        let thin = Geometry {
            blocks_per_plane: 1 << 27,
            pages_per_block: 1,
            pages_per_program: 1,
            page_bytes: 4_096,
            ..GOOD
        };
        assert!(says(thin).contains("4294967296 erase blocks"));
        let deep = Geometry {
            channels: 1,
            chips_per_channel: 1,
            dies_per_chip: 1,
            blocks_per_plane: 1,
            pages_per_block: 3 << 28,
            ..GOOD
        };
        assert!(says(deep).contains("in a block of all planes"));
    }

    #[test]
    fn largest_geometry_counts_in_64_bits() {
        let largest = Geometry {
            channels: 32,
            chips_per_channel: 4,
            dies_per_chip: 16,
            planes: 4,
            blocks_per_plane: 1 << 10,
            pages_per_block: 1 << 11,
            pages_per_program: 4,
            ..GOOD
        };
        let largest = largest.checked().unwrap();
        assert_eq!(largest.bytes(), 1 << 48, "256 TiB");
        let last = (largest.blocks() - 1) as usize;
        assert_eq!(largest.index(largest.block_at(last)), last);
    }
}
