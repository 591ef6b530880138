//! What a file system does of its own accord before it is checked.

use extfs::ext4::{self, Options};
use extfs::pmfs;
use host::DrivePort;
use hyfim::Intra;
use novafs::NovaFs;
use sim::Sim;
use stack::Attached;
use vfs::Body;

/// Replays the journal and finishes what was interrupted, if there is a journal
/// that wants it. How many transactions were replayed.
pub(super) async fn recover(sim: Sim, port: Attached) -> Result<u64, String> {
    let wanted = ext4::has_to_recover(&port).await;
    if !wanted.map_err(|e| e.to_string())? {
        return Ok(0);
    }
    let mounted = ext4::mount(&sim, &port, Options::default()).await;
    let (body, recovery) = mounted.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())?;
    Ok(recovery.transactions)
}

/// Lets the drive recover and finishes what was interrupted.
pub(super) async fn recover_lines(sim: Sim, port: Attached) -> Result<u64, String> {
    let mounted = bytefs::mount(&sim, &port, bytefs::Options::default()).await;
    let (body, _) = mounted.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())?;
    Ok(0)
}

/// Undoes what did not commit and finishes what was interrupted: one journal, whoever
/// has written it.
pub(super) async fn undo_lines(sim: Sim, port: Attached) -> Result<u64, String> {
    let mounted = pmfs::mount(&sim, &port, pmfs::Options::default()).await;
    let (body, undone) = mounted.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())?;
    Ok(undone.transactions)
}

/// Rolls forward what was forced since the last checkpoint. How many files were.
pub(super) async fn roll_forward(sim: Sim, port: Attached) -> Result<u64, String> {
    let mounted = lfs::mount_drive(&sim, &port, lfs::MountOptions::default()).await;
    let (body, recovery) = mounted.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())?;
    Ok(recovery.files)
}

/// The same of Persimmon.
pub(super) async fn roll_zones_forward(sim: Sim, port: Attached) -> Result<u64, String> {
    let zones = port.zones().ok_or("the drive has no zones")?;
    let mounted = persimmon::mount(&sim, &zones, persimmon::Options::default()).await;
    let (body, recovery) = mounted.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())?;
    Ok(recovery.files)
}

/// Undoes what the journals hold and walks the logs.
pub(super) async fn recover_logs(sim: Sim, port: Attached) -> Result<u64, String> {
    let mounted = NovaFs::mount(&sim, port, novafs::MountOptions::default()).await;
    let body = mounted.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())?;
    Ok(0)
}

/// Lays what was forced over the last commit. How many files were.
pub(super) async fn replay(sim: Sim, port: Attached) -> Result<u64, String> {
    let mounted = cowfs::mount(&sim, &port, cowfs::MountOptions::default()).await;
    let (body, recovery) = mounted.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())?;
    Ok(recovery.files)
}

/// The same of HyFiM.
pub(super) async fn replay_exchanges(sim: Sim, port: Attached) -> Result<u64, String> {
    let options = cowfs::MountOptions::default();
    let mounted = cowfs::mount_with(&sim, Intra::new(port), options).await;
    let (body, recovery) = mounted.map_err(|e| e.to_string())?;
    body.unmount().await.map_err(|e| e.to_string())?;
    Ok(recovery.files)
}
