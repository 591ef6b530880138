//! Preconditioned zones: every zone written once, from its start to its capacity.

use super::config::ZoneLayout;
use super::write::word;
use crate::config::ConfigError;
use nand::{BlockId, BlockState, MAX_PLANES, Media, Row};

/// Writes every sequential zone of `media`, which is as it left the factory. Conventional zones
/// stay erased.
///
/// # Errors
/// If there are too many bad blocks for all zones.
pub(crate) fn write_full(layout: &ZoneLayout, media: &mut Media) -> Result<(), ConfigError> {
    let geometry = layout.geometry;
    let columns = (geometry.dies() * geometry.planes) as usize;
    // For each die and plane: the first block that is not taken.
    let mut next = vec![layout.first_block; columns];
    let mut stamp = 1;
    let mut words = Vec::with_capacity(layout.unit as usize);
    for zone in layout.conventional..layout.zones {
        let pieces: Vec<Row> = (0..layout.pieces())
            .map(|piece| take(layout, media, &mut next, layout.die(zone, piece)))
            .collect::<Result<_, _>>()?;
        for unit in 0..layout.units {
            let place = layout.place(unit);
            let (first, end) = (unit * layout.unit, (unit + 1) * layout.unit);
            words.clear();
            words.extend(first..end.min(layout.capacity));
            words.resize(layout.unit as usize, word::PADDING);
            let row = Row {
                page: place.page,
                ..pieces[place.piece as usize]
            };
            let label = word::label(zone, place.piece);
            let program = media.program(row, stamp, label, &words, &[]);
            program.expect("the blocks are erased");
            stamp += 1;
        }
    }
    Ok(())
}

/// Takes the next good block in every plane of `die`.
fn take(
    layout: &ZoneLayout,
    media: &Media,
    next: &mut [u32],
    die: u32,
) -> Result<Row, ConfigError> {
    let geometry = layout.geometry;
    let mut row = Row {
        die,
        page: 0,
        blocks: [0; MAX_PLANES],
        planes: ((1_u32 << geometry.planes) - 1) as u8,
    };
    for plane in 0..geometry.planes {
        let next = &mut next[(die * geometry.planes + plane) as usize];
        let mut rest = *next..geometry.blocks_per_plane;
        let good = |&block: &u32| media.state(BlockId { die, plane, block }) != BlockState::Bad;
        let block = rest.find(good).ok_or(ConfigError::BadBlocks {
            good: geometry.blocks_per_plane - layout.first_block,
            need: layout.sequential().div_ceil(layout.groups) * layout.depth,
        })?;
        row.blocks[plane as usize] = block;
        *next = block + 1;
    }
    Ok(row)
}
