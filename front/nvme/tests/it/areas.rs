//! Random write areas of zones, as a host sees them.

use crate::drives::{Power, config, report, word};
use crate::host::{Host, Sqe};
use ssd::DriveConfig;
use std::net::TcpStream;
use units::Bytes;

/// Two areas of sixteen blocks that are committed by four.
fn with_areas() -> DriveConfig {
    let mut config = config("zns");
    let zones = config.zones.as_mut().expect("it has zones");
    zones.random_write_area = Bytes(16 * 4096);
    zones.random_write_step = Bytes(4 * 4096);
    zones.random_write_zones = 2;
    config
}

fn manage(io: &mut Host<TcpStream>, block: u64, thirteenth: u32) -> u16 {
    let sqe = Sqe::new(0x79).nsid(1).put(40, &block.to_le_bytes());
    io.call(sqe.dword(13, thirteenth), &[], 0).status
}

fn write(io: &mut Host<TcpStream>, block: u64, value: u8) -> u16 {
    io.call(Sqe::new(1).blocks(block, 1), &[value; 4096], 0)
        .status
}

/// Write pointer of a zone relative to `first`, and whether the zone has a random write area.
fn zone(io: &mut Host<TcpStream>, first: u64) -> (u64, bool) {
    let page = report(io, first, 0);
    (word(&page, 64 + 24) - first, page[64 + 2] & 8 != 0)
}

//= zns 4.1.5
#[test]
fn random_write_areas_are_reported_with_their_size() {
    let power = Power::new(&with_areas());
    let (mut admin, _io) = power.host();
    let set = Sqe::identify(5, 1).dword(11, 2 << 24);
    let page = admin.call(set, &[], 4096).data;
    assert_eq!(page[2] & 2, 2, "there are some");
    assert_eq!(page[44..48], 1_u32.to_le_bytes(), "two, counted from 0");
    assert_eq!(
        (page[48..50].to_vec(), page[50..52].to_vec()),
        (vec![4, 0], vec![16, 0])
    );
    assert_eq!(page[52], 1, "they are committed by command too");
}

//= zns 3.4.3
#[test]
fn random_write_area_is_committed_by_command_or_by_a_write_past_it() {
    let power = Power::new(&with_areas());
    let (mut admin, mut io) = power.host();
    let set = Sqe::identify(5, 1).dword(11, 2 << 24);
    let size = word(&admin.call(set, &[], 4096).data, 2816 + 16);
    let (open, with_area, flush) = (0x03, 1 << 9, 0x11);
    assert_eq!(manage(&mut io, 0, open | with_area), 0);
    assert_eq!(manage(&mut io, size, open | with_area), 0);
    assert_eq!(
        manage(&mut io, 2 * size, open | with_area),
        0x1b7,
        "there are two"
    );
    assert_eq!(
        (zone(&mut io, 0), zone(&mut io, size)),
        ((0, true), (0, true))
    );
    for (block, value) in [(9, 1), (2, 2), (9, 3), (15, 4)] {
        assert_eq!(write(&mut io, block, value), 0);
    }
    assert_eq!(zone(&mut io, 0).0, 0, "nothing is committed");
    assert_eq!(manage(&mut io, 2, flush), 0x02, "part of a step");
    assert_eq!(manage(&mut io, 16, flush), 0x02, "behind the area");
    assert_eq!(manage(&mut io, 3 * size, flush), 0x02, "a zone without one");
    assert_eq!(
        manage(&mut io, 0, flush | 1 << 8),
        0x02,
        "not of all zones at once"
    );
    assert_eq!(manage(&mut io, 3, flush), 0);
    assert_eq!(zone(&mut io, 0).0, 4);
    assert_eq!(write(&mut io, 3, 5), 0x1bc, "it is part of the zone");
    // One past the area: a step falls out at the other end.
    assert_eq!(write(&mut io, 20, 6), 0);
    assert_eq!(zone(&mut io, 0).0, 8);
    let read = io.call(Sqe::new(2).blocks(0, 21), &[], 21 * 4096);
    let found: Vec<u8> = read.data.chunks(4096).map(|block| block[0]).collect();
    let mut expected = vec![0; 21];
    for (block, value) in [(2, 2), (9, 3), (15, 4), (20, 6)] {
        expected[block] = value;
    }
    assert_eq!((read.status, found), (0, expected));
    assert_eq!(manage(&mut io, 0, 0x02), 0, "finished");
    assert!(!zone(&mut io, 0).1, "and its area is free");
    assert_eq!(manage(&mut io, 2 * size, open | with_area), 0);
}
