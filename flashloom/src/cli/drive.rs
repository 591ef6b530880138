//! `drive`: drives kept in files.

use super::Answer;
use super::bench::Bench;
use super::chunks;
use super::failure::Failure;
use super::fdp;
use super::file;
use super::live::{self, Ask};
use super::output::{OfFile, Shown};
use super::progress::during;
use super::told;
use super::zones;
use clap::{Args, Subcommand};
use engine::Access;
use host::{BlockPort, Who};
use report::table::facts;
use report::{Style, human};
use serde::Serialize;
use sim::Seed;
use ssd::{Content, DriveConfig, LineState, Precondition};
use stack::Attached;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use units::{Bytes, Extent, MIB, Origin, Placement, SECTOR};

/// Bytes of one step of export and import.
const CHUNK: u64 = MIB;
/// Aligned pieces of this many bytes are left out of a sparse file, or of a drive, if they are
/// zeros.
const HOLE: usize = 4096;

/// Create, inspect, import and export emulated drives kept in files
#[derive(Subcommand)]
pub(crate) enum Command {
    Create(Create),
    Info(Info),
    Smart(Health),
    Zones(zones::Show),
    Chunks(chunks::Show),
    Fdp(fdp::Show),
    Export(Export),
    Import(Import),
    Stats(told::Stats),
    Cut(told::Cut),
    Fault(told::Fault),
}

impl Command {
    pub(crate) fn run(&self) -> Answer {
        match self {
            Self::Create(create) => during("making the drive", || create.run()),
            Self::Info(info) => info.run(),
            Self::Smart(health) => health.run(),
            Self::Zones(show) => show.run(),
            Self::Chunks(show) => show.run(),
            Self::Fdp(show) => show.run(),
            Self::Export(export) => during("exporting", || export.run()),
            Self::Import(import) => during("importing", || import.run()),
            Self::Stats(stats) => stats.run(),
            Self::Cut(cut) => cut.run(),
            Self::Fault(fault) => fault.run(),
        }
    }
}

/// Create a drive file
#[derive(Args)]
pub(crate) struct Create {
    /// Path of the new drive file
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Drive model: a preset (see `flashloom drives`) or a TOML file
    #[arg(long, default_value = "block", value_name = "PRESET|TOML")]
    preset: String,
    /// Usable capacity, such as 256MiB [default: that of the preset]
    #[arg(long)]
    size: Option<Bytes>,
    /// Number of conventional zones of a zoned drive; they take their flash from the sequential
    /// zones [default: that of the preset]
    #[arg(long, value_name = "ZONES")]
    conventional: Option<u32>,
    /// Precondition of the drive: fresh, full or aged
    #[arg(long, default_value = "fresh", value_parser = stack::past_of_drive)]
    precondition: Precondition,
    /// Seed of the precondition's random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    shown: Shown,
}

impl Create {
    fn run(&self) -> Answer {
        if self.path.is_dir() {
            return Err(Failure::at(
                &self.path,
                "expected a file, found a directory",
            ));
        }
        if self.path.exists() && !self.force {
            return Err(Failure::at(
                &self.path,
                "the file exists; pass --force to replace it",
            ));
        }
        let mut config = stack::drive::resolve(&self.preset, self.size)?;
        if let Some(count) = self.conventional {
            if config.zones.is_none() {
                return Err(Failure::new(format!(
                    "--conventional: {} has no zones",
                    self.preset
                )));
            }
            config = config.with_conventional(count)?;
        }
        // A drive in a file must keep its data.
        config.flash.keep_contents = true;
        let media = self.precondition.media(&config, Seed(self.seed))?;
        file::create(&self.path, &config, &media)?;
        let found = inspect(&self.path)?;
        let text = |style: Style| facts(found.lines(), style);
        self.shown.answer("flashloom.drive-info/1", &found, text)
    }
}

/// Show the model, capacity and contents of a drive file
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    of: OfFile,
}

/// JSON document of `drive info`.
#[derive(Serialize)]
struct Found {
    file: String,
    file_bytes: u64,
    name: String,
    interface: ssd::Interface,
    capacity_bytes: u64,
    raw_bytes: u64,
    over_provisioning: f64,
    mapped_bytes: u64,
    lines: u64,
    free_lines: u64,
    line_bytes: u64,
    /// Zones; zoned drives only.
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: Option<zones::Facts>,
    /// Chunks; open-channel drives only.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunks: Option<chunks::Facts>,
    /// Persistent memory beside an open-channel drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    config: DriveConfig,
}

/// Size and use of the persistent memory beside a drive.
#[derive(Serialize)]
struct Memory {
    bytes: u64,
    /// Bytes in use, in pages of 4 KiB.
    used_bytes: u64,
}

impl Info {
    fn run(&self) -> Answer {
        let found = inspect(&self.of.path)?;
        let text = |style: Style| facts(found.lines(), style);
        self.of.shown.answer("flashloom.drive-info/1", &found, text)
    }
}

fn inspect(path: &Path) -> Result<Found, Failure> {
    let bench = Bench::open(path)?;
    let (layout, lines) = (bench.drive.layout(), bench.drive.lines());
    let valid = lines.iter().map(|line| u64::from(line.valid)).sum::<u64>();
    let free = lines
        .iter()
        .filter(|line| line.state == LineState::Free)
        .count();
    let zones = bench.drive.zones().map(zones::facts);
    let chunks = bench.drive.chunks().map(chunks::facts);
    let in_zones = zones.as_ref().map_or(0, |zones| zones.written_bytes);
    let in_chunks = chunks.as_ref().map_or(0, |chunks| chunks.written_bytes);
    Ok(Found {
        file: path.display().to_string(),
        file_bytes: std::fs::metadata(path)
            .map_err(|e| Failure::at(path, e))?
            .len(),
        name: bench.config.name.clone(),
        interface: bench.config.interface,
        capacity_bytes: bench.config.capacity.0,
        raw_bytes: bench.config.geometry.bytes(),
        over_provisioning: bench.config.geometry.bytes() as f64 / bench.config.capacity.0 as f64
            - 1.0,
        mapped_bytes: valid * layout.page_bytes() + in_zones + in_chunks,
        lines: lines.len() as u64,
        free_lines: free as u64,
        line_bytes: layout.bytes(layout.line_pages).0,
        zones,
        chunks,
        memory: bench.memory.as_ref().map(|memory| Memory {
            bytes: memory.bytes,
            used_bytes: memory.pages.len() as u64 * HOLE as u64,
        }),
        config: bench.config.clone(),
    })
}

impl Found {
    /// The interface of the drive in words.
    fn reached_by(&self) -> String {
        let blocks = match self.interface {
            ssd::Interface::Block => "blocks",
            ssd::Interface::Streams => "blocks with streams",
            ssd::Interface::Fdp => "blocks with flexible data placement",
            ssd::Interface::Zoned => "zones",
            ssd::Interface::OpenChannel => "chunks, as its host maps them",
        };
        match &self.config.front {
            None => format!("by {blocks}"),
            Some(front) if front.log.bytes.0 == 0 => {
                format!(
                    "by {blocks} and by bytes through a cache of {}",
                    front.cache.bytes
                )
            }
            Some(front) => format!(
                "by {blocks} and by bytes through a log of {}",
                front.log.bytes
            ),
        }
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let bytes = |n: u64| Bytes(n).to_string();
        let flash = &self.config.flash;
        let over = human::share(self.over_provisioning);
        let dies = self.config.geometry.dies();
        let mut lines = vec![
            ("file", format!("{}, {}", self.file, bytes(self.file_bytes))),
            ("drive", format!("{}, {}", self.name, self.reached_by())),
            ("capacity", bytes(self.capacity_bytes)),
            ("in use", bytes(self.mapped_bytes)),
            (
                "flash",
                format!(
                    "{} of {}, over-provisioning {over}",
                    bytes(self.raw_bytes),
                    flash.part
                ),
            ),
            (
                "dies",
                format!("{dies} on {} channels", self.config.geometry.channels),
            ),
        ];
        match (&self.zones, &self.chunks) {
            (Some(zones), _) => lines.extend(zones.lines()),
            (None, Some(chunks)) => lines.extend(chunks.lines()),
            (None, None) => lines.extend([
                (
                    "superblocks",
                    format!(
                        "{} of {}, {} free",
                        self.lines,
                        bytes(self.line_bytes),
                        self.free_lines
                    ),
                ),
                ("handles", self.config.placement.handles.to_string()),
            ]),
        }
        let memory = self.memory.as_ref().map(|memory| {
            let (all, used) = (bytes(memory.bytes), bytes(memory.used_bytes));
            (
                "memory",
                format!("{all} of persistent memory, {used} in use"),
            )
        });
        lines.extend(memory);
        lines
    }
}

/// Show a drive's lifetime counters and wear; works while it is served or mounted
#[derive(Args)]
pub(crate) struct Health {
    #[command(flatten)]
    of: OfFile,
}

/// JSON document of `drive smart`.
#[derive(Serialize)]
struct Counters {
    file: String,
    #[serde(flatten)]
    health: ssd::Health,
}

impl Health {
    fn run(&self) -> Answer {
        let counters = counters(&self.of.path)?;
        let text = |style: Style| facts(counters.lines(), style);
        self.of.shown.answer("flashloom.smart/1", &counters, text)
    }
}

fn counters(path: &Path) -> Result<Counters, Failure> {
    if let Some(health) = live::ask_if_served(path, &Ask::Smart)? {
        return Ok(Counters {
            file: path.display().to_string(),
            health: serde_json::from_value(health)?,
        });
    }
    let bench = Bench::open(path)?;
    Ok(Counters {
        file: path.display().to_string(),
        health: ssd::Health::of(&bench.drive, bench.smart)?,
    })
}

impl Counters {
    fn lines(&self) -> Vec<(&'static str, String)> {
        let health = &self.health;
        let bytes = |n: u64| Bytes(n).to_string();
        let count = |n: u64| human::count(n as f64);
        let used = human::share(health.percentage_used / 100.0);
        let erases = format!(
            "{} mean, {} to {}, of {} rated ({used} used)",
            human::factor(health.mean_erases),
            health.min_erases,
            health.max_erases,
            count(health.rated_cycles.into())
        );
        vec![
            ("file", self.file.clone()),
            (
                "host reads",
                format!(
                    "{} in {} commands",
                    bytes(health.host_read_bytes),
                    count(health.read_commands)
                ),
            ),
            (
                "host writes",
                format!(
                    "{} in {} commands",
                    bytes(health.host_write_bytes),
                    count(health.write_commands)
                ),
            ),
            ("programmed", bytes(health.programmed_bytes)),
            ("erases of a block", erases),
            ("bad blocks", count(health.bad_blocks)),
            (
                "power cycles",
                format!(
                    "{}, {} unsafe",
                    count(health.power_cycles),
                    count(health.unsafe_shutdowns)
                ),
            ),
            ("media errors", count(health.media_errors)),
        ]
    }
}

/// Export a drive's logical contents to a sparse raw image
#[derive(Args)]
pub(crate) struct Export {
    /// Drive file, as `flashloom drive create` makes it
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Path of the raw image
    #[arg(value_name = "OUT")]
    out: PathBuf,
    #[command(flatten)]
    shown: Shown,
}

/// JSON document of `drive export` and `drive import`.
#[derive(Serialize)]
struct Moved {
    file: String,
    image: String,
    capacity_bytes: u64,
    /// Bytes in 4 KiB pieces that are not all zeros.
    data_bytes: u64,
}

impl Moved {
    fn told(&self, verb: &str) -> String {
        let [data, all] = [self.data_bytes, self.capacity_bytes].map(Bytes);
        let (file, image) = (&self.file, &self.image);
        format!("{file} {verb} {image}: {data} of data, the rest of {all} is zeros\n")
    }
}

impl Export {
    fn run(&self) -> Answer {
        let bench = Bench::open(&self.path)?;
        let port = bench.attach_as_is(&self.path)?;
        file::check_other(&self.out, [self.path.as_path()])?;
        let out = file::beside(&self.out)?;
        let data_bytes = export((&bench, &port), &self.path, out.file(), &self.out)?;
        out.finish()?;
        let moved = Moved {
            file: self.path.display().to_string(),
            image: self.out.display().to_string(),
            capacity_bytes: bench.config.address_space().0,
            data_bytes,
        };
        let text = |_| moved.told("exported to");
        self.shown.answer("flashloom.drive-export/1", &moved, text)
    }
}

/// Writes all pieces that are not zeros, and returns their bytes.
fn export(
    (bench, port): (&Bench, &Attached),
    path: &Path,
    out: &File,
    name: &Path,
) -> Result<u64, Failure> {
    let (capacity, mut at, mut data) = (bench.config.address_space().0, 0, 0);
    let fault = |e| Failure::at(name, e);
    out.set_len(capacity).map_err(fault)?;
    while at < capacity {
        let bytes = read((bench, port), path, at, CHUNK.min(capacity - at))?;
        for (from, piece) in pieces(&bytes) {
            out.write_all_at(piece, at + from).map_err(fault)?;
            data += piece.len() as u64;
        }
        at += bytes.len() as u64;
    }
    Ok(data)
}

fn read(
    (bench, port): (&Bench, &Attached),
    path: &Path,
    at: u64,
    len: u64,
) -> Result<Vec<u8>, Failure> {
    let (port, drive, extent) = (port.clone(), bench.drive.clone(), extent(at, len));
    bench.carry_out(path, async move {
        let mut bytes = vec![0; extent.bytes() as usize];
        let sink = &mut bytes.as_mut_slice();
        match port.is_mapped() {
            true => port.read(extent, sink, Who::default()).await?,
            // Zones are read by the drive's own addresses.
            false => drive.read(extent, sink).await?,
        }
        Ok(bytes)
    })
}

pub(super) fn extent(at: u64, len: u64) -> Extent {
    let sectors = u32::try_from(len / SECTOR).expect("a chunk has few sectors");
    Extent::new(at / SECTOR, sectors)
}

/// The pieces of `bytes` that are not zeros, each with its offset.
pub(super) fn pieces(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let numbered = bytes.chunks(HOLE).enumerate();
    numbered
        .filter(|(_, piece)| piece.iter().any(|&byte| byte != 0))
        .map(|(index, piece)| ((index * HOLE) as u64, piece))
}

/// Replace a drive's logical contents by a raw image
#[derive(Args)]
pub(crate) struct Import {
    /// Drive file, as `flashloom drive create` makes it
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Raw image; the rest of a larger drive reads as zeros
    #[arg(value_name = "IN")]
    input: PathBuf,
    #[command(flatten)]
    shown: Shown,
}

impl Import {
    fn run(&self) -> Answer {
        let mut file = file::open(&self.path, Access::Change)?;
        let bench = Bench::load(&self.path, &file)?;
        let port = bench.attach_as_is(&self.path)?;
        let fault = |e| Failure::at(&self.input, e);
        let input = File::open(&self.input).map_err(fault)?;
        let (len, capacity) = (
            input.metadata().map_err(fault)?.len(),
            bench.config.address_space(),
        );
        if len > capacity.0 {
            let larger = format!(
                "expected at most {capacity}, as the drive has, found {}",
                Bytes(len)
            );
            return Err(Failure::at(&self.input, larger));
        }
        let data_bytes = match bench.drive.zones() {
            Some(zones) => zones::import(&bench, zones, input, &self.path, &self.input)?,
            None => import((&bench, &port), input, &self.path, &self.input)?,
        };
        bench.save(&self.path, &mut file, Some(&port))?;
        let moved = Moved {
            file: self.path.display().to_string(),
            image: self.input.display().to_string(),
            capacity_bytes: capacity.0,
            data_bytes,
        };
        let text = |_| moved.told("imported from");
        self.shown.answer("flashloom.drive-import/1", &moved, text)
    }
}

/// Deallocates everything, then writes all pieces that are not zeros.
fn import(on: (&Bench, &Attached), input: File, path: &Path, name: &Path) -> Result<u64, Failure> {
    clear(on, path)?;
    let mut input = BufReader::new(input);
    let (mut at, mut data) = (0, 0);
    loop {
        let mut bytes = Vec::new();
        let chunk = input.by_ref().take(CHUNK).read_to_end(&mut bytes);
        chunk.map_err(|e| Failure::at(name, e))?;
        if bytes.is_empty() {
            // The buffer of a host's mapping must be flushed explicitly.
            if on.1.is_mapped() {
                let port = on.1.clone();
                on.0.carry_out(path, async move { port.flush().await })?;
            }
            return Ok(data);
        }
        bytes.resize(bytes.len().next_multiple_of(SECTOR as usize), 0);
        for (from, piece) in pieces(&bytes) {
            write(on, path, at + from, piece.to_vec())?;
            data += piece.len() as u64;
        }
        at += bytes.len() as u64;
    }
}

fn clear((bench, port): (&Bench, &Attached), path: &Path) -> Result<(), Failure> {
    let (port, drive) = (port.clone(), bench.drive.clone());
    let capacity = bench.config.capacity.0;
    bench.carry_out(path, async move {
        let mut at = 0;
        while at < capacity {
            let len = units::GIB.min(capacity - at);
            match port.is_mapped() {
                true => port.trim(extent(at, len)).await?,
                false => drive.trim(extent(at, len)).await?,
            }
            at += len;
        }
        Ok(())
    })
}

fn write(
    (bench, port): (&Bench, &Attached),
    path: &Path,
    at: u64,
    bytes: Vec<u8>,
) -> Result<(), Failure> {
    let (port, drive) = (port.clone(), bench.drive.clone());
    let extent = extent(at, bytes.len() as u64);
    bench.carry_out(path, async move {
        let (content, all) = (Content::Bytes(&bytes), Placement(0));
        if port.is_mapped() {
            let write = port.write(extent, content, all, Who::default(), false);
            return write.await;
        }
        drive.write(extent, content, all, Origin(0), false).await
    })
}
