//! Whatever a machine and its monitor do, the drive of another machine goes on.

use crate::guest::{BASE, DATA, Guest, prp};
use crate::host::Sqe;
use crate::slot::serve;
use bolero::TypeGenerator;

/// Something that a machine does, most of which makes sense.
#[derive(Clone, Debug, TypeGenerator)]
enum Done {
    Message {
        command: u8,
        body: [u8; 40],
        len: u8,
        silent: bool,
    },
    Register {
        at: u8,
        value: u32,
        doorbell: bool,
    },
    Entry {
        io: bool,
        opcode: u8,
        flags: u8,
        nsid: u8,
        pointers: [u16; 2],
        dwords: [u32; 6],
        small: bool,
    },
    Memory {
        at: u16,
        bytes: [u8; 32],
    },
    Unmap,
    Reset,
}

/// Places within the memory and some outside, at odd offsets too.
fn place(value: u16) -> u64 {
    match value % 5 {
        0 => DATA + u64::from(value) * 8,
        1 => BASE + u64::from(value % 0x400) * 0x1000,
        2 => DATA + 0x1000 - u64::from(value % 64),
        3 => u64::MAX - u64::from(value),
        _ => DATA + u64::from(value) * 0x10,
    }
}

fn act(guest: &mut Guest, done: &Done, plain: bool) {
    match *done {
        Done::Message {
            command,
            ref body,
            len,
            silent,
        } => {
            let (command, len) = (u16::from(command % 17), usize::from(len) % 41);
            let flags = if silent { 0x10 } else { 0 };
            guest.send(command, flags, &body[..len], &[]);
            if !silent {
                guest.reply(command);
            }
        }
        Done::Register {
            at,
            value,
            doorbell,
        } => {
            let (at, value) = if doorbell {
                (0x1000 + u64::from(at % 40) * 4, value % 40)
            } else {
                (u64::from(at % 16) * 4, value)
            };
            guest.send_write(at, value);
        }
        Done::Entry {
            io,
            opcode,
            flags,
            nsid,
            pointers,
            dwords,
            small,
        } => {
            let queue = u16::from(io && plain);
            let mut sqe = Sqe::new(opcode).nsid((nsid % 3).into());
            for (number, value) in (10..).zip(dwords) {
                sqe = sqe.dword(number, if small { value % 20 } else { value });
            }
            let sqe = prp(sqe, place(pointers[0]), place(pointers[1]));
            let sqe = sqe.put(1, &[flags & 0xc0]).put(39, &[flags & 0x30]);
            guest.post(queue, sqe);
            guest.send_ring(queue);
        }
        Done::Memory { at, ref bytes } => {
            guest.store(DATA + u64::from(at) * 8, bytes);
        }
        Done::Unmap => {
            guest.send(3, 0x10, &[24, 0, 0, 0, 2, 0, 0, 0], &[]);
        }
        Done::Reset => guest.send(13, 0x10, &[], &[]),
    }
}

#[test]
fn arbitrary_guest_actions_do_not_stop_another_machine() {
    let slot = serve();
    let mut other = Guest::booted(&slot.path);
    let queue = other.make_queue(8);
    bolero::check!().with_iterations(400).with_type().for_each(
        |(steps, plain): &(Vec<Done>, bool)| {
            let Some(mut guest) = Guest::try_plugged(&slot.path) else {
                return;
            };
            guest.enable();
            if *plain {
                guest.make_queue(8);
            }
            for step in steps.iter().take(40) {
                act(&mut guest, step, *plain);
            }
            drop(guest);
            let read = prp(Sqe::new(2).blocks(0, 1), DATA, 0);
            assert_eq!(other.call(queue, read).status, 0);
        },
    );
}

#[test]
fn arbitrary_bytes_as_messages_do_not_stop_another_machine() {
    let slot = serve();
    let mut other = Guest::booted(&slot.path);
    bolero::check!()
        .with_iterations(400)
        .for_each(|bytes: &[u8]| {
            if let Some(mut guest) = Guest::try_plugged(&slot.path) {
                guest.send_raw(bytes, &[]);
            }
            assert_eq!(other.call(0, Sqe::new(0x18)).status, 0);
        });
}
