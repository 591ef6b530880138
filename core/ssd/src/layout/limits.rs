//! Largest drives: limits that follow from the width of addresses.

use super::Layout;
use crate::config::{ConfigError, DriveConfig};
use crate::map::{MAX_PLACES, MAX_SLOTS};
use nand::{Geometry, UNIT};
use units::Bytes;

/// Mapped pages of the host. Fails unless they are whole and can be named.
pub(super) fn host_pages(config: &DriveConfig, page_bytes: u64) -> Result<u32, ConfigError> {
    let capacity = config.capacity;
    let pages = capacity.0 / page_bytes;
    if pages == 0 || !capacity.0.is_multiple_of(page_bytes) {
        let expected =
            format!("a multiple of the mapping unit ({page_bytes} bytes), such as 64MiB,");
        return Err(ConfigError::range("capacity", capacity.0, expected));
    }
    if pages > u64::from(MAX_PLACES) {
        let most = Bytes(u64::from(MAX_PLACES) * page_bytes);
        let expected = with_larger_unit(config, most, capacity.0);
        return Err(ConfigError::range("capacity", capacity, expected));
    }
    let named = Bytes(Geometry::NAMED_SECTORS * UNIT as u64);
    if config.front.is_some() && capacity.0 > named.0 {
        let expected = format!("at most {named} on a drive with a front");
        return Err(ConfigError::range("capacity", capacity, expected));
    }
    Ok(pages as u32)
}

/// Checks that every mapped page of the flash in lines can be named.
pub(super) fn check_places(
    config: &DriveConfig,
    lines_per_group: u32,
    page_bytes: u64,
) -> Result<(), ConfigError> {
    let geometry = &config.geometry;
    let line = geometry.bytes() / u64::from(geometry.blocks_per_plane);
    let raw = line * u64::from(lines_per_group);
    if raw / page_bytes <= u64::from(MAX_PLACES) {
        return Ok(());
    }
    let lines = u64::from(MAX_PLACES) * page_bytes / line;
    let most = lines + u64::from(config.wear.spare_blocks);
    let knob = "geometry.blocks_per_plane";
    let expected = with_larger_unit(config, most, raw);
    Err(ConfigError::range(
        knob,
        geometry.blocks_per_plane,
        expected,
    ))
}

/// Expectation of at most `most`, with the mapping unit that suffices for `bytes` of flash if a
/// page of this flash holds it.
fn with_larger_unit(config: &DriveConfig, most: impl std::fmt::Display, bytes: u64) -> String {
    let unit = config.mapping.unit;
    // An eighth for over-provisioning.
    let need = (u128::from(bytes) * 9 / 8).div_ceil(u128::from(MAX_PLACES));
    let need = need.next_power_of_two();
    if need > u128::from(config.geometry.page_bytes) {
        return format!("at most {most} with mapping.unit at {unit}");
    }
    let larger = Bytes(need as u64);
    format!("at most {most} with mapping.unit at {unit}, or a mapping.unit of {larger},")
}

/// Checks that the map can name every slot that may be in use: those of the host's write buffer, of
/// collection's windows, and of translation pages.
pub(super) fn check_slots(layout: &Layout, config: &DriveConfig) -> Result<(), ConfigError> {
    let reads = config.collection.reads_per_die.max(1);
    let copies = [layout.dies_per_group, reads].map(u64::from);
    let copies = copies
        .iter()
        .fold(u64::from(layout.unit), |product, count| {
            product.saturating_mul(*count)
        });
    // One frontier of each group may take hot data, and one is the journal's.
    let frontiers = layout.journal_frontier(config) as u64 + 1 + u64::from(layout.groups);
    let leftovers = (frontiers + 1) * u64::from(layout.unit);
    let windows = u64::from(layout.groups).saturating_mul(copies.max(leftovers));
    let beside = windows.saturating_add(u64::from(layout.map_pages));
    let slots = beside.saturating_add(u64::from(layout.buffer_pages));
    if slots <= u64::from(MAX_SLOTS) {
        return Ok(());
    }
    let left = u64::from(MAX_SLOTS).saturating_sub(beside);
    if left == 0 {
        let expected = format!("few enough that collection holds at most {MAX_SLOTS} pages");
        return Err(ConfigError::range(
            "collection.reads_per_die",
            reads,
            expected,
        ));
    }
    let (buffer, most) = (
        config.controller.write_buffer,
        Bytes(left * layout.page_bytes()),
    );
    let expected = format!("at most {most}");
    Err(ConfigError::range(
        "controller.write_buffer",
        buffer,
        expected,
    ))
}

/// The geometry of a drive of a `kind` whose tables hold numbers of sectors.
///
/// # Errors
/// If it is impossible or has more sectors than such tables name.
pub(crate) fn few_sectors(config: &DriveConfig, kind: &str) -> Result<Geometry, ConfigError> {
    let geometry = config.geometry.checked()?;
    let bytes = Bytes(geometry.bytes());
    let most = Bytes(Geometry::NAMED_SECTORS * UNIT as u64);
    if bytes.0 <= most.0 {
        return Ok(geometry);
    }
    let knob = "geometry.blocks_per_plane";
    let expected = format!("{most} of flash at most (this is {bytes}) on {kind}");
    Err(ConfigError::range(
        knob,
        geometry.blocks_per_plane,
        expected,
    ))
}
