//! `mkfs` and `fsck`: file systems on drives in files.

use super::Answer;
use super::bench::{AT_REST, Bench, Beside};
use super::failure::Failure;
use super::file;
use super::found::{self, Named};
use super::output::{self, Shown};
use super::recover::{
    recover, recover_lines, recover_logs, replay, replay_exchanges, roll_forward,
    roll_zones_forward, undo_lines,
};
use super::zonefs;
use clap::{Args, ValueEnum};
use engine::{Access, DriveFile};
use extfs::ext4;
use extfs::lines::undo;
use extfs::{BLOCK, Finding, MkfsOptions, check};
use host::PmMedia;
use serde::Serialize;
use sim::{Seed, Sim};
use ssd::DriveConfig;
use stack::{Attached, DriveImage, hosts};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use units::Bytes;
use vfs::Timestamp;

/// File systems that `mkfs`, `mount`, `fsck` and `inspect` support.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// ext4 with its block journal
    Ext4,
    /// ByteFS, on a byte-addressable drive; ext4 format
    #[value(name = "bytefs")]
    ByteFs,
    /// ByteFS without its firmware support; ext4 format
    #[value(name = "bytefs-dual")]
    ByteFsDual,
    /// Btrfs (copy-on-write B-trees)
    Btrfs,
    /// Btrfs with nodatacow: in-place data without checksums
    #[value(name = "btrfs-nocow")]
    BtrfsNocow,
    /// F2FS, the log-structured file system
    F2fs,
    /// HyFiM: Btrfs that overwrites by remapping in the FTL of an open-channel drive, whose mapping
    /// is in persistent memory
    #[value(name = "hyfim")]
    HyFim,
    /// NOVA, on a byte-addressable drive; Flashloom's own format
    Nova,
    /// Persimmon: F2FS with append-only metadata, on a zoned drive
    Persimmon,
    /// PMFS, on a byte-addressable drive; ext4 format
    Pmfs,
    /// zonefs, on a zoned drive: each zone is a file, as in Linux
    #[value(name = "zonefs")]
    ZoneFs,
}

impl Kind {
    /// Name of the host that implements it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::ByteFs => "bytefs",
            Self::ByteFsDual => "bytefs-dual",
            Self::Btrfs => "btrfs",
            Self::BtrfsNocow => "btrfs-nocow",
            Self::F2fs => "f2fs",
            Self::HyFim => "hyfim",
            Self::Nova => "nova",
            Self::Persimmon => "persimmon",
            Self::Pmfs => "pmfs",
            Self::ZoneFs => "zonefs",
        }
    }

    /// Whether its format is that of ext4.
    pub(crate) const fn is_ext4(self) -> bool {
        !self.is_f2fs() && !self.is_btrfs() && !matches!(self, Self::Nova | Self::ZoneFs)
    }

    /// Whether its format is that of Btrfs.
    const fn is_btrfs(self) -> bool {
        matches!(self, Self::Btrfs | Self::BtrfsNocow | Self::HyFim)
    }

    /// Whether its body is that of F2FS.
    const fn is_f2fs(self) -> bool {
        matches!(self, Self::F2fs | Self::Persimmon)
    }

    /// Default size of an inode in bytes.
    const fn inode_size(self) -> u16 {
        match self {
            Self::Ext4 => 256,
            Self::Btrfs | Self::BtrfsNocow | Self::HyFim => 160,
            Self::F2fs | Self::Persimmon | Self::ZoneFs => BLOCK as u16,
            Self::ByteFs | Self::ByteFsDual | Self::Nova | Self::Pmfs => 128,
        }
    }

    /// The reason why this file system cannot be on `drive`, if it cannot.
    pub(super) fn misfit(self, drive: &DriveConfig) -> Result<(), String> {
        let name = self.name();
        if drive.raw.is_none() && matches!(self, Self::HyFim) {
            return Err("hyfim needs an open-channel drive, such as the preset ocssd".to_owned());
        }
        let has_zones = drive.interface == ssd::Interface::Zoned;
        if !has_zones && matches!(self, Self::Persimmon) {
            return Err("persimmon needs a zoned drive, such as the preset zns".to_owned());
        }
        if has_zones && !self.is_f2fs() {
            return Err(format!(
                "{name} writes in place, which the sequential zones of {} reject; use a drive \
                 without zones",
                drive.name
            ));
        }
        let by_blocks = self.is_f2fs() || self.is_btrfs() || matches!(self, Self::Ext4);
        if drive.front.is_none() && !by_blocks {
            return Err(format!(
                "{name} needs a byte-addressable drive, such as the preset byte"
            ));
        }
        Ok(())
    }

    /// The drive adapted to this file system: a new file system may come with new firmware.
    fn fit(self, path: &Path, drive: &DriveConfig) -> Result<DriveConfig, Failure> {
        self.misfit(drive).map_err(|e| Failure::at(path, e))?;
        let mut drive = drive.clone();
        hosts::fit(&mut drive, matches!(self, Self::ByteFs));
        Ok(drive)
    }

    /// The contents of the persistent memory that this file system finds beside a drive made for
    /// it.
    pub(super) fn beside(self, memory: Option<PmMedia>) -> Result<Beside, &'static str> {
        match (hosts::memory(self.name(), &[]), memory) {
            (None, None) => Ok((None, hosts::Memory::Blank)),
            (Some(wants), Some(memory)) => Ok((Some(wants), hosts::Memory::Left(memory))),
            (Some(_), None) => Err(
                "the drive file has no persistent memory for hyfim; create it \
                with `flashloom mkfs hyfim`",
            ),
            (None, Some(_)) => Err("the drive holds a hyfim file system, with its mapping in \
                persistent memory; create another file system with `flashloom mkfs` first"),
        }
    }
}

/// Create a file system on a drive
///
/// All contents of the drive are lost. Formats are those of Linux, except for nova: Linux can mount
/// an exported image, and the usual tools can check it.
#[derive(Args)]
pub(crate) struct Mkfs {
    /// File system to create
    #[arg(value_enum, value_name = "FILESYSTEM")]
    kind: Kind,
    /// Drive file, as `flashloom drive create` makes it
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// zonefs options: aggr_cnv, uid=N, gid=N, perm=MODE
    #[arg(short, long, value_name = "LIST")]
    options: Option<zonefs::Format>,
    /// Volume label, up to 16 bytes; 32 for zonefs
    #[arg(long, default_value = "")]
    label: String,
    /// Journal size [default: by the size of the drive; none for bytefs, which needs one for `mount
    /// --data journal`]
    #[arg(long, value_name = "SIZE")]
    journal: Option<Bytes>,
    /// Inode size in bytes, 128 or 256 [default: 256 for ext4, 128 for others]
    #[arg(long, value_name = "BYTES")]
    inode_size: Option<u16>,
    /// Bytes of capacity per inode [default: 16KiB; nova allocates inodes on demand]
    #[arg(long, value_name = "SIZE")]
    bytes_per_inode: Option<Bytes>,
    /// Seed of the UUID and of the name hashes [default: 1; nova has neither]
    #[arg(long)]
    seed: Option<u64>,
    /// Creation time in seconds since 1970, or `now`
    ///
    /// The default is constant, so that equal commands write equal bytes.
    #[arg(long, value_name = "TIME", default_value = MADE, value_parser = moment)]
    time: Timestamp,
    #[command(flatten)]
    shown: Shown,
}

/// JSON document of `mkfs`.
#[derive(Serialize)]
struct Made {
    file: String,
    filesystem: &'static str,
    blocks: u64,
    block_bytes: usize,
    journal_blocks: u32,
    inode_size: u16,
}

/// Makes a file system that has file names, which all but zonefs have.
async fn make(kind: Kind, sim: Sim, port: Attached, options: MkfsOptions) -> Result<(), String> {
    let said = |e: &dyn std::fmt::Display| e.to_string();
    match kind {
        Kind::Ext4 => ext4::format(&port.disk(), &options)
            .await
            .map_err(|e| said(&e)),
        Kind::ByteFs => bytefs::format(&port.bytes(), &options)
            .await
            .map_err(|e| said(&e)),
        Kind::Pmfs | Kind::ByteFsDual => undo::format(&port.bytes(), &options)
            .await
            .map_err(|e| said(&e)),
        Kind::F2fs => {
            let options = lfs::MkfsOptions {
                uuid: options.uuid,
                now: options.now,
                label: options.label,
                ..lfs::MkfsOptions::new(options.blocks)
            };
            let made = lfs::format_drive(&sim, &port.disk(), port.zone_disk(), &options).await;
            made.map_err(|e| said(&e))
        }
        Kind::Btrfs | Kind::BtrfsNocow | Kind::HyFim => {
            let options = cowfs::MkfsOptions {
                uuid: options.uuid,
                now: options.now,
                label: options.label,
                ..cowfs::MkfsOptions::new(options.blocks)
            };
            let made = cowfs::format(&port.disk(), &options).await;
            made.map_err(|e| said(&e))
        }
        Kind::Persimmon => {
            let options = persimmon::MkfsOptions {
                uuid: options.uuid,
                now: options.now,
                label: options.label,
                ..persimmon::MkfsOptions::default()
            };
            let zones = port.zone_disk().ok_or("the drive has no zones")?;
            let made = persimmon::format(&sim, &zones, &options).await;
            made.map_err(|e| said(&e))
        }
        Kind::Nova => {
            let options = novafs::MkfsOptions {
                now: options.now,
                ..novafs::MkfsOptions::default()
            };
            novafs::mkfs(&port.bytes(), &options)
                .await
                .map_err(|e| said(&e))
        }
        Kind::ZoneFs => Err("zonefs has one file for each zone; other files cannot be \
            created"
            .to_owned()),
    }
}

impl Mkfs {
    pub(crate) fn run(&self) -> Answer {
        let mut file = file::open(&self.path, Access::Change)?;
        let bench = Bench::load(&self.path, &file)?;
        if matches!(self.kind, Kind::ZoneFs) {
            return self.make_zones(file, &bench);
        }
        let drive = self.kind.fit(&self.path, &bench.config)?;
        let bench = bench.with_front(&self.path, drive)?;
        let options = self.options(&bench)?;
        let made = Made {
            file: self.path.display().to_string(),
            filesystem: self.kind.name(),
            blocks: options.blocks,
            block_bytes: BLOCK,
            journal_blocks: options.journal_blocks.unwrap_or(0),
            inode_size: options.inode_size,
        };
        // The contents of the memory beside the drive are lost as well.
        let beside = (hosts::memory(self.kind.name(), &[]), hosts::Memory::Blank);
        let port = bench.attach(&self.path, beside)?;
        let (kind, sim, made_on) = (self.kind, bench.kernel.sim(), port.clone());
        let format = async move {
            make(kind, sim, made_on.clone(), options).await?;
            found::write_mark(&made_on, kind).await
        };
        finish(&bench, &self.path, format)?.map_err(|e| Failure::at(&self.path, e))?;
        bench.save(&self.path, &mut file, Some(&port))?;
        let text = |_| made.told();
        self.shown.answer("flashloom.mkfs/1", &made, text)
    }

    /// Makes zonefs, whose files are zones.
    fn make_zones(&self, mut file: DriveFile, bench: &Bench) -> Answer {
        self.refuse_what_ext4_has()?;
        let uuid = stamped(self.identities()());
        let format = self.options.clone().unwrap_or_default();
        let made = zonefs::make(bench, &self.path, format.named(&self.label, uuid)?)?;
        bench.save(&self.path, &mut file, None)?;
        let text = |_| made.told();
        self.shown.answer("flashloom.mkfs/1", &made, text)
    }

    /// Random identifiers, one after the other.
    fn identities(&self) -> impl FnMut() -> [u8; 16] {
        let mut identity = Seed(self.seed.unwrap_or(1)).stream("mkfs");
        move || {
            let (high, low) = (identity.next_u64(), identity.next_u64());
            (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
        }
    }

    fn options(&self, bench: &Bench) -> Result<MkfsOptions, Failure> {
        let mut bytes = self.identities();
        let new = MkfsOptions::new(bench.config.capacity.0 / BLOCK as u64);
        let mut options = MkfsOptions {
            // A random UUID by RFC 4122.
            uuid: stamped(bytes()),
            hash_seed: bytes(),
            now: self.time,
            label: self.label.clone(),
            bytes_per_inode: self.bytes_per_inode.map_or(new.bytes_per_inode, |b| b.0),
            inode_size: self.inode_size.unwrap_or(self.kind.inode_size()),
            ..new
        };
        if self.options.is_some() {
            let reason = format!("{} has no options of zonefs", self.kind.name());
            return Err(Failure::new(reason));
        }
        if !self.kind.is_ext4() {
            self.refuse_what_ext4_has()?;
            options.journal_blocks = None;
            return Ok(options);
        }
        if let Some(size) = self.journal {
            let blocks = u32::try_from(size.0 / BLOCK as u64);
            let reason = "expected a journal of less than 16 TiB";
            let blocks = blocks.map_err(|_| Failure::new(reason))?;
            options.journal_blocks = Some(blocks);
        } else if matches!(self.kind, Kind::ByteFs) {
            options.journal_blocks = None;
        } else if options.journal_blocks.is_none() {
            let small = "the drive is too small for a journal: expected at least 8 MiB";
            return Err(Failure::at(&self.path, small));
        }
        Ok(options)
    }

    fn refuse_what_ext4_has(&self) -> Result<(), Failure> {
        let zones = matches!(self.kind, Kind::ZoneFs);
        let named = zones || self.kind.is_f2fs() || self.kind.is_btrfs();
        let given = [
            ("label", !self.label.is_empty() && !named),
            ("seed", self.seed.is_some() && !zones),
            ("choice of the size of inodes", self.inode_size.is_some()),
            ("fixed number of inodes", self.bytes_per_inode.is_some()),
            ("journal of blocks", self.journal.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((what, _)) => Err(Failure::new(format!("{} has no {what}", self.kind.name()))),
            None => Ok(()),
        }
    }
}

/// The default creation time: the start of the year 2000, a choice of ours. It only has to be
/// constant, and before any mount.
const MADE: &str = "946684800";

/// Parses a creation time. Inodes of 128 bytes have 31 bits for it.
fn moment(text: &str) -> Result<Timestamp, String> {
    if text == "now" {
        return Ok(fuse::timestamp(SystemTime::now()));
    }
    let secs = text
        .parse()
        .ok()
        .filter(|secs| *secs <= i64::from(i32::MAX));
    let secs = secs.filter(|secs| *secs >= 0);
    let wanted = "expected seconds since 1970, up to 2147483647, or `now`";
    let secs = secs.ok_or_else(|| wanted.to_owned())?;
    Ok(Timestamp { secs, nanos: 0 })
}

fn stamped(mut uuid: [u8; 16]) -> [u8; 16] {
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

impl Made {
    fn told(&self) -> String {
        let size = Bytes(self.blocks * self.block_bytes as u64);
        let journal = Bytes(u64::from(self.journal_blocks) * self.block_bytes as u64);
        let file = &self.file;
        let filesystem = self.filesystem;
        match self.journal_blocks {
            0 => format!("{file}: created an empty {filesystem} of {size}\n"),
            _ => format!(
                "{file}: created an empty {filesystem} of {size} with a journal of \
                {journal}\n"
            ),
        }
    }
}

/// Check a file system on a drive without changing it
///
/// If the journal needs a replay, it is first replayed in memory. The exit status is 1 if an error
/// is found.
#[derive(Args)]
#[command(override_usage = "flashloom fsck [OPTIONS] [FILESYSTEM] <DRIVE>")]
pub(crate) struct Fsck {
    /// File system; if omitted, it is detected by its superblock
    #[arg(value_enum, value_name = "FILESYSTEM")]
    kind: Named,
    /// Drive file, as `flashloom drive create` makes it
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    #[command(flatten)]
    shown: Shown,
}

/// JSON document of `fsck`.
#[derive(Serialize)]
struct Checked {
    file: String,
    filesystem: &'static str,
    /// Whether the file system was named on the command line.
    #[serde(skip)]
    named: bool,
    sound: bool,
    /// Journal transactions replayed in memory.
    replayed: u64,
    findings: Vec<String>,
}

impl Fsck {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let bench = Bench::open(&self.path)?;
        let kind = self.kind.on(&bench, &self.path)?;
        let port = attach(&bench, &self.path, kind)?;
        let (sim, device) = (bench.kernel.sim(), port.device().clone());
        let recovery = match kind {
            Kind::Ext4 => finish(&bench, &self.path, recover(sim, port))?,
            Kind::ByteFs => finish(&bench, &self.path, recover_lines(sim, port))?,
            Kind::Btrfs | Kind::BtrfsNocow => finish(&bench, &self.path, replay(sim, port))?,
            Kind::F2fs => finish(&bench, &self.path, roll_forward(sim, port))?,
            Kind::HyFim => finish(&bench, &self.path, replay_exchanges(sim, port))?,
            Kind::Nova => finish(&bench, &self.path, recover_logs(sim, port))?,
            Kind::Persimmon => finish(&bench, &self.path, roll_zones_forward(sim, port))?,
            Kind::Pmfs | Kind::ByteFsDual => finish(&bench, &self.path, undo_lines(sim, port))?,
            Kind::ZoneFs => finish(&bench, &self.path, zonefs::check(sim, device))?,
        };
        let (replayed, mut findings) = match recovery {
            Ok(replayed) => (replayed, Vec::new()),
            Err(error) => (0, vec![format!("the file system: {error}")]),
        };
        if findings.is_empty() {
            findings = find(kind, &DriveImage::new(&bench.drive));
        }
        let checked = Checked {
            file: self.path.display().to_string(),
            filesystem: kind.name(),
            named: !self.kind.is_found(),
            sound: findings.is_empty(),
            replayed,
            findings,
        };
        let answer = self
            .shown
            .answer("flashloom.fsck/1", &checked, |_| checked.told())?;
        let shown = output::emit(&answer);
        Ok(if checked.sound {
            shown
        } else {
            ExitCode::from(1)
        })
    }
}

/// Problems of the file system in `image`.
fn find(kind: Kind, image: &DriveImage<'_>) -> Vec<String> {
    match kind {
        Kind::F2fs => {
            let found = lfs::check(image);
            found.iter().map(ToString::to_string).collect()
        }
        Kind::Btrfs | Kind::BtrfsNocow | Kind::HyFim => {
            let found = cowfs::check(image);
            found.iter().map(ToString::to_string).collect()
        }
        Kind::Nova => {
            let found = novafs::check(image);
            found.iter().map(ToString::to_string).collect()
        }
        Kind::Persimmon => persimmon::check(image),
        Kind::ZoneFs => Vec::new(),
        _ => check(image).iter().map(Finding::to_string).collect(),
    }
}

impl Checked {
    fn told(&self) -> String {
        let file = &self.file;
        let mut out = String::new();
        if self.replayed > 0 {
            out += &format!(
                "{file}: replayed {} transactions in memory\n",
                self.replayed
            );
        }
        for finding in &self.findings {
            out += &format!("{file}: {finding}\n");
        }
        if self.sound {
            let kind = match self.named {
                true => String::new(),
                false => format!(" ({})", self.filesystem),
            };
            out += &format!("{file}: the file system is clean{kind}\n");
        }
        out
    }
}

/// The drive attached as this file system needs it.
pub(super) fn attach(bench: &Bench, path: &Path, kind: Kind) -> Result<Attached, Failure> {
    let beside = kind.beside(bench.memory.clone().map(PmMedia::of));
    bench.attach(path, beside.map_err(|e| Failure::at(path, e))?)
}

/// Runs `work` to its end; `path` is the drive's file, for errors.
pub(super) fn finish<T: 'static>(
    bench: &Bench,
    path: &Path,
    work: impl Future<Output = T> + 'static,
) -> Result<T, Failure> {
    bench.finish(work).ok_or_else(|| Failure::at(path, AT_REST))
}
