//! e2fsprogs and loop mounts; a test is skipped where they are missing.

use extfs::{BLOCK, Blocks};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use judges::{has, run, save, text};

/// Asserts that `e2fsck -fn` reports no fault. Its offer to pack a tree of extents more
/// tightly does not count.
pub(crate) fn assert_clean(image: &Path) {
    let output = run(Command::new("e2fsck").arg("-fn").arg(image));
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    let complaints = ["?", "IGNORED", "WARNING"];
    let is_complaint = |line: &str| {
        let offers = line.contains("could be narrower.  Optimize? no");
        !offers && complaints.iter().any(|complaint| line.contains(complaint))
    };
    assert!(!text.lines().any(is_complaint), "{text}");
}

/// Output of `debugfs` for a request.
pub(crate) fn debugfs(image: &Path, request: &str) -> String {
    let mut command = Command::new("debugfs");
    let output = run(command.args(["-R", request]).arg(image));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes blocks to a sparse file of `blocks` blocks.
pub(crate) fn save_blocks(dir: &Path, name: &str, contents: &Blocks, blocks: u64) -> PathBuf {
    let path = dir.join(name);
    let mut file = File::create(&path).unwrap();
    for (block, bytes) in contents {
        file.seek(SeekFrom::Start(block * BLOCK as u64)).unwrap();
        file.write_all(&bytes[..]).unwrap();
    }
    file.set_len(blocks * BLOCK as u64).unwrap();
    path
}

/// A mount through a loop device; a drop unmounts and detaches it.
pub(crate) struct Mounted {
    pub(crate) dir: PathBuf,
    device: String,
}

impl Mounted {
    /// Mounts `image` on `dir`; `None`, with a printed reason, without the right to mount.
    pub(crate) fn new(image: &Path, dir: &Path) -> Option<Self> {
        std::fs::create_dir_all(dir).unwrap();
        // Each mount gets a loop device of its own: `mount -o loop` refuses an image that
        // an earlier device still holds.
        let found = run(Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image));
        if !found.status.success() {
            return Self::skip(&text(&found));
        }
        let mounted = Self {
            dir: dir.into(),
            device: String::from_utf8_lossy(&found.stdout).trim().to_owned(),
        };
        let mut command = Command::new("mount");
        let output = run(command
            .args(["-t", "ext4", &mounted.device])
            .arg(&mounted.dir));
        match output.status.success() {
            true => Some(mounted),
            false => Self::skip(&text(&output)),
        }
    }

    fn skip(text: &str) -> Option<Self> {
        let forbidden = ["superuser", "ermission", "loop device"];
        assert!(forbidden.iter().any(|word| text.contains(word)), "{text}");
        judges::skip(&format!("no loop mount: {text}"));
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The kernel reports "busy" while another process uses the mount.
        for _ in 0..100 {
            let unmounted = run(Command::new("umount").arg(&self.dir));
            if unmounted.status.success() {
                break;
            }
            let _ = run(Command::new("sleep").arg("0.1"));
        }
        let _ = run(Command::new("losetup").args(["-d", &self.device]));
    }
}
