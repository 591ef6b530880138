//! Recorded calls: repeated on another file system, they lead to the same tree.

use crash::{Call, Played, Recorder, Recording, Shown, Tape, play};
use sim::Kernel;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, MIB};
use vfs::mem::MemFs;
use vfs::{
    Access, Body, CacheConfig, Clock, Compute, FallocateMode, FileKind, Ino, OpenFlags, Process,
    RenameFlags, Result, Source, Vfs, XattrFlags,
};

const CREATE: OpenFlags = OpenFlags::CREAT;

fn mount<B: Body>(kernel: &Kernel, body: B) -> Vfs<B> {
    let (config, clock) = (CacheConfig::default(), Clock::default());
    Vfs::mount(&kernel.sim(), body, config, clock, Compute::free())
}

/// Calls of every kind; lines are printed by `print`.
async fn work<B: Body>(vfs: &Vfs<B>, print: impl Fn(&str)) -> Result<()> {
    let process = Process::new(vfs, Access::root());
    let both = OpenFlags::BOTH | OpenFlags::CREATE;
    process.mkdir(b"/dir", 0o750).await?;
    let fd = process.open(b"/dir/file", both, 0o640).await?;
    process.write(fd, Source::Bytes(&[1; 9_000])).await?;
    process.fsync(fd).await?;
    print("saved\n");
    let handle = vfs.lookup(&Access::root(), vfs.root(), b"dir").await?;
    let (file, _) = vfs.lookup(&Access::root(), handle.0, b"file").await?;
    let open = vfs.open(&Access::root(), file, OpenFlags::BOTH).await?;
    let punch = FallocateMode::Punch;
    vfs.fallocate(&open, punch, 4_096, 4_096).await?;
    let longer = FallocateMode::Allocate { keep_size: false };
    vfs.fallocate(&open, longer, 0, 20_000).await?;
    vfs.release(open).await;
    process.truncate(b"/dir/file", 18_000).await?;
    process.symlink(b"dir/file", b"/link").await?;
    process.link(b"/dir/file", b"/other").await?;
    process.chmod(b"/dir/file", 0o4_755).await?;
    let any = XattrFlags::Any;
    let root = Access::root();
    vfs.set_xattr(&root, file, b"user.a", b"1", any).await?;
    vfs.set_xattr(&root, file, b"user.b", b"2", any).await?;
    vfs.remove_xattr(&root, file, b"user.a").await?;
    // A file that is used after its last name is gone.
    process.unlink(b"/other").await?;
    process.unlink(b"/dir/file").await?;
    process.write(fd, Source::Bytes(&[2; 100])).await?;
    process.close(fd).await?;
    print("removed\n");
    for (name, byte) in [(b"/a", 3), (b"/b", 4)] {
        let fd = process.open(name, CREATE, 0o600).await?;
        process.write(fd, Source::Bytes(&[byte; 5_000])).await?;
        process.close(fd).await?;
    }
    let exchange = RenameFlags {
        exchange: true,
        ..RenameFlags::default()
    };
    let top = vfs.root();
    vfs.rename(&root, top, b"a", top, b"b", exchange).await?;
    process
        .rename(b"/b", b"/dir/b", RenameFlags::default())
        .await?;
    vfs.sync().await?;
    print("done\n");
    Ok(())
}

/// Records the calls of [`work`]; returns the tree that they led to as well.
fn recorded() -> (Recording, Shown) {
    let kernel = Kernel::new();
    let printed: Rc<RefCell<Vec<u8>>> = Rc::default();
    let heard = Rc::clone(&printed);
    let tape = Rc::new(Tape::new(move || heard.take()));
    let body = Recorder::new(MemFs::new(Bytes(MIB)), Rc::clone(&tape));
    let vfs = mount(&kernel, body);
    vfs.observe(Rc::clone(&tape) as Rc<dyn vfs::Observer>);
    let root = vfs.root();
    kernel.block_on(async move {
        let print = |line: &str| printed.borrow_mut().extend(line.bytes());
        work(&vfs, print).await.expect("the calls succeed");
        let recording = tape.take(root);
        let shown = Shown::read(vfs.body()).await.expect("it can be read");
        (recording, shown)
    })
}

/// Every name of a tree, with its contents and attributes but without inode numbers.
fn told(shown: &Shown, root: Ino) -> BTreeMap<String, String> {
    let mut paths = BTreeMap::from([(root, String::new())]);
    // A directory may come after its entries, so several rounds complete the paths.
    for _ in 0..4 {
        for (dir, name, seen) in shown.iter() {
            if let Some(path) = paths.get(&dir).filter(|_| seen.kind == FileKind::Directory) {
                let path = format!("{path}/{}", String::from_utf8_lossy(name));
                paths.insert(seen.ino, path);
            }
        }
    }
    let one = |(dir, name, seen): (Ino, &[u8], &crash::Seen)| {
        let path = format!("{}/{}", paths[&dir], String::from_utf8_lossy(name));
        let bytes: Vec<u8> = seen
            .pages
            .iter()
            .flat_map(nand::Payload::to_bytes)
            .collect();
        let bytes = bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        let (kind, size, target) = (seen.kind, seen.size, &seen.target);
        let what = format!("{kind:?} {size} {bytes} {target:?} {:?}", seen.attributes);
        (path, what)
    };
    shown.iter().map(one).collect()
}

#[test]
fn repeated_calls_lead_to_the_same_tree() {
    let (recording, shown) = recorded();
    let kernel = Kernel::new();
    let vfs = mount(&kernel, MemFs::new(Bytes(MIB)));
    let root = vfs.root();
    let calls = recording.clone();
    let again = kernel.block_on(async move {
        let played = Played::default();
        play(&calls, &vfs, &played).await;
        assert_eq!(played.why(), None);
        assert_eq!((played.entries(), played.forces()), (calls.calls.len(), 2));
        Shown::read(vfs.body()).await.expect("it can be read")
    });
    assert_eq!(told(&again, root), told(&shown, recording.root));
    assert!(!told(&again, root).is_empty());
}

#[test]
fn output_stands_behind_the_calls_before_it() {
    let (recording, _) = recorded();
    let print = |wanted: &[u8]| {
        let is_it = |call: &Call| matches!(call, Call::Print(bytes) if bytes == wanted);
        recording.calls.iter().position(is_it).expect("it is there")
    };
    let saved = print(b"saved\n");
    assert!(matches!(recording.calls[saved - 1], Call::Force { .. }));
    assert_eq!(print(b"done\n"), recording.calls.len() - 1);
    assert_eq!(recording.output(saved), b"");
    assert_eq!(recording.output(saved + 1), b"saved\n");
    assert_eq!(recording.output(usize::MAX), b"saved\nremoved\ndone\n");
    assert_eq!(recording.len(), recording.calls.len() - 3);
}

#[test]
fn last_call_is_told_with_its_paths() {
    let (recording, _) = recorded();
    let told = |entries| recording.last_call(entries);
    assert_eq!(told(0), None);
    assert_eq!(told(1).as_deref(), Some("mkdir dir"));
    let all: Vec<String> = (1..=recording.calls.len()).filter_map(told).collect();
    for expected in [
        "create dir/file",
        "write 9000 bytes at 0 to dir/file",
        "fsync dir/file",
        "punch a hole in dir/file",
        "link dir/file to other",
        "unlink dir/file",
        "exchange a to b",
        "rename b to dir/b",
        "sync",
    ] {
        assert!(
            all.iter().any(|told| told == expected),
            "{expected}: {all:?}"
        );
    }
}

#[test]
fn call_that_fails_again_is_counted() {
    let (recording, _) = recorded();
    let kernel = Kernel::new();
    let vfs = mount(&kernel, MemFs::new(Bytes(8_192)));
    kernel.block_on(async move {
        let played = Played::default();
        play(&recording, &vfs, &played).await;
        assert!(played.failed() > 0);
        let why = played.why().expect("a call failed");
        assert!(why.contains("ENOSPC"), "{why}");
    });
}

#[test]
fn any_bytes_are_refused_or_are_a_recording() {
    let empty = Recording {
        root: Ino(1),
        calls: Vec::new(),
    };
    let head = empty.to_bytes();
    bolero::check!()
        .with_type::<Vec<u8>>()
        .with_iterations(20_000)
        .for_each(|bytes| {
            let bytes = [&head[..], bytes].concat();
            if let Ok(recording) = Recording::from_bytes(&bytes) {
                assert_eq!(Recording::from_bytes(&recording.to_bytes()), Ok(recording));
            }
        });
}
