//! Benchmarks of operations on small files in wall time: the body alone, without a journal.

use criterion::{Criterion, criterion_group, criterion_main};
use extfs::{BLOCK, ExtFs, MkfsOptions, MountOptions, NoJournal, Private, mkfs};
use host::RamDisk;
use nand::Payload;
use sim::{Kernel, Sim};
use std::hint::black_box;
use std::sync::Arc;
use units::{Bytes, Placement};
use vfs::{Body, DirtyPage, FileKind, Inode, NewInode, Timestamp};

type Fs = ExtFs<NoJournal>;
type Node = Inode<Private>;

const NOW: Timestamp = Timestamp {
    secs: 1_700_000_000,
    nanos: 1,
};

const FILES: usize = 1000;

/// A file system of 1 GiB.
async fn mounted(sim: &Sim) -> Fs {
    let options = MkfsOptions::new(256 * 1024);
    let payload = |bytes: Box<[u8; BLOCK]>| Payload::Bytes(Arc::from(bytes));
    let blocks = mkfs(&options).expect("the plan is sound").into_iter();
    let contents = blocks
        .map(|(block, bytes)| (block, payload(bytes)))
        .collect();
    let disk = RamDisk::holding(sim, Bytes(options.blocks * BLOCK as u64), contents);
    let persist = NoJournal::new(sim, &disk, 1 << 16, Placement(0));
    let mounted = ExtFs::mount(sim, persist, MountOptions::default()).await;
    mounted.expect("a new file system can be mounted")
}

async fn load(fs: &Fs) -> Node {
    fs.load(fs.root()).await.expect("there is a root")
}

async fn create(fs: &Fs, dir: &Node, name: &[u8]) -> Node {
    let new = NewInode {
        kind: FileKind::Regular,
        mode: 0o644,
        uid: 0,
        gid: 0,
        rdev: 0,
        target: b"",
        now: NOW,
    };
    fs.create(dir, name, new).await.expect("there is room")
}

async fn append(fs: &Fs, file: &Node, index: u64) {
    fs.reserve(&vfs::Access::root(), file, index..index + 1)
        .await
        .expect("there is room");
    file.update(|attr| attr.size = (index + 1) * BLOCK as u64);
    let page = DirtyPage {
        index,
        now: Payload::Fill(index),
        before: None,
    };
    fs.write_pages(file, &[page]).await.expect("there is room");
}

async fn remove(fs: &Fs, dir: &Node, name: &[u8], file: &Node) {
    fs.unlink(dir, name, file, NOW).await.expect("it is there");
    fs.evict(file).await.expect("it can be freed");
}

fn names() -> Vec<Vec<u8>> {
    (0..FILES)
        .map(|n| format!("mail-{n:08}").into_bytes())
        .collect()
}

fn ops(c: &mut Criterion) {
    let mut group = c.benchmark_group("a thousand small files");
    group.throughput(criterion::Throughput::Elements(FILES as u64));
    for (title, pages) in [("create, unlink", 0), ("create, write, append, unlink", 2)] {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let fs = std::rc::Rc::new(kernel.block_on(async move { mounted(&sim).await }));
        group.bench_function(title, |bench| {
            bench.iter(|| {
                let fs = std::rc::Rc::clone(&fs);
                kernel.block_on(async move {
                    let root = load(&fs).await;
                    let names = names();
                    let mut files = Vec::new();
                    for name in &names {
                        let file = create(&fs, &root, name).await;
                        for page in 0..pages {
                            append(&fs, &file, page).await;
                        }
                        files.push(file);
                    }
                    for (name, file) in names.iter().zip(&files) {
                        black_box(fs.lookup(&root, name).await.expect("it can be read"));
                        remove(&fs, &root, name, file).await;
                    }
                });
            });
        });
    }
    group.finish();
}

criterion_group!(benches, ops);
criterion_main!(benches);
