//! `SETTING=VALUE` assignments to the drive, the host and its page cache.
//!
//! Invariant: every assignment belongs to exactly one of the three. `battery=all|log|none` stands
//! for the settings of a drive that say which of its DRAM survives a power cut.

use crate::error::StackError;
use host::HostConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ssd::DriveConfig;
use vfs::CacheConfig;

/// Prefixes of knobs outside the drive, named like the sections of a plan file.
const HOST: &str = "host.";
const PAGE_CACHE: &str = "page_cache.";
/// The setting that stands for all settings of a drive's battery.
const BATTERY: &str = "battery=";

/// Whether an assignment sets a knob of the drive.
#[must_use]
pub fn are_of_drive(assignment: &str) -> bool {
    of_host(assignment).is_none() && of_page_cache(assignment).is_none()
}

fn of_drive(assignment: &str) -> Option<&str> {
    are_of_drive(assignment).then_some(assignment)
}

fn of_host(assignment: &str) -> Option<&str> {
    assignment.strip_prefix(HOST)
}

fn of_page_cache(assignment: &str) -> Option<&str> {
    assignment.strip_prefix(PAGE_CACHE)
}

/// `config` with the assignments of `set` that belong to the drive.
///
/// # Errors
/// With the assignment, and what was expected of it.
pub fn drive(config: DriveConfig, set: &[String]) -> Result<DriveConfig, StackError> {
    let known = "expected a setting that flashloom drives block lists, such as collection.victim";
    if !set.iter().any(|assignment| are_of_drive(assignment)) {
        return Ok(config);
    }
    let set = &with_batteries(&config, set)?;
    let mut given: DriveConfig = laid(&config, set, of_drive, known)?;
    let refused = StackError::Knobs;
    let conventional = |config: &DriveConfig| config.zones.map_or(0, |zones| zones.conventional);
    let shapes = |set: &String| set.starts_with("capacity=") || set.starts_with("geometry.");
    if conventional(&given) != conventional(&config) && !set.iter().any(shapes) {
        let base = config.with_conventional(conventional(&given));
        let base = base.map_err(refused)?;
        given = laid(&base, set, of_drive, known)?;
    }
    let config = given;
    ssd::Layout::new(&config).map_err(refused)?;
    config.timing().map_err(refused)?;
    config.endurance().map_err(refused)?;
    Ok(config)
}

/// `set` with each `battery=…` as assignments to settings of `config`: the part of the front that a
/// battery keeps, if the drive has one, and the protection of the write buffer, which only a battery
/// for everything provides.
fn with_batteries(config: &DriveConfig, set: &[String]) -> Result<Vec<String>, StackError> {
    let mut expanded = Vec::new();
    for assignment in set {
        let Some(kept) = assignment.strip_prefix(BATTERY) else {
            expanded.push(assignment.clone());
            continue;
        };
        if !["all", "log", "none"].contains(&kept) {
            return Err(StackError::Knob {
                assignment: assignment.clone(),
                reason: "expected battery=all, battery=log or battery=none".to_owned(),
            });
        }
        if config.front.is_some() {
            expanded.push(format!("front.battery={kept}"));
        }
        let protects = kept == "all";
        expanded.push(format!("controller.power_loss_protection={protects}"));
    }
    Ok(expanded)
}

/// The default host with the assignments of `set` that belong to it.
///
/// # Errors
/// The errors of [`drive()`].
pub fn host(set: &[String]) -> Result<HostConfig, StackError> {
    let known = "expected a setting that flashloom stacks lists, such as host.cpu.cores";
    let config: HostConfig = laid(&HostConfig::default(), set, of_host, known)?;
    Ok(config.checked()?)
}

/// The default page cache with the assignments of `set` that belong to it.
///
/// # Errors
/// The errors of [`drive()`].
pub fn page_cache(set: &[String]) -> Result<CacheConfig, StackError> {
    let known = "expected a setting that flashloom stacks lists, such as page_cache.memory";
    let config: CacheConfig = laid(&CacheConfig::default(), set, of_page_cache, known)?;
    Ok(config.checked()?)
}

/// All knobs outside the drive with their defaults, one line each.
#[must_use]
pub fn outside_drives() -> String {
    listed(HOST, &HostConfig::default()) + &listed(PAGE_CACHE, &CacheConfig::default())
}

/// The knobs of `config`, one line each, with names that begin with `part`.
fn listed(part: &str, config: &impl Serialize) -> String {
    let mut lines = String::new();
    list(part, &as_value(config), &mut lines);
    lines
}

fn as_value(config: &impl Serialize) -> toml::Value {
    toml::Value::try_from(config).expect("a configuration is a table of numbers and words")
}

fn list(name: &str, value: &toml::Value, lines: &mut String) {
    let Some(table) = value.as_table() else {
        *lines += &format!("  {}={value}\n", name.trim_end_matches('.'));
        return;
    };
    for (key, value) in table {
        list(&format!("{name}{key}."), value, lines);
    }
}

/// `base` with all assignments of `set` for which `own` returns `SETTING=VALUE`.
fn laid<T: Serialize + DeserializeOwned>(
    base: &T,
    set: &[String],
    own: fn(&str) -> Option<&str>,
    known: &str,
) -> Result<T, StackError> {
    let mut table = as_value(base);
    for assignment in set {
        let Some(text) = own(assignment) else {
            continue;
        };
        let refuse = |reason: &str| StackError::Knob {
            assignment: assignment.clone(),
            reason: reason.to_owned(),
        };
        let split = text.split_once('=');
        let (knob, value) = split.ok_or_else(|| refuse("expected SETTING=VALUE"))?;
        let mut path = knob.split('.');
        // A setting that is off may be left out of the table of its drive.
        let mut is_left_out = false;
        let place = path.try_fold(&mut table, |at, key| {
            let at = at.as_table_mut()?;
            is_left_out |= !at.contains_key(key);
            let nothing = || toml::Value::Table(toml::Table::new());
            Some(at.entry(key).or_insert_with(nothing))
        });
        *place.ok_or_else(|| refuse(known))? = valued(value);
        T::deserialize(table.clone()).map_err(|e| match is_left_out {
            true => refuse(known),
            false => refuse(e.message()),
        })?;
    }
    Ok(T::deserialize(table).expect("each assignment was accepted"))
}

/// `text` as a TOML value, or as a string if it is none.
fn valued(text: &str) -> toml::Value {
    let word = || toml::Value::String(text.to_owned());
    text.parse().unwrap_or_else(|_| word())
}
