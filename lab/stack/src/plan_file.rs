//! Plan files: lists of alternatives, and the plans that their combinations give.
//!
//! ```toml
//! stacks = ["raw@block", "raw@fdp"]
//! workloads = ["logs:ops=100000"]
//! preconditions = ["fresh", "aged"]   # else fresh
//! seeds = [1, 2, 3]                   # else 1
//! size = "1GiB"                       # else as the drive has it
//! drives = ["small.toml"]             # else the preset that the stack names
//! sample = "10ms"                     # else no timeline
//! until = "steady"                    # else each workload runs once
//!
//! [overrides]                         # of the drive, as in a drive file
//! "controller.write_buffer" = ["2MiB", "6MiB"]
//!
//! [host]                              # as `HostConfig`, the same for all
//! cpu.cores = 4
//!
//! [page_cache]                        # as `CacheConfig`, the same for all
//! memory = "256MiB"
//! ```
//!
//! Invariant: plans come in the order of nested loops, outermost first: stacks,
//! drives, overrides in the order in which they stand, preconditions, workloads,
//! seeds.
//!
//! The path of a drive file is relative to the folder of the plan. An override of the capacity is
//! applied unchanged; `size` resizes the flash along with it.

use crate::drive;
use crate::error::StackError;
use crate::hosts::Behaviour;
use crate::name::StackName;
use crate::past::Past;
use crate::plan::{Ending, Plan, Sampling, Until};
use host::HostConfig;
use input::document::{DocumentError, Leaf, Source, overlaid};
use serde::de::DeserializeOwned;
use ssd::{DriveConfig, Policies, Precondition, Preset};
use std::path::Path;
use toml::{Table, Value};
use units::{Bytes, Ns};
use vfs::CacheConfig;

const KEYS: &str = "stacks, drives, preconditions, workloads, seeds, size, sample, until, \
                    overrides, host, page_cache";

/// Sections whose values are not lists of alternatives.
const FIXED: [&str; 2] = ["host", "page_cache"];

/// Largest number of plans from one file.
pub const MOST_PLANS: usize = 100_000;

/// Texts that tell a plan from the others of its file, such as `SETTING=VALUE`.
type Label = Vec<String>;

/// A parsed plan file.
struct File<'a> {
    source: &'a Source,
    leaves: Vec<Leaf>,
}

/// An override: a knob and its alternative values.
struct Override<'a> {
    leaf: &'a Leaf,
    path: Vec<String>,
    values: Vec<Value>,
}

/// All plans of the file at `path`.
///
/// # Errors
/// With the file, the line and what was expected there.
pub fn plan_file(path: &str) -> Result<Vec<Plan>, StackError> {
    let source = Source::read(path)?;
    let file = File {
        leaves: source.leaves()?,
        source: &source,
    };
    file.check_keys()?;
    file.check_count()?;
    let mut plans = Vec::new();
    for stack in file.list::<String>("stacks")?.unwrap_or_default() {
        let leaf = file.leaf("stacks");
        let stack: StackName = stack
            .parse()
            .map_err(|e: StackError| file.at(leaf, e.to_string()))?;
        for (label, drive) in file.drives(&stack)? {
            file.plans_on(&stack, &drive, &label, &mut plans)?;
        }
    }
    Ok(plans)
}

/// A value as text, without quotes around a string.
fn bare(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

impl File<'_> {
    fn leaf(&self, key: &str) -> Option<&Leaf> {
        self.leaves.iter().find(|leaf| leaf.path == [key])
    }

    fn at(&self, leaf: Option<&Leaf>, problem: impl Into<String>) -> StackError {
        let at = leaf.map_or(0, |leaf| leaf.span.start);
        self.source.error(at, problem).into()
    }

    fn check_keys(&self) -> Result<(), StackError> {
        let flat = [
            "stacks",
            "drives",
            "preconditions",
            "workloads",
            "seeds",
            "size",
            "sample",
            "until",
        ];
        for leaf in &self.leaves {
            let first = leaf.path[0].as_str();
            let section = first == "overrides" || FIXED.contains(&first);
            let nested = leaf.path.len() > 1 && section;
            let known = nested || (leaf.path.len() == 1 && flat.contains(&first));
            if !known {
                let problem = format!("expected one of {KEYS}, found {}", leaf.path.join("."));
                return Err(self.at(Some(leaf), problem));
            }
        }
        for key in ["stacks", "workloads"] {
            if self.leaf(key).is_none() {
                return Err(self.at(None, format!("expected a list of {key}, found none")));
            }
        }
        Ok(())
    }

    /// Checks the number of combinations before any plan is built.
    fn check_count(&self) -> Result<(), StackError> {
        let varying = |leaf: &&Leaf| !FIXED.contains(&leaf.path[0].as_str());
        let lengths = self.leaves.iter().filter(varying);
        let lengths = lengths.filter_map(|leaf| leaf.value.as_array().map(Vec::len));
        let count = lengths.fold(1_usize, usize::saturating_mul);
        if count <= MOST_PLANS {
            return Ok(());
        }
        let problem = format!("expected at most {MOST_PLANS} plans, found {count}");
        Err(self.at(self.leaf("stacks"), problem))
    }

    /// The value of `key`; `None` if the file has none.
    fn value<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StackError> {
        let Some(leaf) = self.leaf(key) else {
            return Ok(None);
        };
        let read = leaf.value.clone().try_into();
        read.map(Some)
            .map_err(|e: toml::de::Error| self.at(Some(leaf), format!("{key}: {}", e.message())))
    }

    /// The list `key`, not empty; `None` if the file has none.
    fn list<T: DeserializeOwned>(&self, key: &str) -> Result<Option<Vec<T>>, StackError> {
        let list: Option<Vec<T>> = self.value(key)?;
        if list.as_ref().is_some_and(Vec::is_empty) {
            let problem = format!("{key}: expected a list that is not empty");
            return Err(self.at(self.leaf(key), problem));
        }
        Ok(list)
    }

    /// The drives of `stack` with each combination of overrides, and labels that tell them apart.
    fn drives(&self, stack: &StackName) -> Result<Vec<(Label, DriveConfig)>, StackError> {
        let size: Option<Bytes> = self.value("size")?;
        let named = self.list::<String>("drives")?;
        let mut drives = Vec::new();
        let several = named.as_ref().is_some_and(|names| names.len() > 1);
        for name in named.unwrap_or_else(|| vec![stack.drive.clone()]) {
            let leaf = self.leaf("drives");
            let base = drive::resolve(&self.beside(&name), size).map_err(|e| match e {
                StackError::Document(DocumentError::Place { .. }) => e,
                other => self.at(leaf, other.to_string()),
            })?;
            let table = drive::as_table(&base);
            let label = if several { vec![name] } else { Vec::new() };
            self.override_from(label, table, &self.overrides()?, &mut drives)?;
        }
        Ok(drives)
    }

    /// The path of a drive file relative to the working directory.
    fn beside(&self, name: &str) -> String {
        let folder = Path::new(&self.source.file).parent();
        match folder {
            Some(folder) if Preset::named(name).is_none() => {
                folder.join(name).to_string_lossy().into_owned()
            }
            _ => name.to_owned(),
        }
    }

    fn overrides(&self) -> Result<Vec<Override<'_>>, StackError> {
        let leaves = self
            .leaves
            .iter()
            .filter(|leaf| leaf.path[0] == "overrides");
        leaves
            .map(|leaf| {
                let values = match &leaf.value {
                    Value::Array(values) if values.is_empty() => {
                        let problem = "expected a list that is not empty";
                        return Err(self.at(Some(leaf), problem));
                    }
                    Value::Array(values) => values.clone(),
                    one => vec![one.clone()],
                };
                let path = leaf.path[1..].join(".");
                Ok(Override {
                    leaf,
                    path: path.split('.').map(str::to_owned).collect(),
                    values,
                })
            })
            .collect()
    }

    fn override_from(
        &self,
        label: Label,
        table: Table,
        overrides: &[Override<'_>],
        drives: &mut Vec<(Label, DriveConfig)>,
    ) -> Result<(), StackError> {
        let Some((first, rest)) = overrides.split_first() else {
            let config = Value::Table(table).try_into();
            let config: DriveConfig = config.expect("each override was accepted");
            let last = self.leaves.iter().rfind(|leaf| leaf.path[0] == "overrides");
            let name = config.name.clone();
            let sound = drive::checked(&name, config).map_err(|e| self.at(last, e.to_string()));
            drives.push((label, sound?));
            return Ok(());
        };
        for value in &first.values {
            let mut table = table.clone();
            overlaid::<DriveConfig>(&mut table, &first.path, value.clone())
                .map_err(|problem| self.at(Some(first.leaf), problem))?;
            let mut label = label.clone();
            if first.values.len() > 1 {
                label.push(format!("{}={}", first.path.join("."), bare(value)));
            }
            self.override_from(label, table, rest, drives)?;
        }
        Ok(())
    }

    fn plans_on(
        &self,
        stack: &StackName,
        drive: &DriveConfig,
        label: &Label,
        plans: &mut Vec<Plan>,
    ) -> Result<(), StackError> {
        let pasts = self.pasts()?;
        let workloads: Vec<String> = self.list("workloads")?.unwrap_or_default();
        let seeds: Vec<u64> = self.list("seeds")?.unwrap_or_else(|| vec![1]);
        let (sample, host): (Option<Ns>, _) = (self.value("sample")?, self.host()?);
        let until: Until = self.value("until")?.unwrap_or_default();
        let page_cache = self.page_cache()?;
        for past in pasts {
            let (precondition, used) = past.parts(drive);
            for workload in &workloads {
                let mut label = label.clone();
                label.extend((workloads.len() > 1).then(|| workload.clone()));
                let named = |seed: u64| {
                    let apart = (seeds.len() > 1).then(|| format!("seed={seed}"));
                    let parts: Vec<_> = label.iter().cloned().chain(apart).collect();
                    parts.join(" ")
                };
                plans.extend(seeds.iter().map(|&seed| Plan {
                    label: named(seed),
                    stack: stack.clone(),
                    drive: drive.clone(),
                    precondition,
                    used,
                    workload: workload.clone(),
                    seed,
                    sample: sample.map(Sampling::each),
                    host,
                    page_cache,
                    ending: Ending::Unmount,
                    until,
                    policies: Policies::default(),
                    behaviour: Behaviour::default(),
                }));
            }
        }
        Ok(())
    }

    fn pasts(&self) -> Result<Vec<Past>, StackError> {
        let Some(named) = self.list::<String>("preconditions")? else {
            return Ok(vec![Past::Drive(Precondition::Fresh)]);
        };
        let leaf = self.leaf("preconditions");
        let past = |text: &String| {
            let parsed = text.parse::<Past>();
            parsed.map_err(|e| self.at(leaf, format!("preconditions: {e}, found {text:?}")))
        };
        named.iter().map(past).collect()
    }

    fn host(&self) -> Result<HostConfig, StackError> {
        self.section("host", |host: HostConfig| {
            host.checked().map_err(|e| e.to_string())
        })
    }

    fn page_cache(&self) -> Result<CacheConfig, StackError> {
        self.section("page_cache", |cache: CacheConfig| {
            cache.checked().map_err(|e| e.to_string())
        })
    }

    /// The section `name` laid over the defaults.
    fn section<T: Default + DeserializeOwned>(
        &self,
        name: &str,
        checked: impl FnOnce(T) -> Result<T, String>,
    ) -> Result<T, StackError> {
        let (mut table, mut made, mut last) = (Table::new(), T::default(), None);
        for leaf in self.leaves.iter().filter(|leaf| leaf.path[0] == name) {
            made = overlaid(&mut table, &leaf.path[1..], leaf.value.clone())
                .map_err(|problem| self.at(Some(leaf), format!("{name}.{problem}")))?;
            last = Some(leaf);
        }
        // Knobs may be valid together that are not valid one by one.
        checked(made).map_err(|problem| self.at(last, problem))
    }
}
