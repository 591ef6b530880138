//! Renewed use of a file system after its recovery.
//!
//! Invariant: data that a cut left behind the end of a file, out of sight, does not appear when the
//! file grows; and files made and synced now can be read from the medium.

use vfs::model::sizes;
use vfs::{Access, Body, Errno, Fd, OpenFlags, Process, Result, Source, Vfs};

/// Bytes of a page of the page cache.
const PAGE: u64 = vfs::PAGE;
/// The pattern that this module writes.
const PATTERN: u64 = 0x0101_0101_0101_0101;

/// Grows every file that ends within a page, makes a new one, and reads them back; returns the
/// problems. Files under `kept` must reject changes.
pub(super) async fn use_again<B: Body>(vfs: &Vfs<B>, kept: &[u8]) -> Vec<String> {
    let process = Process::new(vfs, Access::default());
    let refused = |errno: Errno| vec![format!("after recovery, a call fails with {errno}")];
    let grown = grow(vfs, &process, kept).await;
    let mut wrong = grown.unwrap_or_else(|(path, errno)| {
        let path = String::from_utf8_lossy(&path);
        vec![format!(
            "after recovery, extending {path} fails with {errno}"
        )]
    });
    wrong.extend(match make(vfs, &process).await {
        Ok(true) => Vec::new(),
        Ok(false) => vec![
            "after recovery, a new synced file reads back with other \
            contents"
                .to_owned(),
        ],
        Err(errno) => refused(errno),
    });
    wrong
}

/// Grows every file; an error names the file that could not be used.
async fn grow<B: Body>(
    vfs: &Vfs<B>,
    process: &Process<B>,
    kept: &[u8],
) -> std::result::Result<Vec<String>, (Vec<u8>, Errno)> {
    let any = |errno| (b"any file".to_vec(), errno);
    let mut ragged = sizes(process).await.map_err(any)?;
    ragged.retain(|(_, size)| !size.is_multiple_of(PAGE));
    let (mut grown, mut wrong) = (Vec::new(), Vec::new());
    for (path, size) in ragged {
        let changed = process.truncate(&path, size.next_multiple_of(PAGE)).await;
        if path.starts_with(kept) {
            let told = changed.map_or_else(|errno| errno.to_string(), |()| "done".to_owned());
            if changed != Err(Errno::EROFS) {
                let path = String::from_utf8_lossy(&path);
                wrong.push(format!("extending {path} of a snapshot: {told}"));
            }
            continue;
        }
        match changed {
            // A full log has no space for the inode either.
            Err(Errno::ENOSPC) => break,
            Err(errno) => return Err((path, errno)),
            Ok(()) => grown.push((path, size)),
        }
    }
    vfs.sync().await.map_err(any)?;
    vfs.drop_caches().await.map_err(any)?;
    for (path, size) in &grown {
        let tail = size.next_multiple_of(PAGE) - size;
        let bytes = tail_of(process, path, *size, tail).await;
        let bytes = bytes.map_err(|errno| (path.clone(), errno))?;
        if let Some(at) = bytes.iter().position(|&byte| byte != 0) {
            let (path, at) = (String::from_utf8_lossy(path), size + at as u64);
            wrong.push(format!(
                "after an extension, {path} of {size} bytes has a byte other than zero at {at}"
            ));
        }
    }
    Ok(wrong)
}

async fn tail_of<B: Body>(p: &Process<B>, path: &[u8], at: u64, len: u64) -> Result<Vec<u8>> {
    let fd = p.open(path, OpenFlags::READ, 0).await?;
    let bytes = p.read_bytes(fd, at, len as usize).await?;
    p.close(fd).await?;
    Ok(bytes)
}

/// Makes a file, syncs it, and reads it from the medium; returns whether it is intact. No space
/// for the file counts as intact.
async fn make<B: Body>(vfs: &Vfs<B>, process: &Process<B>) -> Result<bool> {
    let name = b"/made after recovery";
    let fd = match process
        .open(name, OpenFlags::BOTH | OpenFlags::CREATE, 0o644)
        .await
    {
        Err(Errno::ENOSPC) => return Ok(true),
        fd => fd?,
    };
    let written = write(process, fd).await;
    vfs.drop_caches().await?;
    let read = process.read_bytes(fd, 0, 2 * PAGE as usize).await?;
    process.close(fd).await?;
    process.unlink(name).await?;
    match written {
        Err(Errno::ENOSPC) => Ok(true),
        written => written.map(|()| read == [1; 2 * PAGE as usize]),
    }
}

async fn write<B: Body>(process: &Process<B>, fd: Fd) -> Result<()> {
    let source = Source::Fill {
        pattern: PATTERN,
        len: 2 * PAGE,
    };
    let written = process.pwrite(fd, 0, source).await?;
    process.fsync(fd).await?;
    if written < 2 * PAGE {
        Err(Errno::ENOSPC)
    } else {
        Ok(())
    }
}
