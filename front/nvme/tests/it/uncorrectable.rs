//! Blocks that a host has made uncorrectable.

use crate::drives::{Power, config};
use crate::host::{Host, Sqe};
use nvme::Subsystem;
use std::net::TcpStream;

const BLOCK: usize = 4096;
const UNRECOVERED: u16 = 0x281;

/// Blocks made uncorrectable stay so over a power loss until they are written; their neighbours
/// stay readable, also for blocks smaller than the drive's mapping unit.
#[test]
fn uncorrectable_blocks_cannot_be_read_until_written() {
    for (format, block) in [(0, 512), (1, 4096)] {
        let mut power = Power::new(&config("block"));
        let (mut admin, mut io) = power.host();
        let optional = admin.call(Sqe::identify(1, 0), &[], 4096).data[520];
        assert_eq!(optional & 2, 2, "it is announced");
        let formatted = admin.call(Sqe::new(0x80).nsid(1).dword(10, format), &[], 0);
        assert_eq!(formatted.status, 0);
        let data: Vec<u8> = (0..64 * block).map(|n| (n % 251) as u8).collect();
        assert_eq!(io.call(Sqe::new(1).blocks(0, 64), &data, 0).status, 0);
        assert_eq!(io.call(Sqe::new(4).blocks(9, 3), &[], 0).status, 0);
        assert_eq!(io.call(Sqe::new(4).blocks(1 << 40, 1), &[], 0).status, 0x80);
        let bad = |io: &mut Host<TcpStream>| -> Vec<u64> {
            let mut read = |at: u64| {
                let reply = io.call(Sqe::new(2).blocks(at, 1), &[], block);
                match reply.status {
                    0 => assert!(reply.data == data[at as usize * block..][..block]),
                    status => assert_eq!(status, UNRECOVERED),
                }
                reply.status != 0
            };
            (0..64).filter(|&at| read(at)).collect()
        };
        assert_eq!(bad(&mut io), [9, 10, 11]);
        for opcode in [2, 0x0c] {
            let len = if opcode == 2 { 64 * block } else { 0 };
            let said = io.call(Sqe::new(opcode).blocks(0, 64), &[], len).status;
            assert_eq!(said, UNRECOVERED);
        }
        let again = io.call(Sqe::new(1).blocks(10, 1), &data[10 * block..11 * block], 0);
        assert_eq!((again.status, bad(&mut io)), (0, vec![9, 11]));
        // Blocks of 512 bytes are not kept.
        if block == 4096 {
            power.cut();
            (admin, io) = power.host();
            assert_eq!(bad(&mut io), [9, 11]);
        }
        assert_eq!(io.call(Sqe::new(1).blocks(0, 64), &data, 0).status, 0);
        assert!(bad(&mut io).is_empty());
        drop(admin);
    }
    let power = Power::new(&config("zns"));
    let (mut admin, mut io) = power.host();
    let optional = admin.call(Sqe::identify(1, 0), &[], 4096).data[520];
    assert_eq!(optional & 2, 0);
    assert_eq!(io.call(Sqe::new(4).blocks(0, 1), &[], 0).status, 0x01);
}

/// Without write cache it is durable when it is answered, with one after a flush.
#[test]
fn write_uncorrectable_is_as_durable_as_a_write() {
    for (cached, flushed, left) in [
        (1, false, 0),
        (1, true, UNRECOVERED),
        (0, false, UNRECOVERED),
    ] {
        let mut unprotected = config("block");
        unprotected.controller.power_loss_protection = false;
        let mut power = Power::new(&unprotected);
        let (mut admin, mut io) = power.host();
        let mut ask = |sqe: Sqe, data: &[u8]| assert_eq!(io.call(sqe, data, 0).status, 0);
        let flush = Sqe::new(0).nsid(1);
        ask(Sqe::new(1).blocks(0, 8), &[7; 8 * BLOCK]);
        ask(flush, &[]);
        let cache = Sqe::new(0x09).dword(10, 6).dword(11, cached);
        assert_eq!(admin.call(cache, &[], 0).status, 0);
        ask(Sqe::new(4).blocks(3, 1), &[]);
        if flushed {
            ask(flush, &[]);
        }
        cut(&mut power);
        let (_admin, mut io) = power.host();
        let found = io.call(Sqe::new(2).blocks(3, 1), &[], BLOCK);
        assert_eq!(found.status, left, "cached: {cached}, flushed: {flushed}");
    }
}

/// Lines beside it that a transaction has stored, and not committed, stay so.
//= bytefs 4.4
#[test]
fn write_uncorrectable_commits_no_neighbouring_block() {
    let mut power = Power::new(&config("bytefs-emulator"));
    let (mut admin, mut io) = power.host();
    let small = Sqe::new(0x80).nsid(1).dword(10, 0);
    assert_eq!(admin.call(small, &[], 0).status, 0);
    let mut ask = |sqe: Sqe, data: &[u8]| assert_eq!(io.call(sqe, data, 0).status, 0);
    ask(Sqe::new(1).blocks(0, 8), &[1; BLOCK]);
    ask(Sqe::new(0).nsid(1), &[]);
    let store = Sqe::new(0x81).nsid(1).dword(12, 64);
    ask(store.dword(13, 5), &[2; 64]);
    ask(store.put(40, &64_u64.to_le_bytes()), &[3; 64]);
    ask(Sqe::new(4).blocks(7, 1), &[]);
    ask(Sqe::new(0).nsid(1), &[]);
    cut(&mut power);
    // Blocks have 4,096 bytes again.
    let (_admin, mut io) = power.host();
    assert_eq!(io.call(Sqe::new(0x88).nsid(1), &[], 0).status, 0);
    let load = Sqe::new(0x82).nsid(1).dword(12, 7 * 512);
    let loaded = io.call(load, &[], 7 * 512).data;
    assert_eq!(loaded[..64], [1; 64], "it was not committed");
    assert_eq!(loaded[64..128], [3; 64], "it was of no transaction");
    assert_eq!(loaded[128..], [1; 7 * 512 - 128]);
    let lost = load.put(40, &(7 * 512_u64).to_le_bytes()).dword(12, 64);
    assert_eq!(io.call(lost, &[], 64).status, UNRECOVERED);
}

/// The power goes, and comes back.
fn cut(power: &mut Power) {
    let device = power.handle().part(Subsystem::device);
    let cut = device.ask(|device| async move { device.cut() });
    cut.expect("it runs");
    power.cut();
}
