//! The setup of a stepped drive as a TOML document.

use crate::error::StackError;
use crate::fill;
use crate::hosts::Behaviour;
use crate::past::past_of_drive;
use crate::plan::{Ending, Plan, Until};
use crate::{drive, name::StackName};
use host::HostConfig;
use input::document::{Leaf, Source, overlaid};
use ssd::{Policies, Precondition};
use toml::Table;
use vfs::CacheConfig;

/// The plan of the drive that `text` describes: a drive file, with the precondition of the drive,
/// the seed of all random choices, and settings of the host.
///
/// ```toml
/// preset = "fdp"
/// capacity = "1GiB"
/// precondition = "aged"     # else fresh
/// seed = 7                  # else 1
///
/// [host]
/// cpu.completion = "polling"
/// ```
///
/// # Errors
/// The line and the expectation there, or the reason for which the drive cannot be built.
pub fn setup(text: &str) -> Result<Plan, StackError> {
    let source = Source {
        file: "TOML".to_owned(),
        text: text.to_owned(),
    };
    let (own, of_drive) = source
        .leaves()?
        .into_iter()
        .partition(|leaf| ["precondition", "seed", "host"].contains(&leaf.path[0].as_str()));
    let drive = drive::from_leaves(&source, of_drive, None)?;
    let stack: StackName = format!("raw@{}", fill::interface(&drive)).parse()?;
    let mut plan = Plan {
        label: String::new(),
        stack,
        drive,
        precondition: Precondition::Fresh,
        used: None,
        workload: String::new(),
        seed: 1,
        sample: None,
        host: HostConfig::default(),
        page_cache: CacheConfig::default(),
        behaviour: Behaviour::default(),
        until: Until::End,
        ending: Ending::Unmount,
        policies: Policies::default(),
    };
    let own: Vec<Leaf> = own;
    let mut host = Table::new();
    for leaf in &own {
        set(&mut plan, &mut host, leaf)
            .map_err(|problem| source.error(leaf.span.start, problem))?;
    }
    let last = own.last().map_or(0, |leaf| leaf.span.start);
    plan.host = plan
        .host
        .checked()
        .map_err(|error| source.error(last, error.to_string()))?;
    Ok(plan)
}

/// Applies a value that is not the drive's.
fn set(plan: &mut Plan, host: &mut Table, leaf: &Leaf) -> Result<(), String> {
    match leaf.path[0].as_str() {
        "host" if leaf.path.len() > 1 => {
            let laid = overlaid(host, &leaf.path[1..], leaf.value.clone());
            plan.host = laid.map_err(|problem| format!("host.{problem}"))?;
        }
        "seed" => {
            let seed = leaf.value.as_integer();
            let seed = seed.and_then(|seed| u64::try_from(seed).ok());
            plan.seed = seed.ok_or("seed: expected a whole number of at least 0")?;
        }
        "precondition" => {
            let past = leaf.value.as_str().ok_or("precondition: expected a name")?;
            let past = past_of_drive(past);
            plan.precondition = past.map_err(|error| format!("precondition: {error}"))?;
        }
        _ => return Err("host: expected a table of settings".to_owned()),
    }
    Ok(())
}
