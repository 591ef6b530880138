//! A process over the cache agrees with the model, and the judge of crashes finds broken promises.

use crate::bench::{cache, mount};
use proptest::prelude::*;
use sim::Kernel;
use units::{Bytes, Ns};
use vfs::mem::MemFs;
use vfs::model::crash::Seen;
use vfs::model::{Model, Op, Order, Tree, Violation, check, perform};
use vfs::{
    Access, CacheConfig, FallocateMode, FileKind, Ino, OpenFlags, Process, RenameFlags, XattrFlags,
};

/// Steps of a random program, with small arguments.
#[derive(Clone, Debug)]
enum Step {
    Do(usize, Op),
    DropCaches,
    Sleep(u64),
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        8 => prop::sample::select(vec!["a", "b", "c"]),
        1 => prop::sample::select(vec![".", ".."]),
    ]
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    let names = prop::collection::vec(name(), 1..4);
    names.prop_map(|names| format!("/{}", names.join("/")).into_bytes())
}

fn flags() -> impl Strategy<Value = OpenFlags> {
    let access = prop::sample::select(vec![
        OpenFlags::READ,
        OpenFlags::WRITE,
        OpenFlags::BOTH,
        OpenFlags::BOTH,
    ]);
    let some = prop::sample::subsequence(
        vec![
            OpenFlags::CREATE,
            OpenFlags::CREATE,
            OpenFlags::EXCLUSIVE,
            OpenFlags::TRUNCATE,
            OpenFlags::APPEND,
            OpenFlags::SYNC,
            OpenFlags::NO_FOLLOW,
        ],
        0..4,
    );
    (access, some).prop_map(|(access, some)| some.into_iter().fold(access, |a, b| a | b))
}

fn rename_flags() -> impl Strategy<Value = RenameFlags> {
    prop::sample::select(vec![
        (false, false),
        (false, false),
        (true, false),
        (false, true),
    ])
    .prop_map(|(no_replace, exchange)| RenameFlags {
        no_replace,
        exchange,
    })
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![0..20_000_u64, (0..20_u64).prop_map(|page| page * 4096)]
}

fn len() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..100_u64,
        0..15_000_u64,
        (0..8_u64).prop_map(|page| page * 4096)
    ]
}

fn mode() -> impl Strategy<Value = FallocateMode> {
    prop::sample::select(vec![
        FallocateMode::Punch,
        FallocateMode::Allocate { keep_size: true },
        FallocateMode::Allocate { keep_size: false },
        FallocateMode::Zero { keep_size: true },
        FallocateMode::Zero { keep_size: false },
    ])
}

fn file_op() -> impl Strategy<Value = Op> {
    let fd = 0..4_u32;
    prop_oneof![
        2 => fd.clone().prop_map(|fd| Op::Close { fd }),
        6 => (fd.clone(), offset(), len())
            .prop_map(|(fd, offset, len)| Op::Read { fd, offset, len }),
        8 => (fd.clone(), offset(), any::<u8>(), len())
            .prop_map(|(fd, offset, byte, len)| Op::Write { fd, offset, byte, len }),
        2 => (fd.clone(), offset()).prop_map(|(fd, size)| Op::Ftruncate { fd, size }),
        2 => (fd.clone(), mode(), offset(), len())
            .prop_map(|(fd, mode, offset, len)| Op::Fallocate { fd, mode, offset, len }),
        1 => (fd, any::<bool>()).prop_map(|(fd, data_only)| Op::Fsync { fd, data_only }),
    ]
}

fn xattr_op() -> impl Strategy<Value = Op> {
    let flags = prop::sample::select(vec![
        XattrFlags::Any,
        XattrFlags::Create,
        XattrFlags::Replace,
    ]);
    let dir = prop::sample::select(vec![b"/a".to_vec(), b"/b".to_vec(), b"/".to_vec()]);
    let name = b"trusted.x".to_vec();
    (dir, flags, 0..3_u8, any::<u8>()).prop_map(move |(path, flags, what, byte)| {
        let name = name.clone();
        match what {
            0 => Op::GetXattr { path, name },
            1 => Op::RemoveXattr { path, name },
            _ => Op::SetXattr {
                path,
                name,
                value: vec![byte; 3],
                flags,
            },
        }
    })
}

fn name_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (path(), flags()).prop_map(|(path, flags)| Op::Open { path, flags }),
        6 => path().prop_map(|path| Op::Mkdir { path }),
        2 => path().prop_map(|path| Op::Rmdir { path }),
        4 => path().prop_map(|path| Op::Unlink { path }),
        6 => (path(), path(), rename_flags())
            .prop_map(|(from, to, flags)| Op::Rename { from, to, flags }),
        3 => (path(), path()).prop_map(|(path, new)| Op::Link { path, new }),
        2 => (path(), path()).prop_map(|(target, path)| Op::Symlink { target, path }),
        1 => path().prop_map(|path| Op::Symlink { target: b"../b".to_vec(), path }),
        1 => path().prop_map(|path| Op::Readlink { path }),
        4 => path().prop_map(|path| Op::Stat { path }),
        2 => path().prop_map(|path| Op::ReadDir { path }),
        1 => (path(), 0..0o7777_u16).prop_map(|(path, mode)| Op::Chmod { path, mode }),
        2 => (path(), offset()).prop_map(|(path, size)| Op::Truncate { path, size }),
        1 => Just(Op::Sync),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![5 => name_op(), 6 => file_op(), 1 => xattr_op()];
    prop_oneof![
        30 => (0..2_usize, op).prop_map(|(process, op)| Step::Do(process, op)),
        1 => Just(Step::DropCaches),
        1 => (0..40_u64).prop_map(Step::Sleep),
    ]
}

/// A cache so small that pages, inodes and names are evicted soon.
fn tiny() -> CacheConfig {
    CacheConfig {
        inodes: 3,
        names: 4,
        batch: 3,
        ..cache(64)
    }
}

async fn compare(
    sim: sim::Sim,
    body: MemFs,
    config: CacheConfig,
    steps: Vec<Step>,
) -> Result<(), TestCaseError> {
    let vfs = mount(&sim, body, config);
    let processes = [0, 1].map(|_| Process::new(&vfs, Access::root()));
    let mut model = Model::new(2, Order::Journal);
    for step in steps {
        match step {
            Step::Do(process, op) => {
                let expected = model.perform(process, &op);
                let got = perform(&processes[process], &op).await;
                prop_assert_eq!(got, expected, "{:?}", op);
            }
            Step::DropCaches => vfs.drop_caches().await.unwrap(),
            Step::Sleep(secs) => sim.sleep(Ns::secs(secs)).await,
        }
        vfs.check();
    }
    model.perform(0, &Op::Sync).unwrap();
    let tree = Tree::read(&processes[0]).await.unwrap();
    prop_assert_eq!(check(&model, &tree), Vec::<Violation>::new());
    for process in processes {
        process.exit().await;
    }
    vfs.unmount().await.unwrap();
    vfs.check();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn a_process_and_the_model_agree(steps in prop::collection::vec(step(), 1..150)) {
        let kernel = Kernel::new();
        let body = MemFs::new(Bytes(64 << 20));
        kernel.block_on(compare(kernel.sim(), body, cache(4096), steps))?;
        kernel.run();
    }

    #[test]
    fn they_agree_where_nothing_is_cached(
        steps in prop::collection::vec(step(), 1..150),
        small in any::<bool>(),
    ) {
        let kernel = Kernel::new();
        let body = MemFs::slow(&kernel.sim(), Bytes(64 << 20), Ns::us(50)).in_place();
        let config = if small { tiny() } else { cache(4096) };
        kernel.block_on(compare(kernel.sim(), body, config, steps))?;
        kernel.run();
    }

    #[test]
    fn they_agree_when_everything_is_pushed_out(
        steps in prop::collection::vec(step(), 1..150),
        duplicates in any::<bool>(),
    ) {
        let kernel = Kernel::new();
        let body = MemFs::slow(&kernel.sim(), Bytes(64 << 20), Ns::us(50));
        let body = if duplicates { body.with_duplicates() } else { body };
        kernel.block_on(compare(kernel.sim(), body, tiny(), steps))?;
        kernel.run();
    }
}

/// The model after one process has made the calls `ops`.
fn after(order: Order, ops: &[Op]) -> Model {
    let mut model = Model::new(1, order);
    for op in ops {
        model.perform(0, op).unwrap();
    }
    model
}

fn open(path: &str) -> Op {
    Op::Open {
        path: path.into(),
        flags: OpenFlags::BOTH | OpenFlags::CREATE,
    }
}

fn write(fd: u32, byte: u8, len: u64) -> Op {
    Op::Write {
        fd,
        offset: 0,
        byte,
        len,
    }
}

fn fsync(fd: u32) -> Op {
    Op::Fsync {
        fd,
        data_only: false,
    }
}

fn rename(from: &str, to: &str, exchange: bool) -> Op {
    Op::Rename {
        from: from.into(),
        to: to.into(),
        flags: RenameFlags {
            no_replace: false,
            exchange,
        },
    }
}

/// A tree of regular files, given as path, inode and contents.
fn tree(files: &[(&str, u64, &[u8])]) -> Tree {
    let files = files.iter().map(|&(path, ino, data)| {
        let seen = Seen {
            ino: Ino(ino),
            kind: FileKind::Regular,
            data: data.to_vec(),
        };
        (path.into(), seen)
    });
    Tree(files.collect())
}

fn is_fine(model: &Model, files: &[(&str, u64, &[u8])]) -> bool {
    check(model, &tree(files)).is_empty()
}

#[test]
fn forced_contents_are_there() {
    let model = after(Order::Journal, &[open("/a"), write(0, 1, 3), fsync(0)]);
    assert!(is_fine(&model, &[("/a", 7, &[1, 1, 1])]));
    assert!(!is_fine(&model, &[("/a", 7, &[1, 1])]));
    assert!(!is_fine(&model, &[("/a", 7, &[1, 0, 1])]));
    assert!(!is_fine(&model, &[]));
}

#[test]
fn later_writes_are_there_or_not_byte_by_byte() {
    let ops = [open("/a"), write(0, 1, 3), fsync(0), write(0, 2, 5)];
    let model = after(Order::Journal, &ops);
    assert!(is_fine(&model, &[("/a", 7, &[1, 1, 1])]));
    assert!(is_fine(&model, &[("/a", 7, &[1, 2, 1, 0])]));
    assert!(is_fine(&model, &[("/a", 7, &[2, 2, 2, 2, 2])]));
    assert!(!is_fine(&model, &[("/a", 7, &[1, 3, 1])]), "garbage");
    assert!(!is_fine(&model, &[("/a", 7, &[1, 1, 0])]), "never zero");
}

#[test]
fn the_size_is_one_that_the_file_passed_through() {
    let ops = [open("/a"), write(0, 1, 3), fsync(0), write(0, 1, 6)];
    let model = after(Order::Journal, &ops);
    assert!(is_fine(&model, &[("/a", 7, &[1; 4])]));
    assert!(!is_fine(&model, &[("/a", 7, &[1; 2])]));
    assert!(!is_fine(&model, &[("/a", 7, &[1; 7])]));
}

#[test]
fn a_name_leads_to_what_it_led_to_since_it_was_forced() {
    for order in [Order::Journal, Order::Entries] {
        let unlink = Op::Unlink {
            path: b"/a".to_vec(),
        };
        let model = after(order, &[open("/a"), fsync(0), unlink.clone()]);
        assert!(is_fine(&model, &[("/a", 7, &[])]));
        assert!(is_fine(&model, &[]));
        let forced = after(order, &[open("/a"), unlink, Op::Sync]);
        assert!(!is_fine(&forced, &[("/a", 7, &[])]));
    }
}

#[test]
fn a_rename_happens_at_once() {
    for order in [Order::Journal, Order::Entries] {
        let ops = [
            open("/a"),
            write(0, 1, 1),
            fsync(0),
            rename("/a", "/b", false),
        ];
        let model = after(order, &ops);
        assert!(is_fine(&model, &[("/a", 7, &[1])]));
        assert!(is_fine(&model, &[("/b", 7, &[1])]));
        assert!(!is_fine(&model, &[]), "neither name");
    }
}

#[test]
fn what_is_replaced_is_the_old_file_or_the_new_one() {
    let ops = [
        open("/a"),
        write(0, 1, 2),
        Op::Sync,
        open("/b"),
        write(1, 2, 2),
        fsync(1),
        rename("/b", "/a", false),
    ];
    let model = after(Order::Journal, &ops);
    assert!(is_fine(&model, &[("/a", 7, &[1, 1]), ("/b", 8, &[2, 2])]));
    assert!(is_fine(&model, &[("/a", 8, &[2, 2])]));
    assert!(
        !is_fine(&model, &[("/a", 7, &[1, 1])]),
        "the new one was forced"
    );
    assert!(!is_fine(&model, &[("/a", 7, &[1, 2])]), "a mix of both");
    assert!(
        !is_fine(&model, &[("/b", 8, &[2, 2])]),
        "the target is gone"
    );
}

#[test]
fn with_one_journal_names_are_a_moment_of_the_past() {
    let ops = [open("/a"), open("/b"), fsync(1)];
    let journal = after(Order::Journal, &ops);
    assert!(is_fine(&journal, &[("/a", 7, &[]), ("/b", 8, &[])]));
    assert!(
        !is_fine(&journal, &[("/b", 8, &[])]),
        "the older name is gone"
    );
    let entries = after(Order::Entries, &ops);
    assert!(is_fine(&entries, &[("/b", 8, &[])]));
    assert!(
        !is_fine(&entries, &[("/a", 7, &[])]),
        "the forced name is gone"
    );
}

#[test]
fn an_exchange_changes_both_names_or_neither() {
    let ops = [
        open("/a"),
        write(0, 1, 1),
        open("/b"),
        write(1, 2, 1),
        Op::Sync,
        rename("/a", "/b", true),
    ];
    let model = after(Order::Journal, &ops);
    assert!(is_fine(&model, &[("/a", 7, &[1]), ("/b", 8, &[2])]));
    assert!(is_fine(&model, &[("/a", 8, &[2]), ("/b", 7, &[1])]));
    let entries = after(Order::Entries, &ops);
    assert!(
        !is_fine(&entries, &[("/a", 7, &[1]), ("/b", 7, &[1])]),
        "a file is lost"
    );
}

#[test]
fn names_of_one_file_stay_names_of_one_file() {
    let link = Op::Link {
        path: b"/a".to_vec(),
        new: b"/b".to_vec(),
    };
    let model = after(Order::Journal, &[open("/a"), link, Op::Sync]);
    assert!(is_fine(&model, &[("/a", 7, &[]), ("/b", 7, &[])]));
    let ops = [open("/a"), open("/b"), Op::Sync];
    let apart = after(Order::Journal, &ops);
    assert!(!is_fine(&apart, &[("/a", 7, &[]), ("/b", 7, &[])]));
}

/// Whether recovery may show `files` (path, inode, contents) after `/a` of one byte, which no
/// checkpoint has, and the calls `ops`.
fn by_entries(ops: &[Op], files: &[(&str, u64, &[u8])]) -> bool {
    let first = [open("/a"), write(0, 1, 1), fsync(0)];
    is_fine(&after(Order::Entries, &[&first, ops].concat()), files)
}

fn unlink(path: &str) -> Op {
    Op::Unlink { path: path.into() }
}

#[test]
fn a_file_that_was_forced_by_itself_promises_nothing_of_other_names() {
    let ops = [open("/b"), rename("/a", "/c", false), open("/d"), fsync(2)];
    assert!(by_entries(&ops, &[("/a", 7, &[1]), ("/d", 9, &[])]));
    let all = [("/b", 8, &[][..]), ("/c", 7, &[1]), ("/d", 9, &[])];
    assert!(by_entries(&ops, &all));
    assert!(!by_entries(&ops, &[("/d", 9, &[])]), "a is lost");
    let mix = [("/b", 8, &[][..]), ("/d", 9, &[])];
    assert!(!by_entries(&ops, &mix), "b was made before a was moved");
    let both = [("/a", 7, &[1][..]), ("/c", 7, &[1]), ("/d", 9, &[])];
    assert!(!by_entries(&ops, &both), "one name too many");
}

#[test]
fn forced_file_displaces_the_old_owner_of_its_name() {
    let again = [unlink("/a"), open("/a"), fsync(1)];
    assert!(by_entries(&again, &[("/a", 8, &[])]));
    assert!(
        !by_entries(&again, &[("/a", 7, &[1])]),
        "a removed file is back"
    );
    assert!(!by_entries(&again, &[]));
    let moved = [Op::Sync, rename("/a", "/b", false), open("/a"), fsync(1)];
    assert!(by_entries(&moved, &[("/a", 8, &[])]), "as with F2FS");
    assert!(by_entries(&moved, &[("/a", 8, &[]), ("/b", 7, &[1])]));
    let forced = [&moved[..2], &[fsync(0)], &moved[2..]].concat();
    assert!(
        !by_entries(&forced, &[("/a", 8, &[])]),
        "the move was forced"
    );
}

#[test]
fn a_directory_is_not_lost_to_a_forced_file() {
    let mkdir = |path: &str| Op::Mkdir { path: path.into() };
    let ops = [
        mkdir("/d"),
        open("/d/f"),
        Op::Sync,
        rename("/d", "/e", false),
        open("/d"),
        fsync(1),
    ];
    let model = after(Order::Entries, &ops);
    let dir = |path: &str| {
        let seen = Seen {
            ino: Ino(8),
            kind: FileKind::Directory,
            data: Vec::new(),
        };
        (path.as_bytes().to_vec(), seen)
    };
    let mut kept = tree(&[("/d", 9, &[]), ("/e/f", 7, &[])]);
    kept.0.extend([dir("/e")]);
    assert_eq!(check(&model, &kept), []);
    assert_ne!(check(&model, &tree(&[("/d", 9, &[])])), []);
    let inside = [mkdir("/d"), open("/d/f"), fsync(0)];
    let model = after(Order::Entries, &inside);
    assert_ne!(check(&model, &tree(&[])), [], "nor the one that it is in");
}

#[test]
fn the_contents_of_a_new_file_may_bring_its_name_along() {
    let data_only = Op::Fsync {
        fd: 0,
        data_only: true,
    };
    let model = after(Order::Entries, &[open("/a"), data_only, open("/b")]);
    assert!(is_fine(&model, &[("/a", 7, &[])]) && is_fine(&model, &[]));
    assert!(!is_fine(&model, &[("/b", 8, &[])]));
}
