//! zonefs on a drive in a file: `mkfs`, `fsck` and `mount`.
//!
//! Its mount differs from that of other file systems: it has neither a page cache nor a tree of
//! names, and its rules are part of what programs use it for.

use super::bench::Bench;
use super::failure::Failure;
use super::mount::{Mount, MountError};
use engine::{Device, Engine, FileError, Signals, finish};
use fuse::{Show, Zones, ZonesFs};
use host::{BlockDevice, HostConfig, ZonedDevice, ZonedPort};
use serde::Serialize;
use sim::{Kernel, Sim};
use ssd::{ZoneKind, ZoneState};
use std::path::Path;
use std::rc::Rc;
use std::str::FromStr;
use units::{Bytes, Origin};
use zonefs::{BLOCK, Group, Options, Superblock, ZoneFs};

/// Options of the files in `mkfs -o`, as in `mkzonefs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Format(Superblock);

impl FromStr for Format {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        let mut format = Superblock::default();
        for word in list.split(',') {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = |radix| {
                let number = u32::from_str_radix(value, radix);
                number.map_err(|_| format!("{word}: expected a number"))
            };
            match name {
                "aggr_cnv" if word == name => format.aggregates = true,
                "uid" => format.uid = number(10)?,
                "gid" => format.gid = number(10)?,
                "perm" => {
                    let perm = number(8)?.try_into().ok();
                    let perm = perm.filter(|perm: &u16| perm & !0o777 == 0);
                    let wanted = || format!("{word}: expected permissions of at most 777");
                    format.perm = perm.ok_or_else(wanted)?;
                }
                _ => return Err("expected aggr_cnv, uid=N, gid=N or perm=MODE".to_owned()),
            }
        }
        Ok(Self(format))
    }
}

impl Format {
    /// Adds label and identifier to the options.
    ///
    /// # Errors
    /// If the label has more than 32 bytes.
    pub(super) fn named(self, label: &str, uuid: [u8; 16]) -> Result<Superblock, Failure> {
        if label.len() > 32 {
            return Err(Failure::new("expected a label of at most 32 bytes"));
        }
        Ok(Superblock {
            label: label.to_owned(),
            uuid,
            ..self.0
        })
    }
}

/// The document of `mkfs zonefs`.
#[derive(Serialize)]
pub(super) struct Made {
    file: String,
    filesystem: &'static str,
    blocks: u64,
    block_bytes: usize,
    conventional_files: usize,
    sequential_files: usize,
}

impl Made {
    pub(super) fn told(&self) -> String {
        let size = Bytes(self.blocks * self.block_bytes as u64);
        let (file, sequential) = (&self.file, self.sequential_files);
        let files = match self.conventional_files {
            0 => format!("{sequential} sequential files"),
            conventional => {
                format!("{conventional} conventional and {sequential} sequential files")
            }
        };
        format!("{file}: created an empty zonefs of {size} with {files}\n")
    }
}

fn attach(bench: &Bench) -> Result<ZonedDevice, Failure> {
    let (sim, host) = (bench.kernel.sim(), HostConfig::default());
    let device = BlockDevice::new(&sim, host, bench.drive.clone())?;
    ZonedDevice::new(&device).ok_or_else(|| Failure::new(NOT_ZONED))
}

const NOT_ZONED: &str = "zonefs needs a zoned drive, such as the preset zns";

/// Makes zonefs on the drive, whose file is `path`.
pub(super) fn make(bench: &Bench, path: &Path, superblock: Superblock) -> Result<Made, Failure> {
    let port = attach(bench).map_err(|e| Failure::at(path, e))?;
    let sim = bench.kernel.sim();
    let work = async move {
        zonefs::mkfs(&port, &superblock, Origin(0)).await?;
        ZoneFs::mount(&sim, &port, Options::default()).await
    };
    let made = bench
        .finish(work)
        .ok_or_else(|| Failure::at(path, MountError::AtRest))?;
    let fs = made.map_err(|e| Failure::at(path, e))?;
    Ok(Made {
        file: path.display().to_string(),
        filesystem: "zonefs",
        blocks: fs.space().0 / BLOCK as u64,
        block_bytes: BLOCK,
        conventional_files: fs.count(Group::Conventional),
        sequential_files: fs.count(Group::Sequential),
    })
}

/// Checks the file system behind `device`: its superblock, and the zone of that, which must not
/// accept writes. Returns 0, as nothing is replayed.
pub(super) async fn check(sim: Sim, device: BlockDevice) -> Result<u64, String> {
    let port = ZonedDevice::new(&device).ok_or(NOT_ZONED)?;
    let mounted = ZoneFs::mount(&sim, &port, Options::default()).await;
    mounted.map_err(|e| e.to_string())?;
    let first = port.report(0, 1).await.map_err(|e| e.to_string())?;
    let open =
        |zone: &&ssd::ZoneInfo| zone.kind == ZoneKind::Sequential && zone.state != ZoneState::Full;
    match first.iter().find(open) {
        Some(zone) => Err(format!(
            "zone 0, which holds the superblock, is {} and not full",
            zone.state.name()
        )),
        None => Ok(0),
    }
}

/// Mounts the file system on the drive of `mount`, until it is unmounted.
pub(super) fn mount(mount: &Mount, options: Options, signals: Signals) -> Result<(), Failure> {
    let at = |e: &dyn std::fmt::Display| Failure::at(&mount.path, e);
    let path = mount.path.clone();
    let started: Result<_, MountError> = Engine::start(
        mount.run.pace()?,
        move |kernel| power_on(kernel, &path, options),
        |kernel, zones: Rc<Zones>| zones.close(kernel),
    );
    let (engine, zones): (Engine<Result<(), FileError>>, _) = started.map_err(|e| at(&e))?;
    let name = mount.path.display().to_string();
    let show = Show::FileSystem(&name, mount.options.all);
    let live = mount.live(zones.part(Zones::device));
    let shown = fuse::mount(ZonesFs::new(zones.clone()), &mount.dir, show, signals);
    let shown = shown
        .map_err(Failure::from)
        .and_then(|mounted| mount.wait(mounted));
    drop(live);
    // Programs that still use a file get errors from here on.
    zones.stop();
    engine.join()?.map_err(|e| at(&e))?;
    shown
}

fn power_on(kernel: &Kernel, path: &Path, options: Options) -> Result<Zones, MountError> {
    let device = Device::open(kernel, path, engine::Show::Drive)?;
    let sim = kernel.sim();
    let blocks = BlockDevice::new(&sim, HostConfig::default(), device.drive().clone())?;
    let not_zoned = || MountError::Mount(NOT_ZONED.to_owned());
    let port = ZonedDevice::new(&blocks).ok_or_else(not_zoned)?;
    let work = async move { ZoneFs::mount(&sim, &port, options).await };
    let mounted = finish(kernel, work).ok_or(MountError::AtRest)?;
    let fs = mounted.map_err(|e| MountError::Mount(e.to_string()))?;
    Ok(Zones::new(fs, device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_options_match_mkzonefs() {
        let parsed = |list: &str| list.parse::<Format>().map(|format| format.0);
        let all = parsed("aggr_cnv,uid=1000,gid=7,perm=770").expect("known");
        assert!(all.aggregates);
        assert_eq!((all.uid, all.gid, all.perm), (1000, 7, 0o770));
        assert_eq!(parsed("perm=640"), Ok(Superblock::default()));
        for list in [
            "",
            "aggr_cnv=1",
            "uid",
            "uid=x",
            "perm=1777",
            "perm=789",
            "invalid_feature",
            "aggr_cnv,,uid=0",
        ] {
            assert!(parsed(list).is_err(), "{list}");
        }
    }

    #[test]
    fn a_long_name_is_refused() {
        let named = |len| Format::default().named(&"x".repeat(len), [0; 16]);
        assert!(named(32).is_ok() && named(33).is_err());
    }
}
