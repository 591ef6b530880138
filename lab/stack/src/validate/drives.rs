//! The preset of a measured drive, scaled to a size that runs in seconds.
//!
//! Invariant: dies, planes, channels, times and the share of spare flash are those of the preset; a
//! zoned drive has fewer zones, each of its full size.

use super::rows::{Document, Experiment, Interface};
use ssd::{DriveConfig, Preset};
use units::{Bytes, GIB};

/// Smallest capacity of a scaled drive.
const CAPACITY: u64 = 4 * GIB;
/// Lines of a scaled drive at least, so that the reserve of its firmware stays a small share.
const LINES: u64 = 320;
/// Relative difference of two capacities that are sold as one.
const SAME: f64 = 0.1;

/// The preset of a drive with published measurements.
pub(super) fn preset(drive: &str) -> Option<&'static Preset> {
    Preset::named(match drive {
        // The measured drive is the smallest one; the older preset is the largest.
        "zn540" => "zn540-1tb",
        other => other,
    })
}

/// The drive of `experiment`, and the factor by which it is smaller than the preset.
///
/// # Errors
/// The reason why the drive is not modelled.
pub(super) fn drive(
    document: &Document,
    experiment: &Experiment,
) -> Result<(DriveConfig, f64), String> {
    if document.interface == Interface::Memory {
        return Err("runs of programs on memory are not set up".to_owned());
    }
    if document.emulated {
        return Err("the drive is itself emulated".to_owned());
    }
    let preset = preset(&document.drive).ok_or("the drive has no preset")?;
    let config = (preset.config)();
    if experiment.without_zones {
        return Err("a namespace without zones beside one with zones is not modelled".to_owned());
    }
    let own = config.capacity.0 as f64 / 1e9;
    let differs = |gb: &f64| (gb / own - 1.0).abs() > SAME;
    if let Some(gb) = experiment.capacity_gb.filter(differs) {
        return Err(format!("measured on {gb} GB, the preset has {own:.0} GB"));
    }
    if config.zones.is_some() {
        return Ok((config, 1.0));
    }
    let mut scaled = small(&config);
    let capacity = scaled.capacity.0;
    let unit = config.mapping.unit.0;
    let used = capacity as f64 * experiment.fill.unwrap_or(1.0).clamp(0.01, 1.0);
    // A drive of which a share is in use has the flash of the whole drive.
    scaled.capacity = Bytes(used as u64 / unit * unit);
    let factor = capacity as f64 / config.capacity.0 as f64;
    Ok((scaled, factor))
}

/// The drive at a size that runs in seconds: a drive of blocks with all its dies, and 4 GiB or so
/// many lines that the reserve of the firmware stays a small share; a zoned drive as it is.
#[must_use]
pub fn small(drive: &DriveConfig) -> DriveConfig {
    if drive.zones.is_some() {
        return drive.clone();
    }
    let geometry = &drive.geometry;
    let row = u64::from(geometry.dies())
        * u64::from(geometry.planes)
        * u64::from(geometry.pages_per_program)
        * u64::from(geometry.page_bytes);
    let capacity = CAPACITY.max(LINES * row).min(drive.capacity.0);
    drive.resized(Bytes(
        capacity / drive.mapping.unit.0 * drive.mapping.unit.0,
    ))
}
