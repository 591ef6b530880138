//! Drives by name, and drive files: a preset with overrides.
//!
//! ```toml
//! preset = "fdp"
//! capacity = "1GiB"
//!
//! [placement]
//! handles = 4
//! ```
//!
//! Invariants: a resolved drive can be built; a file may set the fields of [`DriveConfig`] and
//! nothing else. A file that sets the capacity and no geometry gets the preset's flash scaled in
//! proportion.

use crate::error::StackError;
use input::document::{DocumentError, Leaf, Source, overlaid};
use ssd::{DriveConfig, Layout, PRESETS, Preset};
use std::path::Path;
use toml::Table;
use units::Bytes;

/// Names of the presets, for error messages.
pub(crate) fn known() -> String {
    let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
    names.join(", ")
}

/// Resolves `text`, a preset or a path to a drive file; `size` overrides the host's capacity.
///
/// # Errors
/// With the file, the line and what was expected there.
pub fn resolve(text: &str, size: Option<Bytes>) -> Result<DriveConfig, StackError> {
    let config = match Preset::named(text) {
        Some(preset) => (preset.config)(),
        None if Path::new(text).is_file() => {
            let source = Source::read(text)?;
            let name = Path::new(text).file_stem();
            let name = name.map_or_else(|| text.to_owned(), |s| s.to_string_lossy().into_owned());
            from_leaves(&source, source.leaves()?, Some(name))?
        }
        None => return Err(StackError::Drive(text.to_owned())),
    };
    match size {
        Some(size) => checked(text, config.resized(size)),
        None => Ok(config),
    }
}

/// Returns `config` if it can be built; errors call it `name`.
pub(crate) fn checked(name: &str, config: DriveConfig) -> Result<DriveConfig, StackError> {
    let sound = || {
        Layout::new(&config)?;
        config.timing()?;
        config.endurance()
    };
    match sound() {
        Ok(_) => Ok(config),
        Err(source) => Err(StackError::Config {
            drive: name.to_owned(),
            source,
        }),
    }
}

/// The drive that the `leaves` of a drive file describe; without `name` it has that of its preset.
pub(crate) fn from_leaves(
    source: &Source,
    mut leaves: Vec<Leaf>,
    name: Option<String>,
) -> Result<DriveConfig, StackError> {
    let preset = take_preset(source, &mut leaves)?;
    let mut base = (preset.config)();
    base.name = name.unwrap_or(base.name);
    let shaped = leaves.iter().any(|leaf| leaf.path[0] == "geometry");
    let capacity = leaves.iter().position(|leaf| leaf.path == ["capacity"]);
    let capacity = capacity.filter(|_| !shaped).map(|at| leaves.remove(at));
    let mut table = table_of(source, &base, &leaves)?;
    let mut config = base;
    for leaf in &leaves {
        config = lay(source, &mut table, leaf)?;
    }
    let Some(leaf) = capacity else {
        return checked(&source.file, config);
    };
    let unsized_config = checked(&source.file, config)?;
    let wanted = lay(source, &mut table, &leaf)?.capacity;
    checked(&source.file, unsized_config.resized(wanted))
}

fn lay(source: &Source, table: &mut Table, leaf: &Leaf) -> Result<DriveConfig, DocumentError> {
    overlaid(table, &leaf.path, leaf.value.clone())
        .map_err(|problem| source.error(leaf.span.start, problem))
}

fn take_preset(source: &Source, leaves: &mut Vec<Leaf>) -> Result<&'static Preset, DocumentError> {
    let wanted = || format!("preset: expected one of {}", known());
    let Some(at) = leaves.iter().position(|leaf| leaf.path == ["preset"]) else {
        return Err(source.error(0, format!("{}, found none", wanted())));
    };
    let leaf = leaves.remove(at);
    let named = leaf.value.as_str().and_then(Preset::named);
    named.ok_or_else(|| {
        let problem = format!("{}, found {}", wanted(), leaf.value);
        source.error(leaf.span.start, problem)
    })
}

/// The preset as TOML. The times of its flash part are filled in, so that a file may override one
/// of them.
fn table_of(source: &Source, base: &DriveConfig, leaves: &[Leaf]) -> Result<Table, StackError> {
    let mut base = base.clone();
    let said = |path: [&str; 2]| leaves.iter().find(|leaf| leaf.path == path);
    if let Some(part) = said(["flash", "part"]).and_then(|leaf| leaf.value.as_str()) {
        base.flash.part = part.to_owned();
    }
    let timed = |leaf: &Leaf| leaf.path.len() > 2 && leaf.path[..2] == ["flash", "timing"];
    if leaves.iter().any(timed) {
        let at = said(["flash", "part"]).map_or(0, |leaf| leaf.span.start);
        let timing = base.timing();
        base.flash.timing = Some(timing.map_err(|e| source.error(at, e.to_string()))?);
    }
    Ok(as_table(&base))
}

/// `config` in the full form of a drive file.
pub(crate) fn as_table(config: &DriveConfig) -> Table {
    Table::try_from(config).expect("a configuration is a table of numbers and words")
}
