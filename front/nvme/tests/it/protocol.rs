//! NVMe/TCP: PDUs, digests, queue order, flow control, and invalid input of hosts.

use crate::host::{HOST, Host, NQN, Sqe, Unit, memory, queue, subsystem};
use crate::memory::Memory;
use crate::wire::{Local, Wire};
use nvme::tcp::pdu::{self, Kind};

fn drive() -> (Host<Local<Memory>>, Host<Local<Memory>>) {
    let admin = memory(&[4 << 20]);
    let io = queue(&admin, 1, 1);
    (admin, io)
}

/// An enabled admin queue whose connection was opened with `digests` (bit 0: header, bit 1: data)
/// and data `alignment`.
fn opened(digests: u8, alignment: u8) -> Host<Local<Memory>> {
    let subsystem = subsystem(vec![Memory::new(4 << 20)]);
    let mut host = Host::new(Local::new(&subsystem));
    host.open(digests, alignment);
    assert_eq!(host.connect(0, 0xffff).status, 0);
    host.call(Sqe::property_set(0x14, 0x46_0061), &[], 0);
    host
}

//= nvme-tcp 1
#[test]
fn data_of_any_length_arrive_with_any_digests_and_alignment() {
    for digests in 0..4 {
        for alignment in [0, 1, 7, 31] {
            let mut admin = opened(digests, alignment);
            let page = admin.call(Sqe::identify(1, 0), &[], 4096);
            assert_eq!((page.status, page.data.len()), (0, 4096));
            let mut io = Host::new(Local::new(&admin.wire.subsystem));
            io.open(digests, alignment);
            assert_eq!(io.connect(1, 1).status, 0);
            for blocks in [1, 2, 3, 33, 256] {
                let data: Vec<u8> = (0..blocks * 4096).map(|n| (n % 251) as u8).collect();
                let sqe = |opcode| Sqe::new(opcode).blocks(7, blocks);
                assert_eq!(io.call(sqe(1), &data, 0).status, 0);
                assert_eq!(io.call(sqe(2), &[], data.len()).data, data);
            }
        }
    }
}

#[test]
fn pdu_split_into_any_pieces_is_reassembled() {
    struct Trickle(Local<Memory>, usize);
    impl Wire for Trickle {
        fn send(&mut self, bytes: &[u8]) {
            bytes.chunks(self.1).for_each(|piece| self.0.send(piece));
        }
        fn receive(&mut self) -> Option<Vec<u8>> {
            self.0.receive()
        }
    }
    let subsystem = subsystem(vec![Memory::new(1 << 20)]);
    let mut admin = Host::new(Local::new(&subsystem));
    admin.begin();
    for piece in [1, 7, 71, 1000, 1 << 20] {
        let mut io = Host::new(Trickle(Local::new(&subsystem), piece));
        io.open(3, 0);
        assert_eq!(io.connect(1, 1).status, 0);
        let data = vec![piece as u8; 5 * 4096];
        assert_eq!(io.call(Sqe::new(1).blocks(0, 5), &data, 0).status, 0);
        assert_eq!(
            io.call(Sqe::new(2).blocks(0, 5), &[], data.len()).data,
            data
        );
    }
}

/// The termination request quotes the header with the wrong digest, however its bytes are split.
//= nvme-tcp 6
#[test]
fn termination_request_contains_the_invalid_header() {
    for piece in [1, 9, 76, 1000] {
        let mut host = opened(1, 0);
        let mut head = pdu::header(Kind::Command);
        let mut unit = Vec::new();
        host.format.append(&mut unit, head.clone(), &[]);
        head.copy_from_slice(&unit[..72]);
        unit[75] ^= 1;
        unit.chunks(piece).for_each(|piece| host.wire.send(piece));
        let end = host.wire.receive().expect("a termination request");
        let len = 24 + head.len();
        assert_eq!((end[0], end[4], end.len()), (0x03, len as u8, len));
        assert_eq!(end[24..], head);
    }
}

//= nvme-2.1 4.2
#[test]
fn completions_report_the_submission_queue_head() {
    let (_admin, mut io) = drive();
    // The Connect was the first of 32 entries.
    let heads: Vec<u16> = (0..40)
        .map(|_| io.call(Sqe::new(0).nsid(1), &[], 0).head)
        .collect();
    let expected: Vec<u16> = (2..42).map(|n| n % 32).collect();
    assert_eq!(heads, expected);
}

/// The controller agrees with a head of FFFFh in the reply to Connect; later completions have a
/// head of 0.
//= nvme-2.1 6.3
#[test]
fn connect_without_flow_control_disables_submission_queue_heads() {
    let (admin, _io) = drive();
    for (attributes, said, then) in [(0, 1, [2, 3]), (1 << 2, 0xffff, [0, 0])] {
        let mut io = Host::new(Local::new(&admin.wire.subsystem));
        io.open(0, 0);
        let connect = Sqe::connect(5, 0).put(46, &[attributes]);
        let reply = io.connect_by(connect, HOST, NQN, 1);
        assert_eq!((reply.status, reply.head), (0, said));
        let heads = then.map(|_: u16| io.call(Sqe::new(0).nsid(1), &[], 0).head);
        assert_eq!(heads, then);
    }
}

#[test]
fn data_digest_error_fails_the_command_and_header_digest_error_the_connection() {
    let mut admin = opened(3, 0);
    let mut bytes = Vec::new();
    let mut head = pdu::header(Kind::Command);
    let sqe = Sqe::new(9)
        .put(2, &77_u16.to_le_bytes())
        .dword(10, 0x0e)
        .sgl(0, 8, 1);
    head[8..].copy_from_slice(&sqe.0);
    admin.format.append(&mut bytes, head, &[1; 8]);
    let last = bytes.len() - 1;
    let mut damaged = bytes.clone();
    damaged[last] ^= 1;
    admin.wire.send(&damaged);
    let Some(Unit::Reply(reply)) = admin.unit() else {
        panic!("a completion");
    };
    assert_eq!((reply.cid, reply.status), (77, 0x22));
    admin.wire.send(&bytes);
    assert!(matches!(admin.unit(), Some(Unit::Reply(reply)) if reply.status == 0));
    bytes[20] ^= 1;
    admin.wire.send(&bytes);
    assert!(matches!(admin.unit(), Some(Unit::End { reason: 3, .. })));
    assert!(admin.wire.connection.is_over());
}

/// Sends a PDU of this kind after `change`; returns reason and detail of the termination request.
fn ends(kind: Kind, change: impl Fn(&mut Vec<u8>)) -> (u16, u32) {
    let (_admin, mut io) = drive();
    let mut unit = pdu::header(kind);
    match kind {
        Kind::Command => unit[8..].copy_from_slice(&Sqe::new(0).nsid(1).0),
        Kind::HostData => {
            let name = io.post(Sqe::new(1).blocks(0, 4), &[0; 16384], 0);
            let Some(Unit::Ready { cid, tag, .. }) = io.unit() else {
                panic!("data are asked for");
            };
            assert_eq!(cid, name);
            pdu::CID.put(&mut unit, cid);
            pdu::TAG.put(&mut unit, tag);
            pdu::DATA_LEN.put(&mut unit, 4096);
            pdu::DATA_AT.put(&mut unit, 24);
            pdu::LEN.put(&mut unit, 24 + 4096);
            unit.resize(24 + 4096, 0);
        }
        _ => {}
    }
    change(&mut unit);
    io.wire.send(&unit);
    match io.unit() {
        Some(Unit::End { reason, detail }) => (reason, detail),
        other => panic!("{other:?}"),
    }
}

//= nvme-tcp 6
#[test]
fn invalid_pdu_ends_the_connection_with_its_reason() {
    let at = |at: usize, value: u8| move |unit: &mut Vec<u8>| unit[at] = value;
    assert_eq!(ends(Kind::Command, at(0, 0x33)), (1, 0), "no such kind");
    assert_eq!(ends(Kind::Command, at(0, 0x05)), (2, 0), "not from a host");
    assert_eq!(
        ends(Kind::Command, at(1, 1)),
        (1, 1),
        "a digest that was not negotiated"
    );
    assert_eq!(
        ends(Kind::Command, at(2, 71)),
        (1, 2),
        "the length of the header"
    );
    assert_eq!(
        ends(Kind::Command, at(5, 0xff)),
        (1, 3),
        "data offset outside the PDU"
    );
    assert_eq!(ends(Kind::OpenRequest, |_| ()), (2, 0), "opened twice");
    let long = |unit: &mut Vec<u8>| {
        pdu::LEN.put(unit, 1 << 24);
        pdu::DATA_AT.put(unit, 72);
    };
    assert_eq!(
        ends(Kind::Command, long),
        (1, 4),
        "longer than a capsule may be"
    );
    let data =
        |field: pdu_field::Field, value: u32| move |unit: &mut Vec<u8>| field.put(unit, value);
    assert_eq!(
        ends(Kind::HostData, data(pdu::OFFSET, 4096)),
        (4, 0),
        "not in order"
    );
    assert_eq!(ends(Kind::HostData, data(pdu::OFFSET, u32::MAX)), (4, 0));
    assert_eq!(ends(Kind::HostData, data(pdu::DATA_LEN, 4095)), (1, 16));
    assert_eq!(
        ends(Kind::HostData, at(8, 0xee)),
        (1, 8),
        "of another command"
    );
    assert_eq!(
        ends(Kind::HostData, at(10, 0xee)),
        (1, 10),
        "unknown transfer tag"
    );
    assert_eq!(
        ends(Kind::HostData, at(1, pdu::LAST)),
        (1, 1),
        "not the last"
    );
}

mod pdu_field {
    pub(super) type Field = units::layout::Field<u32>;
}

#[test]
fn data_beyond_the_requested_length_end_the_connection() {
    let (_admin, mut io) = drive();
    io.post(Sqe::new(1).blocks(0, 3), &[0; 3 * 4096], 0);
    let Some(Unit::Ready { cid, tag, .. }) = io.unit() else {
        panic!("data are asked for");
    };
    io.feed((cid, tag), &[0; 4 * 4096]);
    assert!(matches!(io.unit(), Some(Unit::End { reason: 4, .. })));
}

#[test]
fn unknown_versions_and_digests_are_refused() {
    for (at, value, end) in [(8, 1, (6, 8)), (10, 32, (1, 10)), (11, 4, (1, 11))] {
        let subsystem = subsystem(vec![Memory::new(1 << 20)]);
        let mut host = Host::new(Local::new(&subsystem));
        let mut open = pdu::header(Kind::OpenRequest);
        open[at] = value;
        host.wire.send(&open);
        let Some(Unit::End { reason, detail }) = host.unit() else {
            panic!("a termination request");
        };
        assert_eq!((reason, detail), end);
    }
}

#[test]
fn in_capsule_data_outside_the_capsule_are_refused() {
    let (_admin, mut io) = drive();
    let cases = [
        (Sqe::new(1).blocks(0, 1).sgl(1, 4096, 1), 0x16),
        (Sqe::new(1).blocks(0, 1).sgl(u64::MAX, 4096, 1), 0x16),
        (Sqe::new(1).blocks(0, 1).sgl(0, 8192, 1), 0x16),
        (Sqe::new(2).blocks(0, 1).sgl(0, 4096, 1), 0x11),
        (Sqe::new(1).blocks(0, 1).sgl(0, 4096, 0x40), 0x11),
        (Sqe::new(2).blocks(0, 1).sgl(0, 1 << 30, 0x5a), 0x02),
        (Sqe::new(1).blocks(0, 1).sgl(0, 4096, 1), 0),
    ];
    for (sqe, status) in cases {
        io.send_raw(sqe, &[0; 4096]);
        let Some(Unit::Reply(reply)) = io.unit() else {
            panic!("a completion");
        };
        assert_eq!(reply.status, status, "{sqe:?}");
    }
}

#[test]
fn command_with_an_identifier_in_use_is_refused() {
    let (_admin, mut io) = drive();
    io.wire.holds = true;
    let flush = Sqe::new(0).nsid(1).put(2, &5_u16.to_le_bytes());
    io.send_raw(flush, &[]);
    io.send_raw(flush, &[]);
    let Some(Unit::Reply(reply)) = io.unit() else {
        panic!("a completion");
    };
    assert_eq!((reply.cid, reply.status), (5, 0x03));
}

#[test]
fn commands_beyond_the_queue_depth_end_the_connection() {
    let (_admin, mut io) = drive();
    io.wire.holds = true;
    for _ in 0..64 {
        io.post(Sqe::new(0).nsid(1), &[], 0);
    }
    assert!(!io.wire.connection.is_over());
    io.post(Sqe::new(0).nsid(1), &[], 0);
    assert!(io.wire.connection.is_over());
}

#[test]
fn read_data_wait_for_room_in_the_send_buffer() {
    let (_admin, mut io) = drive();
    let names: Vec<u16> = (0..6)
        .map(|_| io.post(Sqe::new(2).blocks(0, 256), &[], 1 << 20))
        .collect();
    // At most four responses of 1 MiB may wait; the host has read none yet.
    assert_eq!(io.wire.connection.unsent(), 4 * (24 + (1 << 20) + 24));
    io.wire.output();
    for name in &names[4..] {
        assert_eq!(io.reap(*name, &[]).data.len(), 1 << 20);
    }
}

#[test]
fn disconnect_ends_an_io_queue_and_is_refused_on_the_admin_queue() {
    let (mut admin, mut io) = drive();
    assert_eq!(io.call(Sqe::fabrics(8), &[], 0).status, 0);
    assert!(io.wire.connection.is_over());
    assert_eq!(
        admin.call(Sqe::fabrics(8), &[], 0).status,
        0x101,
        "refused on the admin queue"
    );
    assert_eq!(admin.call(Sqe::new(0x18), &[], 0).status, 0);
}

/// A command with an identifier in use is refused; the command that uses it stays charged.
//= nvme-2.1 4.2.3.1
#[test]
fn duplicate_identifier_keeps_the_memory_charged_to_its_holder() {
    let (_admin, mut io) = drive();
    io.wire.holds = true;
    let read = || Sqe::new(2).blocks(0, 256);
    let names: Vec<u16> = (0..4).map(|_| io.post(read(), &[], 1 << 20)).collect();
    io.send_raw(Sqe::new(0).nsid(1).put(2, &names[0].to_le_bytes()), &[]);
    let Some(Unit::Reply(refused)) = io.unit() else {
        panic!("it is answered");
    };
    assert_eq!((refused.cid, refused.status), (names[0], 3));
    // 4 MiB are reserved: a fifth read gets no room until one of them was sent.
    let last = io.post(read(), &[], 1 << 20);
    io.wire.work();
    assert_eq!(io.wire.held.len(), 4);
    io.wire.holds = false;
    for name in names.into_iter().chain([last]) {
        assert_eq!(io.reap(name, &[]).data.len(), 1 << 20);
    }
}

/// Commands that need memory besides their own data reserve it from the backend.
#[test]
fn copy_and_verify_reserve_their_buffers() {
    let (admin, mut io) = drive();
    let kept = || admin.wire.subsystem.namespaces()[0].backend().kept.take();
    let mut source = [0; 32];
    source[16..18].copy_from_slice(&199_u16.to_le_bytes());
    let copy = Sqe::new(0x19).blocks(400, 1);
    assert_eq!(io.call(copy, &source, 0).status, 0);
    assert_eq!(kept(), 200 * 4096);
    assert_eq!(io.call(Sqe::new(0x0c).blocks(0, 600), &[], 0).status, 0);
    assert_eq!(kept(), 1 << 20);
}

//= nvme-2.1 5.1.25.1.7
#[test]
fn timestamp_set_by_a_host_advances_with_the_clock() {
    let (mut admin, _io) = drive();
    let time = |admin: &mut Host<Local<Memory>>| {
        let time = admin.call(Sqe::new(0x0a).dword(10, 0x0e), &[], 8).data;
        u64::from_le_bytes(time.try_into().expect("eight"))
    };
    let subsystem = std::rc::Rc::clone(&admin.wire.subsystem);
    let clock = &subsystem.namespaces()[0].backend().clock;
    clock.set(units::Ns::ms(7));
    assert_eq!(time(&mut admin), 7);
    let set = Sqe::new(0x09).dword(10, 0x0e);
    let now = 1_800_000_000_000_u64;
    assert_eq!(admin.call(set, &now.to_le_bytes(), 0).status, 0);
    clock.set(units::Ns::ms(9));
    assert_eq!(
        time(&mut admin),
        (now + 2) | (1 << 49),
        "the origin bit says that a host set it"
    );
}

//= nvme-2.1 6.3
#[test]
fn keep_alive_timeout_of_connect_survives_a_controller_reset() {
    let subsystem = subsystem(vec![Memory::new(4 << 20)]);
    let mut admin = Host::new(Local::new(&subsystem));
    admin.open(0, 0);
    assert_eq!(admin.connect_as(HOST, NQN, 0, 0xffff, 5_000).status, 0);
    for _ in 0..2 {
        admin.call(Sqe::property_set(0x14, 0x46_0061), &[], 0);
        let told = admin.call(Sqe::new(0x0a).dword(10, 0x0f), &[], 0);
        assert_eq!((told.status, told.result), (0, 5_000));
        admin.call(Sqe::property_set(0x14, 0), &[], 0);
    }
}

/// Before Connect, a host cannot make the controller buffer more data than a Connect has.
//= nvme-2.1 6.3
#[test]
fn connect_with_more_data_than_defined_is_refused() {
    for len in [1025, 1 << 20] {
        let subsystem = subsystem(vec![Memory::new(1 << 20)]);
        let mut host = Host::new(Local::new(&subsystem));
        host.open(0, 0);
        let name = host.post(Sqe::fabrics(1), &vec![0; len], 0);
        assert_eq!(host.reap(name, &[]).status, 0x0c, "{len} bytes");
        assert!(host.wire.connection.is_over());
    }
}

#[test]
fn discovery_controllers_leave_room_for_io_controllers() {
    let subsystem = subsystem(vec![Memory::new(1 << 20)]);
    let ask = || {
        let mut host = Host::new(Local::new(&subsystem));
        host.open(0, 0);
        let status = host
            .connect_as(HOST, nvme::DISCOVERY_NQN, 0, 0xffff, 0)
            .status;
        (host, status)
    };
    let asking: Vec<_> = (0..80).map(|_| ask()).collect();
    assert_eq!(asking.iter().filter(|(_, status)| *status == 0).count(), 16);
    assert!(
        asking
            .iter()
            .all(|(_, status)| matches!(*status, 0 | 0x181))
    );
    Host::new(Local::new(&subsystem)).begin();
    drop(asking);
    assert_eq!(ask().1, 0);
}
