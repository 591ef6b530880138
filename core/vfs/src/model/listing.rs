//! Renames in a directory while it is listed.

use crate::body::Body;
use crate::errno::Result;
use crate::flags::OpenFlags;
use crate::process::Process;
use crate::rename::RenameFlags;

/// Creates `count` files in an empty directory, and renames each file away and back when the
/// listing returns it. Returns the number of entries listed, `.` and `..` included; gives up at
/// twice the number of files.
///
/// # Errors
/// The first error of a call.
pub async fn list_renaming<B: Body>(process: &Process<B>, count: usize) -> Result<usize> {
    for number in 0..count {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        let path = format!("/{number}");
        let fd = process.open(path.as_bytes(), flags, 0o600).await?;
        process.close(fd).await?;
    }
    let how = RenameFlags::default();
    let (dir, mut listed) = (process.open(b"/", OpenFlags::READ, 0).await?, 0);
    while listed < 2 * (count + 2) {
        let some = process.read_dir(dir, 1).await?;
        let Some(entry) = some.first() else { break };
        listed += 1;
        if entry.name.starts_with(b".") {
            continue;
        }
        let path = [b"/", &entry.name[..]].concat();
        process.rename(&path, b"/moving", how).await?;
        process.rename(b"/moving", &path, how).await?;
    }
    process.close(dir).await?;
    Ok(listed)
}
