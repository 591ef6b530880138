//! zonefs: made, mounted, killed and checked by command lines.

use crate::Bench;
use crate::serve::Served;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

/// The value of `O_DIRECT` in Linux on x86-64.
const DIRECT: i32 = 0o40_000;

const DRIVE: &str = "preset = \"zns\"\n[zones]\nconventional = 3\nmax_open = 4\nmax_active = 6\n";

fn drive() -> Bench {
    let bench = Bench::new();
    bench.write("zones.toml", DRIVE);
    bench.done("drive create d.flash --preset zones.toml --size 128MiB");
    bench
}

#[test]
fn zones_are_made_files_and_looked_at() {
    let bench = drive();
    assert_eq!(bench.run("fsck zonefs d.flash").code, Some(1));
    let made = bench.json(
        "mkfs zonefs d.flash --label mine --options aggr_cnv,perm=600",
        "flashloom.mkfs/1",
    );
    assert_eq!(made["conventional_files"], 1);
    assert!(made["sequential_files"].as_u64() > Some(6));
    let checked = bench.json("fsck zonefs d.flash", "flashloom.fsck/1");
    assert_eq!(checked["sound"], true);
    // The same command makes the same bytes.
    bench.done("drive export d.flash a.img");
    bench.done("mkfs zonefs d.flash --label mine --options aggr_cnv,perm=600");
    bench.done("drive export d.flash b.img");
    assert!(bench.read("a.img") == bench.read("b.img"));
    let mut image = bench.read("a.img");
    image[9] ^= 1;
    bench.write("bad.img", &image);
    bench.done("drive import d.flash bad.img");
    let said = bench.run("fsck zonefs d.flash");
    assert!(
        said.code == Some(1) && said.out.contains("checksum"),
        "{}",
        said.out
    );
}

#[test]
fn zonefs_commands_reject_invalid_options_in_a_sentence() {
    let bench = drive();
    bench.done("drive create b.flash --size 16MiB");
    bench.done("mkfs zonefs d.flash");
    fs::create_dir(bench.path("m")).expect("a directory");
    for (line, words) in [
        ("mkfs zonefs b.flash", &["b.flash", "a zoned drive"][..]),
        (
            "mkfs zonefs d.flash --journal 8MiB",
            &["zonefs has no journal"],
        ),
        ("mkfs zonefs d.flash -o bad", &["aggr_cnv"]),
        (
            "mkfs ext4 b.flash -o aggr_cnv",
            &["ext4 has no options of zonefs"],
        ),
        ("mkfs ext4 d.flash", &["d.flash", "writes in place"]),
        (
            "inspect zonefs d.flash",
            &["zonefs", "does not support the format of"],
        ),
        (
            "mount zonefs d.flash m -o errors=panic",
            &["errors=panic", "repair"],
        ),
        ("mount zonefs d.flash m -o foo=bar", &["foo=bar"]),
        (
            "mount zonefs d.flash m --data journal",
            &["zonefs", "journal"],
        ),
        (
            "mount ext4 b.flash m -o explicit-open",
            &["ext4 has no option explicit-open"],
        ),
    ] {
        bench.refuses(line, words);
    }
    // The mount powers the drive on to read its interface, and off again.
    let said = bench.run("mount zonefs b.flash m");
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("a zoned drive"), "{}", said.err);
}

fn open(served: &Served, name: &str) -> File {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(DIRECT);
    let file = file.open(served.bench.path("m").join(name));
    file.expect("it is opened")
}

/// Blocks that contain their life, file and number.
fn blocks(life: usize, file: usize, at: usize) -> Vec<u8> {
    let block = |n| format!("{life}-{file}-{}", at + n).into_bytes();
    let padded = (0..3).map(|n| {
        let mut block = block(n);
        block.resize(4096, b'.');
        block
    });
    padded.flatten().collect()
}

/// Appends to files, truncates one, and syncs each; `contents` records their contents.
fn force(served: &Served, life: usize, contents: &mut [Vec<u8>]) {
    for turn in 0..12 {
        let number = turn % 4;
        let file = open(served, &format!("seq/{number}"));
        if turn == 8 {
            // A truncation is durable.
            file.set_len(0).expect("cut");
            contents[number].clear();
        }
        let bytes = blocks(life, number, turn);
        let at = contents[number].len() as u64;
        file.write_at(&bytes, at).expect("written");
        contents[number].extend(bytes);
        file.sync_all().expect("forced");
    }
}

#[test]
fn killed_zonefs_keeps_forced_data_and_sizes_are_write_pointers() {
    if !judges::has_fuse() {
        return;
    }
    let line = "mount zonefs d.flash m --background --options errors=repair,explicit-open";
    let bench = Bench::new();
    bench.write("zones.toml", DRIVE);
    let served = Served::prepared(bench, "--preset zones.toml --size 128MiB", line);
    served.bench.done("mkfs zonefs d.flash");
    let mut contents = vec![Vec::new(); 4];
    for life in 0..3 {
        served.start();
        force(&served, life, &mut contents);
        // A reset is durable once it has completed.
        let cut = open(&served, "seq/4");
        cut.write_at(&[9; 4096], 0).expect("written");
        cut.sync_all().expect("forced");
        cut.set_len(0).expect("cut");
        // The following writes are not promised.
        let hurried = open(&served, "seq/5");
        let at = hurried.metadata().expect("there").size();
        hurried.write_at(&[7; 8192], at).expect("written");
        served.signal("-KILL");
        served.ended();
        drop((cut, hurried));
        served.sweep();
    }
    served.start();
    let root = served.bench.path("m");
    for (number, contents) in contents.iter().enumerate() {
        let found = fs::read(root.join(format!("seq/{number}"))).expect("it is there");
        assert!(found == *contents, "seq/{number}");
    }
    assert_eq!(fs::metadata(root.join("seq/4")).expect("there").size(), 0);
    let hurried = fs::read(root.join("seq/5")).expect("it is there");
    assert!(hurried.len().is_multiple_of(4096) && hurried.iter().all(|&byte| byte == 7));
    let table = fs::read(root.join(".zones.json")).expect("it is there");
    let table: serde_json::Value = serde_json::from_slice(&table).expect("a document");
    assert_eq!(table["nr_wro_seq_files"], 0);
    // All files can be appended to.
    for number in 0..6 {
        let name = format!("seq/{number}");
        let at = fs::metadata(root.join(&name)).expect("there").size();
        open(&served, &name)
            .write_at(&[1; 4096], at)
            .expect("written");
    }
    served.unmount();
    served.ended();
    served.bench.done("fsck zonefs d.flash");
}
