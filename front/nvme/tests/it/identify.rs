//! Identify data structures, decoded with offsets written independently of the crate's.

use crate::host::{HOST, Host, NQN, Sqe, memory, subsystem};
use crate::memory::Memory;
use crate::wire::Local;
use nvme::DISCOVERY_NQN;

fn number(page: &[u8], at: usize, len: usize) -> u64 {
    let bytes = page[at..at + len].iter().rev();
    bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn text(page: &[u8], at: usize, len: usize) -> &str {
    let field = std::str::from_utf8(&page[at..at + len]).expect("ASCII");
    field.trim_end_matches([' ', '\0'])
}

/// Fields of Identify Controller: offset and length as the specification lists them, and value.
//= nvme-2.1 5.1.13.2.1
const CONTROLLER: [(usize, usize, u64); 16] = [
    (76, 1, 0b11),       // CMIC: several ports and controllers
    (77, 1, 8),          // MDTS: 1 MiB
    (80, 4, 0x2_0100),   // VER
    (111, 1, 1),         // CNTRLTYPE: of I/O
    (256, 2, 1 << 1),    // OACS: format
    (259, 1, 3),         // AERL
    (320, 2, 1),         // KAS: 100 ms
    (512, 1, 0x66),      // SQES: 64 bytes
    (513, 1, 0x44),      // CQES: 16 bytes
    (514, 2, 128),       // MAXCMD
    (516, 4, 2),         // NN
    (522, 2, 0),         // FUSES: none
    (525, 1, 0b111),     // VWC: there, and a flush may name all namespaces
    (536, 4, 0x10_0001), // SGLS: any alignment, offsets
    (1792, 4, 516),      // IOCCSZ: 8 KiB besides the entry
    (1796, 4, 1),        // IORCSZ
];

#[test]
fn identify_controller_has_the_expected_fields() {
    let mut host = memory(&[1 << 20, 2 << 20]);
    let page = host.call(Sqe::identify(1, 0), &[], 4096).data;
    assert_eq!(page.len(), 4096);
    for (at, len, value) in CONTROLLER {
        assert_eq!(number(&page, at, len), value, "byte {at}");
    }
    assert_eq!(number(&page, 78, 2), 1, "its number is that of its Connect");
    assert_eq!(
        (text(&page, 4, 20), text(&page, 24, 40)),
        ("SERIAL", "A drive")
    );
    assert_eq!(text(&page, 768, 256), NQN);
    assert_eq!(
        number(&page, 280, 8),
        3 << 20,
        "the capacity of all namespaces"
    );
    // Unsupported features are not announced: write uncorrectable in memory, reservations.
    let oncs = number(&page, 520, 2);
    assert_eq!(oncs & (1 << 1 | 1 << 5), 0);
}

//= nvme-nvm 4.1.5.1
#[test]
fn identify_namespace_reports_its_size() {
    let mut host = memory(&[1 << 20, 2 << 20]);
    for (nsid, bytes) in [(1, 1_u64 << 20), (2, 2 << 20)] {
        let page = host.call(Sqe::identify(0, nsid), &[], 4096).data;
        assert_eq!(number(&page, 0, 8) * 4096, bytes);
        assert_eq!((number(&page, 25, 1), number(&page, 26, 1)), (1, 1));
        assert_eq!(
            (number(&page, 128, 4), number(&page, 132, 4)),
            (9 << 16, 12 << 16)
        );
        assert_eq!(number(&page, 27, 3), 0, "there is no metadata");
        assert_eq!(&page[104..120], b"sixteen bytes id");
    }
    let page = host.call(Sqe::identify(0, 3), &[], 4096).data;
    assert!(page.iter().all(|&byte| byte == 0), "one that is not there");
    assert_eq!(host.call(Sqe::identify(0, 0), &[], 4096).status, 0x0b);
}

#[test]
fn identifier_lists_start_after_a_given_number() {
    let mut host = memory(&[1 << 20, 1 << 20, 1 << 20]);
    let mut list = |sqe: Sqe| {
        let reply = host.call(sqe, &[], 4096);
        assert_eq!(reply.status, 0);
        let numbers = reply.data.chunks(4).map(|n| number(n, 0, 4));
        numbers.take_while(|&n| n > 0).collect::<Vec<_>>()
    };
    assert_eq!(list(Sqe::identify(0x02, 0)), [1, 2, 3]);
    assert_eq!(list(Sqe::identify(0x10, 2)), [3]);
    assert_eq!(list(Sqe::identify(0x07, 0)), [1, 2, 3]);
    assert_eq!(
        list(Sqe::identify(0x07, 0).dword(11, 2 << 24)),
        [0; 0],
        "no zones"
    );
    assert_eq!(
        host.call(Sqe::identify(2, u32::MAX), &[], 4096).status,
        0x0b
    );
    let controllers = host.call(Sqe::identify(0x13, 0), &[], 4096).data;
    assert_eq!(
        (number(&controllers, 0, 2), number(&controllers, 2, 2)),
        (1, 1)
    );
    let sets = host.call(Sqe::identify(0x1c, 0xffff_0000), &[], 4096).data;
    assert_eq!(number(&sets, 0, 8), 0b101);
    assert_eq!(host.call(Sqe::identify(0x77, 0), &[], 4096).status, 0x02);
}

//= nvme-2.1 5.1.13.2.3
#[test]
fn namespace_descriptors_are_packed_in_order() {
    let mut host = memory(&[1 << 20]);
    let page = host.call(Sqe::identify(3, 1), &[], 4096).data;
    let (mut at, mut found) = (0, Vec::new());
    while page[at] != 0 {
        let len = usize::from(page[at + 1]);
        found.push((page[at], len));
        at += 4 + len;
    }
    assert_eq!(found, [(2, 16), (3, 16), (4, 1)]);
    assert_eq!(page[at - 1], 0, "the command set of blocks");
}

#[test]
fn log_pages_are_read_at_any_offset_and_length() {
    let mut host = memory(&[1 << 20]);
    let pages = host.call(Sqe::log(0, 1024), &[], 1024).data;
    let known: Vec<usize> = (0..256).filter(|n| pages[n * 4] & 1 == 1).collect();
    assert_eq!(known, [0, 1, 2, 3, 4, 5, 9, 0x12, 0x81]);
    for page in known {
        let sqe = Sqe::log(page as u32, 4096).dword(11, 1 << 16);
        let whole = host.call(sqe, &[], 4096);
        assert_eq!((whole.status, whole.data.len()), (0, 4096), "page {page}");
        let part = host.call(
            Sqe::log(page as u32, 64).dword(11, 1 << 16).dword(12, 128),
            &[],
            64,
        );
        assert_eq!(part.data, whole.data[128..192], "page {page}");
    }
    assert_eq!(host.call(Sqe::log(0x55, 64), &[], 64).status, 0x109);
    assert_eq!(
        host.call(Sqe::log(0x20, 64).dword(11, 1 << 16), &[], 64)
            .status,
        0x29,
        "no placement"
    );
    assert_eq!(
        host.call(Sqe::log(1, 64).dword(12, 2), &[], 64).status,
        0x02
    );
    let smart = host.call(Sqe::log(2, 512), &[], 512).data;
    assert_eq!((number(&smart, 1, 2), smart[3]), (313, 100));
}

#[test]
fn error_log_lists_the_newest_error_first() {
    let mut host = memory(&[1 << 20]);
    let cids: Vec<u16> = [Sqe::new(0x55), Sqe::identify(0x77, 0)]
        .map(|sqe| host.call(sqe, &[], 0).cid)
        .to_vec();
    let log = host.call(Sqe::log(1, 192), &[], 192).data;
    assert_eq!(
        (
            number(&log, 0, 8),
            number(&log, 64, 8),
            number(&log, 128, 8)
        ),
        (2, 1, 0)
    );
    assert_eq!(number(&log, 10, 2), u64::from(cids[1]));
    assert_eq!(number(&log, 64 + 12, 2) & 0x1ff, 0x02, "invalid opcode");
}

#[test]
fn features_return_the_values_set() {
    let mut host = memory(&[1 << 20]);
    let mut feature = |opcode: u8, id: u32, value: u32, data: &[u8], room: usize| {
        host.call(Sqe::new(opcode).dword(10, id).dword(11, value), data, room)
    };
    // Queues: as many as there are, counted from 0.
    assert_eq!(feature(9, 7, 63 << 16 | 3, &[], 0).result, 15 << 16 | 3);
    assert_eq!(feature(0xa, 7, 0, &[], 0).result, 15 << 16 | 3);
    assert_eq!(feature(9, 6, 0, &[], 0).status, 0);
    assert_eq!(feature(0xa, 6, 0, &[], 0).result, 0);
    assert_eq!(feature(0xa, 1 << 8 | 6, 0, &[], 0).result, 1, "the default");
    assert_eq!(
        feature(0xa, 3 << 8 | 6, 0, &[], 0).result,
        1 << 2,
        "it can be changed"
    );
    assert_eq!(
        feature(9, 1 << 31 | 6, 0, &[], 0).status,
        0x10d,
        "and not saved"
    );
    assert_eq!(
        feature(9, 2, 1, &[], 0).status,
        0x02,
        "there is one state of power"
    );
    assert_eq!(feature(9, 0x0e, 0, &[7; 8], 0).status, 0);
    let time = [7, 7, 7, 7, 7, 7, 2, 0];
    assert_eq!(
        feature(0xa, 0x0e, 0, &[], 8).data,
        time,
        "a host has set it"
    );
    assert_eq!(feature(0xa, 0x81, 1, &[], 16).data[..4], *b"host");
    assert_eq!(feature(9, 0x81, 1, &[0; 16], 0).status, 0x0c);
    assert_eq!(feature(0xa, 0x1d, 1, &[], 0).status, 0x29, "no placement");
    assert_eq!(feature(0xa, 0x77, 0, &[], 0).status, 0x02);
    assert_eq!(feature(9, 0x16, 0, &[0; 8], 0).status, 0x0f, "too short");
}

//= nvme-2.1 5.1.12.3.1
#[test]
fn discovery_controller_reports_only_the_subsystem_address() {
    let subsystem = subsystem(vec![Memory::new(1 << 20)]);
    let mut host = Host::new(Local::new(&subsystem));
    host.open(0, 0);
    assert_eq!(host.connect_as(HOST, DISCOVERY_NQN, 0, 0xffff, 0).status, 0);
    assert_eq!(
        host.call(Sqe::property_set(0x14, 0x46_0001), &[], 0).status,
        0
    );
    let page = host.call(Sqe::identify(1, 0), &[], 4096).data;
    assert_eq!((page[111], text(&page, 768, 256)), (2, DISCOVERY_NQN));
    let log = host.call(Sqe::log(0x70, 3072), &[], 3072).data;
    assert_eq!(number(&log, 8, 8), 2);
    let record = &log[2048..];
    assert_eq!(
        (record[0], record[1], record[2]),
        (3, 1, 2),
        "TCP, IPv4, a drive"
    );
    assert_eq!(number(record, 6, 2), 0xffff);
    assert_eq!(text(record, 32, 32), "4420");
    assert_eq!(
        (text(record, 256, 256), text(record, 512, 256)),
        (NQN, "10.1.2.3")
    );
    assert_eq!(host.call(Sqe::identify(0, 1), &[], 4096).status, 0x02);
    assert_eq!(host.call(Sqe::log(2, 512), &[], 512).status, 0x109);
    assert_eq!(host.call(Sqe::new(0x80).nsid(1), &[], 0).status, 0x01);
}
