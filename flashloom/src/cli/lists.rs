//! Lists of available names: stacks, drives, workloads.

use super::Answer;
use super::output::Shown;
use clap::Args;
use clap::builder::PossibleValuesParser;
use input::named::{Preset, Unit};
use report::table::{Side, facts, listing};
use report::{Style, human};
use serde::Serialize;
use ssd::DriveConfig;
use stack::knobs;
use std::collections::BTreeSet;
use workload::shipped::{self, Shipped};

/// List all stacks, layers and host settings
#[derive(Args)]
pub(crate) struct Stacks {
    #[command(flatten)]
    shown: Shown,
}

/// Name and description of a list entry.
#[derive(Serialize)]
struct Named {
    name: &'static str,
    help: &'static str,
}

/// JSON document of `stacks`.
#[derive(Serialize)]
struct StackList {
    stacks: Vec<Named>,
}

impl Stacks {
    pub(crate) fn run(&self) -> Answer {
        let named = stack::STACKS.iter().map(|s| Named {
            name: s.name,
            help: s.help,
        });
        let list = StackList {
            stacks: named.collect(),
        };
        let knobs = knobs::outside_drives();
        self.shown.answer("flashloom.stacks/1", &list, |style| {
            let row = |s: &Named| vec![s.name.to_owned(), s.help.to_owned()];
            let rows: Vec<_> = list.stacks.iter().map(row).collect();
            let columns = [("stack", Side::Left), ("description", Side::Left)];
            listing(&columns, &rows, style)
                + "\nLayers below raw, ext4, btrfs, btrfs-nocow and f2fs, as in ext4+remap@block:\n"
                + &layers(style)
                + "\nRun one: flashloom run raw@fdp --workload hotcold\n\
                   \nSettings of the host and of the page cache of its file systems, for --set and, without\n\
                   their first word, for the sections [host] and [page_cache] of a plan file.\n\
                   Sizes are in bytes and times in nanoseconds; 256MiB and 5ms are accepted as well:\n"
                + &knobs
        })
    }
}

/// Lists the switches that give a stack a layer.
fn layers(style: Style) -> String {
    let row = |&(name, help): &(&str, &str)| vec![format!("+{name}"), help.to_owned()];
    let rows: Vec<_> = stack::LAYERS.iter().map(row).collect();
    listing(
        &[("switch", Side::Left), ("description", Side::Left)],
        &rows,
        style,
    )
}

/// List drive presets, or print all settings of one
#[derive(Args)]
pub(crate) struct Drives {
    /// Preset to print as a TOML drive description
    #[arg(value_parser = PossibleValuesParser::new(ssd::PRESETS.iter().map(|p| p.name)), hide_possible_values = true)]
    name: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

/// Drive preset and its settings.
#[derive(Serialize)]
struct DriveEntry {
    name: &'static str,
    help: &'static str,
    config: DriveConfig,
}

/// JSON document of `drives`.
#[derive(Serialize)]
struct DriveList {
    drives: Vec<DriveEntry>,
}

impl Drives {
    pub(crate) fn run(&self) -> Answer {
        let wanted = |p: &&ssd::Preset| self.name.as_ref().is_none_or(|name| name == p.name);
        let drives = ssd::PRESETS.iter().filter(wanted).map(|p| DriveEntry {
            name: p.name,
            help: p.help,
            config: (p.config)(),
        });
        let list = DriveList {
            drives: drives.collect(),
        };
        let file = drive_file(&list.drives[0])?;
        self.shown
            .answer("flashloom.drives/1", &list, |style| match self.name {
                Some(_) => file.clone(),
                None => drive_table(&list.drives, style),
            })
    }
}

/// Header of a drive file: notation of numbers, and settings that are not listed.
const OF_KNOBS: &str = "\
# Sizes are in bytes and times in nanoseconds; 256MiB and 5ms are accepted as well. Not listed
# are settings that replace others or are usually unset: flash.timing, flash.endurance,
# flash.page_registers, geometry.spare_words, controller.read_ahead, controller.read_streams,
# controller.limits, collection.batch_lines, collection.paced, mapping.cache_holds,
# placement.spare, front.battery.
";

/// The drive file that makes this drive: its preset, and its settings with their values.
fn drive_file(drive: &DriveEntry) -> Result<String, toml::ser::Error> {
    settings(&format!("# {}\n", drive.help), drive.name, &drive.config)
}

/// A drive file with all settings of `drive` over `preset`, after `head`.
pub(super) fn settings(
    head: &str,
    preset: &str,
    drive: &DriveConfig,
) -> Result<String, toml::ser::Error> {
    let knobs = toml::to_string_pretty(drive)?;
    // A drive takes its name from its file.
    let knobs = knobs.lines().filter(|line| !line.starts_with("name = "));
    let mut file = format!("{head}{OF_KNOBS}preset = \"{preset}\"\n");
    for line in knobs {
        file += line;
        file.push('\n');
    }
    Ok(file)
}

fn drive_table(drives: &[DriveEntry], style: Style) -> String {
    let row = |drive: &DriveEntry| {
        let config = &drive.config;
        vec![
            drive.name.to_owned(),
            config.capacity.to_string(),
            human::bytes(config.geometry.bytes() as f64),
            config.flash.part.clone(),
            config.placement.handles.to_string(),
            drive.help.to_owned(),
        ]
    };
    let columns = [
        ("drive", Side::Left),
        ("capacity", Side::Right),
        ("flash", Side::Right),
        ("NAND", Side::Left),
        ("handles", Side::Right),
        ("description", Side::Left),
    ];
    let rows: Vec<_> = drives.iter().map(row).collect();
    listing(&columns, &rows, style)
        + "\nWrite the settings of a preset to a file, edit it and pass it with --drive: flashloom \
            drives block > mine.toml\n"
}

/// List workload presets, or print the parameters of one
#[derive(Args)]
pub(crate) struct Workloads {
    /// Preset whose parameters to print
    #[arg(value_parser = PossibleValuesParser::new(workload_names()), hide_possible_values = true)]
    name: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

/// Workload preset and its parameters.
#[derive(Serialize)]
struct WorkloadEntry {
    name: &'static str,
    help: String,
    params: Vec<ParamEntry>,
}

/// Parameter of a workload preset.
#[derive(Serialize)]
struct ParamEntry {
    name: &'static str,
    default: &'static str,
    value: String,
    help: &'static str,
}

/// JSON document of `workloads`.
#[derive(Serialize)]
struct WorkloadList {
    workloads: Vec<WorkloadEntry>,
}

fn workload_names() -> Vec<&'static str> {
    let names = workload::presets().map(|preset| preset.name);
    let programs = programs().map(|preset| preset.name);
    let names = names.chain(shipped::ALL.map(|s| s.name)).chain(programs);
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().collect()
}

/// Programs for `memory`, then the entry for traces of memory accesses.
fn programs() -> impl Iterator<Item = &'static programs::Preset> {
    programs::PRESETS.iter().chain([&programs::TRACE])
}

fn program(preset: &programs::Preset) -> WorkloadEntry {
    WorkloadEntry {
        name: preset.name,
        help: format!("in memory: {}", preset.help),
        params: params(preset),
    }
}

/// A shipped workload takes the parameters of any trace of its kind.
fn shipped(shipped: &Shipped) -> WorkloadEntry {
    WorkloadEntry {
        name: shipped.name,
        help: shipped.help.to_owned(),
        params: params(shipped.params),
    }
}

impl Workloads {
    pub(crate) fn run(&self) -> Answer {
        let wanted = |name: &str| self.name.as_ref().is_none_or(|n| n == name);
        let named = workload::presets()
            .filter(|p| wanted(p.name))
            .map(|p| WorkloadEntry {
                name: p.name,
                help: p.help.to_owned(),
                params: params(p),
            });
        let come_along = shipped::ALL.into_iter().filter(|s| wanted(s.name));
        let programs = programs().filter(|p| wanted(p.name)).map(program);
        let named = come_along.map(shipped).chain(named);
        let list = WorkloadList {
            workloads: named.chain(programs).collect(),
        };
        self.shown
            .answer("flashloom.workloads/1", &list, |style| match self.name {
                Some(_) => {
                    let pages = list.workloads.iter().map(|w| workload_page(w, style));
                    pages.collect::<Vec<String>>().join("\n")
                }
                None => workload_table(&list.workloads, style),
            })
    }
}

fn params<U: Unit>(preset: &Preset<U>) -> Vec<ParamEntry> {
    let told = preset.params().map(|param| ParamEntry {
        name: param.name,
        default: param.default,
        value: param.unit.expectation(),
        help: param.help,
    });
    told.collect()
}

fn workload_table(workloads: &[WorkloadEntry], style: Style) -> String {
    let row = |w: &WorkloadEntry| vec![w.name.to_owned(), w.help.clone()];
    let rows: Vec<_> = workloads.iter().map(row).collect();
    let columns = [("workload", Side::Left), ("description", Side::Left)];
    listing(&columns, &rows, style)
        + "\nFile workloads need a file system: flashloom run ext4@block --workload \
            varmail\nMemory workloads need a memory system: flashloom memory --all --workload \
            bfs\nSeveral file workloads side by side: flashloom run ext4@block --workload \
            'db=ycsb-a & log=append'\n\
           Parameters follow a colon: randwrite:bs=16k,ops=100000,depth=8\n\
           Print the parameters of one: flashloom workloads randwrite\n"
}

fn workload_page(workload: &WorkloadEntry, style: Style) -> String {
    let row = |p: &ParamEntry| {
        let words = [p.name, p.default, p.help];
        let mut row = words.map(str::to_owned).to_vec();
        row.push(p.value.clone());
        row
    };
    let rows: Vec<_> = workload.params.iter().map(row).collect();
    let columns = [
        ("parameter", Side::Left),
        ("default", Side::Left),
        ("description", Side::Left),
        ("a value is", Side::Left),
    ];
    let head = facts([(workload.name, workload.help.clone())], style);
    format!("{head}\n{}", listing(&columns, &rows, style))
}
