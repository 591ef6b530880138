//! Arbitrary input of a host causes no panic and no unbounded growth, and does not affect others.

use crate::host::{Host, Sqe, memory, queue};
use crate::memory::Memory;
use crate::wire::{Local, Wire};
use bolero::TypeGenerator;
use nvme::tcp::pdu::{self, Kind};

/// Bytes that a connection may hold at any time for a host that does not read: data
/// that wait, completions, and a unit that is not whole.
const HELD: usize = (4 << 20) + (1 << 20) + (1 << 20);

fn drive() -> (Host<Local<Memory>>, Host<Local<Memory>>) {
    let admin = memory(&[64 * 4096]);
    let io = queue(&admin, 1, 1);
    (admin, io)
}

/// The other queue still answers.
fn is_well(admin: &mut Host<Local<Memory>>) {
    assert_eq!(admin.call(Sqe::new(0x18), &[], 0).status, 0);
}

#[test]
fn arbitrary_bytes_on_a_new_connection_do_no_harm() {
    bolero::check!()
        .with_iterations(20_000)
        .for_each(|bytes: &[u8]| {
            let (mut admin, _io) = drive();
            let mut local = Local::new(&admin.wire.subsystem);
            let mut open = pdu::header(Kind::OpenRequest);
            pdu::DIGESTS.put(&mut open, bytes.first().map_or(0, |byte| byte & 3));
            local.send(&open);
            local.send(bytes);
            is_well(&mut admin);
        });
}

/// One protocol data unit from the host; most are valid.
#[derive(Clone, Debug, TypeGenerator)]
enum Sent {
    Command {
        queue_of: bool,
        opcode: u8,
        nsid: u8,
        first: u8,
        dwords: [u32; 4],
        small: bool,
        sgl: u8,
        len: u32,
        inline: u8,
    },
    Data {
        tag: u8,
        cid: u8,
        offset: u16,
        len: u16,
        last: bool,
    },
    Damage {
        at: u8,
        value: u8,
    },
    Read,
}

fn send(host: &mut Host<Local<Memory>>, sent: &Sent) {
    let mut bytes = Vec::new();
    match *sent {
        Sent::Command {
            opcode,
            nsid,
            first,
            dwords,
            small,
            sgl,
            len,
            inline,
            ..
        } => {
            let cut = |dword: u32| if small { dword & 0xff } else { dword };
            let mut sqe = Sqe::new(opcode).nsid((nsid % 4).into());
            for (number, dword) in (11..).zip(dwords) {
                sqe = sqe.dword(number, cut(dword));
            }
            let sgl = [0x01, 0x5a, 0x5a, sgl][usize::from(sgl % 4)];
            let len = if small { len % 20_000 } else { len };
            let sqe = sqe.dword(10, first.into()).put(4, &[nsid % 4]);
            let sqe = sqe.sgl(0, len, sgl).put(2, &[first]);
            let mut head = pdu::header(Kind::Command);
            head[8..].copy_from_slice(&sqe.0);
            host.format
                .append(&mut bytes, head, &vec![7; usize::from(inline) * 32]);
        }
        Sent::Data {
            tag,
            cid,
            offset,
            len,
            last,
        } => {
            let mut head = pdu::header(Kind::HostData);
            pdu::TAG.put(&mut head, (tag % 8).into());
            pdu::CID.put(&mut head, cid.into());
            pdu::OFFSET.put(&mut head, (offset & 0xf000).into());
            pdu::DATA_LEN.put(&mut head, len.into());
            pdu::FLAGS.put(&mut head, if last { pdu::LAST } else { 0 });
            host.format.append(&mut bytes, head, &vec![3; len.into()]);
        }
        Sent::Damage { at, value } => {
            bytes = pdu::header(Kind::Command);
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        Sent::Read => {
            host.wire.output();
        }
    }
    host.wire.send(&bytes);
    let waiting = host.wire.connection.waiting();
    assert!(waiting <= HELD, "{waiting} bytes wait");
}

#[test]
fn arbitrary_pdus_on_any_queue_do_no_harm() {
    bolero::check!()
        .with_type::<Vec<Sent>>()
        .with_iterations(3_000)
        .for_each(|units| {
            let (mut admin, mut io) = drive();
            for unit in units {
                match unit {
                    Sent::Command { queue_of: true, .. } => send(&mut admin, unit),
                    _ => send(&mut io, unit),
                }
            }
            // Whatever has become of these, another host is let in and served.
            let mut other = Host::new(Local::new(&admin.wire.subsystem));
            other.begin();
            is_well(&mut other);
        });
}

#[test]
fn connection_broken_at_any_byte_leaves_no_queue() {
    let script = |host: &mut Host<Local<Memory>>| {
        let name = host.post(Sqe::new(1).blocks(0, 3), &[5; 3 * 4096], 0);
        host.reap(name, &[5; 3 * 4096]);
    };
    // Records the bytes that a host sends.
    struct Tap(Local<Memory>, Vec<u8>);
    impl Wire for Tap {
        fn send(&mut self, bytes: &[u8]) {
            self.1.extend_from_slice(bytes);
            self.0.send(bytes);
        }
        fn receive(&mut self) -> Option<Vec<u8>> {
            self.0.receive()
        }
    }
    let (admin, _) = drive();
    let mut tapped = Host::new(Tap(Local::new(&admin.wire.subsystem), Vec::new()));
    tapped.open(0, 0);
    tapped.connect(1, 1);
    let name = tapped.post(Sqe::new(1).blocks(0, 3), &[5; 3 * 4096], 0);
    tapped.reap(name, &[5; 3 * 4096]);
    let sent = std::mem::take(&mut tapped.wire.1);
    drop(tapped);
    let subsystem = &admin.wire.subsystem;
    for end in (0..sent.len()).filter(|end| *end < 1400 || end % 97 == 0) {
        let mut local = Local::new(subsystem);
        for part in sent[..end].chunks(1000) {
            local.send(part);
            local.output();
        }
        drop(local);
        assert_eq!(subsystem.links(), 1, "after {end} bytes");
    }
    let mut whole = queue(&admin, 1, 1);
    script(&mut whole);
}

/// Large commands with colliding identifiers, completed at arbitrary times.
#[test]
fn large_commands_with_any_identifiers_keep_to_the_memory_limit() {
    bolero::check!()
        .with_type::<Vec<(u8, u8, u8)>>()
        .with_iterations(300)
        .for_each(|steps| {
            let admin = memory(&[4 << 20]);
            let mut io = queue(&admin, 1, 1);
            for &(kind, name, less) in steps {
                io.wire.holds = !kind.is_multiple_of(8);
                let count = 256 - u32::from(less % 8);
                let command = |opcode| {
                    let sqe = Sqe::new(opcode).blocks(0, count);
                    sqe.sgl(0, count * 4096, 0x5a).put(2, &[name % 8, 0])
                };
                match kind % 4 {
                    0 => drop(io.wire.output()),
                    1 => io.send_raw(command(1), &[]),
                    _ => io.send_raw(command(2), &[]),
                }
                io.wire.work();
                // Completions that the connection has not taken yet count as waiting too.
                let done = io.wire.held.iter().map(|done| done.data.len());
                let waiting = io.wire.connection.waiting() + done.sum::<usize>();
                assert!(waiting <= HELD, "{waiting} bytes wait");
            }
        });
}
