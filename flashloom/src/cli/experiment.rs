//! What `run` and `compare` share: what the user chooses of a run, and where
//! its record goes.

use super::failure::Failure;
use super::output::note;
use super::past::Database;
use super::shipped::Asked;
use clap::Args;
use report::record::Run;
use report::store::{RunMeta, Store};
use ssd::{DriveConfig, Preset};
use stack::{Plan, Progress, StackName};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use units::{Bytes, Ns};
use workload::Workload;

/// What both commands let the user choose.
#[derive(Args)]
pub(crate) struct Choices {
    /// Bytes that the host may use, such as 1GiB; the flash shrinks or grows with it
    #[arg(long)]
    pub(crate) size: Option<Bytes>,
    /// Change a knob of the drive, as `flashloom drives block` names it
    #[arg(long, value_name = "KNOB=VALUE")]
    set: Vec<String>,
    /// Seed of everything that is random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Keep series over time: a sample each 100 ms of virtual time, or each TIME
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "100ms")]
    pub(crate) timeline: Option<Ns>,
    /// A name for these runs in the history
    #[arg(long, default_value = "", hide_default_value = true)]
    label: String,
    #[command(flatten)]
    pub(crate) database: Database,
}

impl Choices {
    /// The drive of `stack`: its preset, or what `drive` names with the
    /// interface of that preset; then with the knobs that are set.
    pub(crate) fn drive(&self, stack: &StackName, drive: Option<&str>) -> Result<DriveConfig, Failure> {
        let mut config = stack::drive::resolve(drive.unwrap_or(&stack.drive), self.size)?;
        if let Some(preset) = Preset::named(&stack.drive) {
            like(&mut config, &(preset.config)());
        }
        knobs(config, &self.set)
    }

    /// Appends `runs` to the database. One that nobody named may be missing: a
    /// directory that cannot be written should not cost a result.
    pub(crate) fn keep(&self, store: Option<&Store>, runs: &[Run], plans: &[Plan]) -> Result<(), Failure> {
        let Some(store) = store else { return Ok(()) };
        let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        for (run, plan) in runs.iter().zip(plans) {
            let meta = RunMeta {
                commit: format!("v{}", env!("CARGO_PKG_VERSION")),
                plan_hash: digest(plan, &run.workload),
                seed: run.seed,
                label: self.label.clone(),
                command: command(),
                started_unix_s: started_unix_s.map(|d| d.as_secs().cast_signed()),
            };
            store.append(run, &meta)?;
        }
        Ok(())
    }
}

/// Gives `config` the interface of `preset`, if it has another one. What differs
/// between drives that are compared is their interface.
fn like(config: &mut DriveConfig, preset: &DriveConfig) {
    if config.interface != preset.interface {
        config.name = format!("{} ({})", config.name, preset.name);
        config.interface = preset.interface;
        config.placement = preset.placement;
    }
}

/// `config` with `KNOB=VALUE` for each of `set`.
fn knobs(config: DriveConfig, set: &[String]) -> Result<DriveConfig, Failure> {
    let mut table = toml::Value::try_from(&config)?;
    for assignment in set {
        let refuse = |reason: &str| Failure::new(format!("--set {assignment}: {reason}"));
        let (knob, value) = assignment.split_once('=').ok_or_else(|| refuse("expected KNOB=VALUE"))?;
        let place = knob.split('.').try_fold(&mut table, |at, key| at.get_mut(key));
        let known = "expected a knob as in flashloom drives block, such as collection.victim";
        *place.ok_or_else(|| refuse(known))? = valued(value);
        DriveConfig::deserialize(table.clone()).map_err(|e| refuse(e.message()))?;
    }
    let config = DriveConfig::deserialize(table)?;
    ssd::Layout::new(&config)?;
    config.timing()?;
    config.endurance()?;
    Ok(config)
}

/// `text` as a TOML value; what is none is a word.
fn valued(text: &str) -> toml::Value {
    let word = || toml::Value::String(text.to_owned());
    text.parse().unwrap_or_else(|_| word())
}

/// The database, opened before anything runs. None if nobody named it and it
/// cannot be written.
pub(crate) fn database(database: &Database) -> Result<Option<Store>, Failure> {
    match Store::open(&database.path()) {
        Ok(store) => Ok(Some(store)),
        Err(error) if database.is_named() => Err(error.into()),
        Err(error) => {
            note(&format!("flashloom: these runs are not kept: {error}"));
            Ok(None)
        }
    }
}

/// How many requests `asked` makes on `drive`.
pub(crate) fn requests(asked: &Asked, drive: &DriveConfig, seed: u64) -> Result<u64, Failure> {
    let stream = Workload::parse(&asked.text)?.open(drive.capacity, sim::Seed(seed))?;
    let mut count = 0;
    for request in stream {
        request?;
        count += 1;
    }
    Ok(count)
}

/// The command line, for records.
pub(crate) fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("flashloom {}", words.join(" "))
}

/// A fingerprint of everything that determines a run: FNV-1a over its plan.
fn digest(plan: &Plan, workload: &str) -> String {
    let plan = Plan { workload: workload.to_owned(), ..plan.clone() };
    let hash = format!("{plan:?}").bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The most memory that this process has held, as the kernel tells it; 0 where
/// it does not.
pub(crate) fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * units::KIB
}
