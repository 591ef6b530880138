//! Recovery of each file system before it is checked.

use extfs::ext4::{self, Options};
use extfs::pmfs;
use novafs::NovaFs;
use sim::Sim;
use stack::Attached;
use vfs::{AnyBody, Body};

/// Replays the journal of ext4 and completes interrupted operations, if necessary. Returns the
/// number of replayed transactions.
pub(super) async fn recover(sim: Sim, port: Attached) -> Result<u64, String> {
    let wanted = ext4::has_to_recover(&port.disk()).await;
    if !wanted.map_err(|e| e.to_string())? {
        return Ok(0);
    }
    let mounted = ext4::mount(&sim, &port.disk(), Options::default()).await;
    let (body, recovery) = mounted.map_err(|e| e.to_string())?;
    AnyBody::from(body)
        .unmount()
        .await
        .map_err(|e| e.to_string())?;
    Ok(recovery.transactions)
}

/// Lets the drive recover its log, and ByteFS complete interrupted operations. Returns 0.
pub(super) async fn recover_lines(sim: Sim, port: Attached) -> Result<u64, String> {
    let mounted = bytefs::mount(&sim, &port.bytes(), bytefs::Options::default()).await;
    let (body, _) = mounted.map_err(|e| e.to_string())?;
    bytefs::into_any(body)
        .unmount()
        .await
        .map_err(|e| e.to_string())?;
    Ok(0)
}

/// Undoes uncommitted transactions of the undo journal, which PMFS and ByteFS-Dual share, and
/// completes interrupted operations. Returns the number of undone transactions.
pub(super) async fn undo_lines(sim: Sim, port: Attached) -> Result<u64, String> {
    let mounted = pmfs::mount(&sim, &port.bytes(), pmfs::Options::default()).await;
    let (body, undone) = mounted.map_err(|e| e.to_string())?;
    AnyBody::from(body)
        .unmount()
        .await
        .map_err(|e| e.to_string())?;
    Ok(undone.transactions)
}

/// Rolls forward the files of F2FS that were forced since the last checkpoint; returns their
/// number.
pub(super) async fn roll_forward(sim: Sim, port: Attached) -> Result<u64, String> {
    let mounted = lfs::mount_drive(
        &sim,
        port.disk(),
        port.zone_disk(),
        lfs::MountOptions::default(),
    )
    .await;
    let (body, recovery) = mounted.map_err(|e| e.to_string())?;
    AnyBody::from(body)
        .unmount()
        .await
        .map_err(|e| e.to_string())?;
    Ok(recovery.files)
}

/// Rolls forward the files of Persimmon that were forced since the last checkpoint; returns their
/// number.
pub(super) async fn roll_zones_forward(sim: Sim, port: Attached) -> Result<u64, String> {
    let zones = port.zone_disk().ok_or("the drive has no zones")?;
    let mounted = persimmon::mount(&sim, &zones, persimmon::Options::default()).await;
    let (body, recovery) = mounted.map_err(|e| e.to_string())?;
    persimmon::into_any(body)
        .unmount()
        .await
        .map_err(|e| e.to_string())?;
    Ok(recovery.files)
}

/// Undoes incomplete operations by the journals of NOVA, and walks its logs. Returns 0.
pub(super) async fn recover_logs(sim: Sim, port: Attached) -> Result<u64, String> {
    let mounted = NovaFs::mount(&sim, &port.bytes(), novafs::MountOptions::default()).await;
    let body = mounted.map_err(|e| e.to_string())?;
    AnyBody::from(body)
        .unmount()
        .await
        .map_err(|e| e.to_string())?;
    Ok(0)
}

/// Replays the log trees of Btrfs over the last commit; returns the number of files in them.
pub(super) async fn replay(sim: Sim, port: Attached) -> Result<u64, String> {
    let mounted = cowfs::mount(&sim, &port.disk(), cowfs::MountOptions::default()).await;
    let (body, recovery) = mounted.map_err(|e| e.to_string())?;
    AnyBody::from(body)
        .unmount()
        .await
        .map_err(|e| e.to_string())?;
    Ok(recovery.files)
}

/// The same for HyFiM, through its mapping.
pub(super) async fn replay_exchanges(sim: Sim, port: Attached) -> Result<u64, String> {
    let options = cowfs::MountOptions::default();
    let mounted = hyfim::mount_files(&sim, &port.swaps(), options).await;
    let (body, recovery) = mounted.map_err(|e| e.to_string())?;
    hyfim::into_any(body)
        .unmount()
        .await
        .map_err(|e| e.to_string())?;
    Ok(recovery.files)
}
