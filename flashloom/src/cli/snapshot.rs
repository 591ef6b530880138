//! `snapshot`: snapshots of the Btrfs on a drive in a file.

use super::Answer;
use super::bench::{AT_REST, Bench};
use super::failure::Failure;
use super::file;
use super::output::Shown;
use clap::Args;
use engine::Access;
use serde::Serialize;
use sim::Sim;
use stack::Attached;
use std::path::PathBuf;
use std::time::SystemTime;
use vfs::{AnyBody, Body};

/// Take or drop a Btrfs snapshot on an unmounted drive
///
/// The snapshot is a directory in the root directory with the current state of all files. Later
/// changes to the files do not change the snapshot, and changes to the snapshot do not change the
/// files.
#[derive(Args)]
pub(crate) struct Snapshot {
    /// Drive file, as `flashloom drive create` makes it
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// Name of the snapshot
    #[arg(value_name = "NAME")]
    name: String,
    /// Make the snapshot read-only
    #[arg(long, conflicts_with = "drop")]
    read_only: bool,
    /// Drop this snapshot and free the space that only it uses
    #[arg(long)]
    drop: bool,
    #[command(flatten)]
    shown: Shown,
}

/// JSON document of `snapshot`.
#[derive(Serialize)]
struct Done {
    file: String,
    name: String,
    dropped: bool,
}

impl Snapshot {
    pub(crate) fn run(&self) -> Answer {
        let mut file = file::open(&self.path, Access::Change)?;
        let bench = Bench::load(&self.path, &file)?;
        let sim = bench.kernel.sim();
        let port = bench.attach_as_is(&self.path)?;
        let (name, how) = (self.name.clone().into_bytes(), (self.drop, self.read_only));
        let changed = bench.finish(change(sim, port.clone(), name, how));
        let changed = changed.ok_or_else(|| Failure::at(&self.path, AT_REST))?;
        changed.map_err(|e| Failure::at(&self.path, e))?;
        bench.save(&self.path, &mut file, Some(&port))?;
        let done = Done {
            file: self.path.display().to_string(),
            name: self.name.clone(),
            dropped: self.drop,
        };
        let text = |done: &Done| match done.dropped {
            true => format!("{}: dropped the snapshot {}\n", done.file, done.name),
            false => format!("{}: took the snapshot {}\n", done.file, done.name),
        };
        self.shown
            .answer("flashloom.snapshot/1", &done, |_| text(&done))
    }
}

/// Mounts the file system, makes or drops the snapshot, and unmounts it.
async fn change(
    sim: Sim,
    port: Attached,
    name: Vec<u8>,
    (drops, read_only): (bool, bool),
) -> Result<(), String> {
    let now = fuse::timestamp(SystemTime::now());
    let options = cowfs::MountOptions::default();
    let body = match port.memory() {
        None => cowfs::mount(&sim, &port.disk(), options)
            .await
            .map(|(body, _)| AnyBody::from(body)),
        Some(_) => hyfim::mount_files(&sim, &port.swaps(), options)
            .await
            .map(|(body, _)| hyfim::into_any(body)),
    };
    let body = body.map_err(|e| e.to_string())?;
    let snapshots = cowfs::snapshots(&body).or_else(|| hyfim::snapshots(&body));
    let snapshots = snapshots.ok_or("it has no snapshots")?;
    let done = match drops {
        true => snapshots.drop_snapshot(&name, now).await,
        false => snapshots.snapshot(&name, read_only, now).await.map(drop),
    };
    done.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())
}
