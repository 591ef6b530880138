//! Files of others, shown to be read.

use crate::support::has_fuse;
use engine::Signals;
use fuse::{MountOptions, Show, Tree, TreeFs};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Files in memory; the number of each is the place of its contents.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>);

impl Kept {
    fn put(&self, path: &Path, bytes: &[u8]) {
        let path = path.as_os_str().as_bytes().to_vec();
        self.0.lock().unwrap().insert(path, bytes.to_vec());
    }
}

impl Tree for Kept {
    fn list(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(self.0.lock().unwrap().keys().cloned().collect())
    }

    fn find(&self, path: &[u8]) -> io::Result<(u64, u64)> {
        let files = self.0.lock().unwrap();
        let number = files.keys().position(|it| it == path);
        let number = number.ok_or_else(|| io::Error::from_raw_os_error(libc_enoent()))?;
        Ok((number as u64, files[path].len() as u64))
    }

    fn read(&self, number: u64, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let files = self.0.lock().unwrap();
        let bytes = files.values().nth(number as usize).unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        Ok(rest[..rest.len().min(len)].to_vec())
    }
}

fn libc_enoent() -> i32 {
    nix::errno::Errno::ENOENT as i32
}

#[test]
fn files_of_others_are_found_and_read_and_nothing_else() {
    if !has_fuse() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let stands = |name: &str| -> PathBuf { folder.path().join(name) };
    fs::create_dir(stands("db")).unwrap();
    fs::create_dir(stands("mount")).unwrap();
    fs::write(stands("db/1.sst"), [0; 9]).unwrap();
    fs::set_permissions(stands("db/1.sst"), Permissions::from_mode(0o640)).unwrap();
    let kept = Kept::default();
    let long: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
    kept.put(&stands("db/1.sst"), b"in a zone");
    kept.put(&stands("db/deep/2.log"), &long);
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let show = Show::FileSystem("kept", options);
    let signals = Signals::hold().unwrap();
    let fs = TreeFs::new(kept.clone());
    let mounted = fuse::mount(fs, &stands("mount"), show, signals).unwrap();
    let shown = |name: &str| {
        let below = stands(name);
        stands("mount").join(below.strip_prefix("/").unwrap())
    };
    let names = |name: &str| -> Vec<_> {
        let entries = fs::read_dir(shown(name)).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("db"), ["1.sst", "deep"]);
    assert_eq!(names("db/deep"), ["2.log"]);
    assert_eq!(fs::read(shown("db/1.sst")).unwrap(), b"in a zone");
    assert_eq!(fs::read(shown("db/deep/2.log")).unwrap(), long);
    let attributes = fs::metadata(shown("db/1.sst")).unwrap();
    assert_eq!(
        (attributes.len(), attributes.permissions().mode() & 0o777),
        (9, 0o440)
    );
    // What comes to a file is seen, also by who has it open.
    let open = File::open(shown("db/1.sst")).unwrap();
    kept.put(&stands("db/1.sst"), b"in a zone, and more");
    let mut end = [0; 4];
    open.read_exact_at(&mut end, 15).unwrap();
    assert_eq!(&end, b"more");
    assert_eq!(fs::metadata(shown("db/1.sst")).unwrap().len(), 19);
    for refused in [
        fs::read(shown("db/none")).map(drop),
        fs::read_dir(shown("other")).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
    }
    let written = File::options().write(true).open(shown("db/1.sst"));
    assert_eq!(written.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    assert!(fs::write(shown("db/new"), "x").is_err());
    drop(open);
    nix::mount::umount(&stands("mount")).unwrap();
    mounted.wait(|| ()).unwrap();
}
