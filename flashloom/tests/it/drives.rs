//! `drive`: contents written to a drive file are read back.

use crate::{Bench, number};
use sim::Seed;

const MIB: usize = 1 << 20;

/// `len` bytes of distinct pages, with holes of zeros between them.
fn image(len: usize, name: &'static str) -> Vec<u8> {
    let mut rng = Seed(5).stream(name);
    let mut bytes = vec![0; len];
    for piece in bytes.chunks_mut(MIB / 2).step_by(3) {
        piece.chunks_mut(8).for_each(|part| {
            let word = rng.next_u64().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        });
    }
    bytes
}

#[test]
fn contents_come_back_as_they_were() {
    for preset in ["block", "streams", "fdp"] {
        let bench = Bench::new();
        let line = format!("drive create d.flash --preset {preset} --size 64MiB");
        let made = bench.json(&line, "flashloom.drive-info/1");
        assert_eq!(made["interface"], preset);
        assert_eq!(number(&made, "/capacity_bytes"), 64 << 20);
        let all = image(64 * MIB, "whole");
        bench.write("in.img", &all);
        let moved = bench.json("drive import d.flash in.img", "flashloom.drive-import/1");
        let data = all
            .chunks(4096)
            .filter(|c| c.iter().any(|&b| b != 0))
            .count() as u64
            * 4096;
        assert_eq!(number(&moved, "/data_bytes"), data);
        bench.json("drive export d.flash out.img", "flashloom.drive-export/1");
        assert!(bench.read("out.img") == all, "{preset}");
        let smart = bench.json("drive smart d.flash", "flashloom.smart/1");
        assert_eq!(number(&smart, "/host_write_bytes"), data);
        assert!(number(&smart, "/programmed_bytes") >= data);
        let info = bench.json("drive info d.flash", "flashloom.drive-info/1");
        assert_eq!(number(&info, "/mapped_bytes"), data);
        assert!(bench.done("drive info d.flash").contains("64 MiB"));
    }
}

/// Contents of zones are read back, and the zones report their write pointers.
#[test]
fn zones_are_filled_from_their_starts() {
    let bench = Bench::new();
    let made = bench.json(
        "drive create z.flash --preset zns --size 64MiB",
        "flashloom.drive-info/1",
    );
    assert_eq!(made["interface"], "zoned");
    assert_eq!(number(&made, "/capacity_bytes"), 66 << 20);
    let mut all = image(8 * MIB, "zone");
    all[6 * MIB..].fill(0);
    all.extend(image(MIB, "another"));
    bench.write("in.img", &all);
    bench.json("drive import z.flash in.img", "flashloom.drive-import/1");
    bench.done("drive export z.flash out.img");
    all.resize(11 * 8 * MIB, 0);
    assert!(bench.read("out.img") == all);
    let zones = bench.json("drive zones z.flash", "flashloom.drive-zones/1");
    assert_eq!(number(&zones, "/zones"), 11);
    assert_eq!(number(&zones, "/empty"), 9);
    assert_eq!(number(&zones, "/list/1/start_byte"), 8 << 20);
    assert_eq!(number(&zones, "/list/1/written_bytes"), MIB as u64 / 2);
    assert_eq!(zones["list"][1]["state"], "closed");
    let active = zones["active_zones"].as_array().expect("a list");
    assert!(active.contains(&1.into()), "{active:?}");
    assert!(
        bench
            .done("drive zones z.flash")
            .contains("2-10          empty")
    );
    // Data beyond a zone's capacity cannot be imported.
    all[7 * MIB] = 1;
    bench.write("in.img", &all);
    bench.refuses(
        "drive import z.flash in.img",
        &["in.img: ", "zone 0 has no room"],
    );
    bench.refuses("mkfs ext4 z.flash", &["z.flash: ext4 writes in place"]);
    bench.done("drive create d.flash --size 64MiB");
    bench.refuses("drive zones d.flash", &["d.flash: expected a zoned drive"]);
}

#[test]
fn placement_handles_are_told_with_what_was_written() {
    let bench = Bench::new();
    bench.done("drive create f.flash --preset fdp --size 64MiB");
    let fdp = || bench.json("drive fdp f.flash", "flashloom.drive-fdp/1");
    let fresh = fdp();
    assert_eq!(number(&fresh, "/host_written_bytes"), 0);
    assert_eq!(fresh["write_amplification"], serde_json::Value::Null);
    let unit = number(&fresh, "/unit_bytes");
    let list = fresh["list"].as_array().expect("a list");
    let handles = number(&fresh, "/handles_per_group") * number(&fresh, "/reclaim_groups");
    assert_eq!(list.len() as u64, handles);
    bench.write("in.img", image(MIB, "unit"));
    bench.done("drive import f.flash in.img");
    let written = fdp();
    let bytes = number(&written, "/host_written_bytes");
    assert!(bytes > 0 && bytes <= MIB as u64, "{bytes}");
    assert_eq!(written["write_amplification"], 1.0);
    // Writes without a handle go to the first one.
    assert!(number(&written, "/list/0/room_bytes") <= unit - bytes % unit);
    assert_eq!(written["list"][1], fresh["list"][1]);
    let said = bench.done("drive fdp f.flash");
    assert!(
        said.contains("amplification") && said.contains("group 0, handle 1"),
        "{said}"
    );
    bench.done("drive create d.flash --size 64MiB");
    bench.refuses(
        "drive fdp d.flash",
        &["d.flash: expected a drive with placement handles"],
    );
}

#[test]
fn drives_say_how_they_are_reached() {
    for (preset, said) in [
        ("block", "block, by blocks"),
        ("fdp", "fdp, by blocks with flexible data placement"),
        ("zns", "zns, by zones"),
        (
            "byte",
            "byte, by blocks and by bytes through a cache of 256 MiB",
        ),
    ] {
        let bench = Bench::new();
        let line = format!("drive create d.flash --preset {preset} --size 64MiB");
        assert!(bench.done(&line).contains(said), "{preset}");
        let info = bench.done("drive info d.flash");
        let lines = info.lines().map(str::trim_end);
        assert!(lines.into_iter().any(|l| l.ends_with(said)), "{info}");
    }
}

#[test]
fn a_shorter_image_leaves_zeros_behind_it() {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 64MiB");
    bench.write("long.img", image(20 * MIB, "long"));
    bench.write("short.img", image(MIB + 777, "short"));
    bench.done("drive import d.flash long.img");
    bench.done("drive import d.flash short.img");
    bench.done("drive export d.flash out.img");
    let mut expected = bench.read("short.img");
    expected.resize(64 * MIB, 0);
    assert!(bench.read("out.img") == expected);
    bench.write("empty.img", "");
    bench.done("drive import d.flash empty.img");
    bench.done("drive export d.flash out.img");
    assert!(bench.read("out.img").iter().all(|&byte| byte == 0));
}

#[test]
fn zeros_take_no_room() {
    use std::os::unix::fs::MetadataExt;
    let bench = Bench::new();
    bench.done("drive create d.flash --size 256MiB");
    bench.done("drive export d.flash out.img");
    let found = std::fs::metadata(bench.path("out.img")).expect("it is there");
    assert_eq!(found.len(), 256 << 20);
    assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    assert!(
        std::fs::metadata(bench.path("d.flash"))
            .expect("it is there")
            .len()
            < 1 << 20
    );
}

#[test]
fn a_drive_is_made_from_a_file_and_with_a_past() {
    let bench = Bench::new();
    bench.write(
        "mine.toml",
        "preset = \"fdp\"\ncapacity = \"64MiB\"\n[placement]\nhandles = 3\n",
    );
    let line = "drive create d.flash --preset mine.toml --precondition aged --seed 4";
    let made = bench.json(line, "flashloom.drive-info/1");
    assert_eq!(number(&made, "/config/placement/handles"), 3);
    assert_eq!(number(&made, "/mapped_bytes"), 64 << 20);
    let first = bench.read("d.flash");
    assert_eq!(bench.run(line).code, Some(2));
    bench.done(&format!("{line} --force"));
    assert_eq!(bench.read("d.flash"), first);
}

/// An open-channel drive lists its chunks; logical addresses need a mapping in its host.
#[test]
fn chunks_are_told_and_logical_addresses_go_through_a_mapping() {
    let bench = Bench::new();
    let line = "drive create o.flash --preset ocssd --size 64MiB";
    let made = bench.json(line, "flashloom.drive-info/1");
    assert_eq!(made["interface"], "open-channel");
    assert_eq!(number(&made, "/chunks/groups"), 4);
    assert_eq!(number(&made, "/chunks/units_per_group"), 4);
    // Three pages of 16 KiB in two planes are 24 blocks.
    assert_eq!(number(&made, "/chunks/write_min_blocks"), 24);
    let chunks = bench.json("drive chunks o.flash", "flashloom.drive-chunks/1");
    let all = number(&chunks, "/chunks_per_unit") * 16;
    assert_eq!(number(&chunks, "/free"), all);
    assert_eq!(chunks["list"].as_array().expect("a list").len() as u64, all);
    assert_eq!(chunks["list"][0]["state"], "free");
    assert!(
        bench
            .done("drive chunks o.flash")
            .contains("4 groups of 4 units")
    );
    assert!(
        bench
            .done("drive info o.flash")
            .contains("chunks, as its host maps them")
    );
    let mut image = vec![0; 64 << 20];
    image[4096..3 << 20].fill(7);
    image[40 << 20..][..100].fill(8);
    bench.write("in.img", &image);
    bench.done("drive import o.flash in.img");
    bench.done("drive export o.flash out.img");
    let exported = std::fs::read(bench.path("out.img")).expect("it is there");
    assert!(exported == image);
    bench.refuses(
        "serve o.flash --file m",
        &["o.flash", "maps addresses itself"],
    );
    bench.done("drive create b.flash --preset block --size 64MiB");
    bench.refuses("drive chunks b.flash", &["b.flash", "open-channel drive"]);
}
