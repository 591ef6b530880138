//! The drive as a PCIe device of a virtual machine, over vfio-user on a real socket.

use crate::guest::{ADMIN_ENTRIES, BASE, DATA, Guest, MEMORY, map_body, prp};
use crate::host::Sqe;
use crate::memory::{Alive, Memory};
use engine::Pace;
use nvme::Subsystem;
use nvme::pci::Server;
use sim::Kernel;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use units::Ns;

pub(crate) struct Slot {
    drive: Alive,
    server: Option<Server>,
    pub(crate) path: PathBuf,
    /// Number of writes in flight.
    writing: Arc<AtomicUsize>,
    _dir: tempfile::TempDir,
}

/// Serves a drive of 4 MiB; each write takes `write`.
fn served(pace: Pace, write: Ns) -> Slot {
    plug(pace, move |kernel| {
        Memory::new(4 << 20).slow(kernel.sim(), write)
    })
}

pub(crate) fn serve_drive(drive: fn() -> Memory) -> Slot {
    plug(Pace::Free, move |_| drive())
}

fn plug(pace: Pace, drive: impl FnOnce(&Kernel) -> Memory + Send + 'static) -> Slot {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("slot");
    let drive = Alive::start(pace, |kernel| vec![drive(kernel)]);
    let server = Server::start(&path, drive.handle.clone()).expect("a socket");
    let writing = |subsystem: Rc<Subsystem<Memory>>| async move {
        Arc::clone(&subsystem.namespaces()[0].backend().writing)
    };
    Slot {
        writing: drive.handle.ask(writing).expect("it runs"),
        drive,
        server: Some(server),
        path,
        _dir: dir,
    }
}

pub(crate) fn serve() -> Slot {
    serve_drive(|| Memory::new(4 << 20))
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
        assert!(!self.path.exists(), "the socket is gone");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

//= pcie 7.5.1
//= vfio-user 2
#[test]
fn machine_finds_the_drive_and_its_driver_identifies_it() {
    let slot = serve();
    let mut guest = Guest::plugged(&slot.path);
    let told = guest.ask(4, &[16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[]);
    let device = [16_u32, 3, 9, 3].map(u32::to_le_bytes).concat();
    assert_eq!(told, Ok(device));
    assert_eq!(
        guest.config(8) >> 8,
        0x01_0802,
        "a drive with the registers of NVMe"
    );
    let mut region = vec![0; 32];
    region[0] = 32;
    let told = guest.ask(5, &region, &[]).expect("there is one");
    assert_eq!((told[4], &told[16..24]), (3, &0x4000_u64.to_le_bytes()[..]));
    let mut interrupts = vec![0; 16];
    interrupts[8] = 2;
    let told = guest.ask(7, &interrupts, &[]).expect("there are some");
    assert_eq!((told[4], told[12]), (1, 17));
    guest.enable();
    let identify = prp(Sqe::identify(1, 0), DATA + 0x800, DATA + 0x3000);
    assert_eq!(guest.call(0, identify).status, 0);
    // The data start in the middle of one page and continue in another.
    let mut page = guest.load(DATA + 0x800, 0x800);
    page.extend(guest.load(DATA + 0x3000, 0x800));
    assert_eq!(text(&page[4..24]), "SERIAL");
    assert_eq!(text(&page[24..64]), "A drive");
    assert_eq!(page[..2], [0xa5, 0xf1]);
    assert_eq!(page[1792..1800], [0; 8], "capsules are of fabrics");
    assert_eq!(
        guest.call(0, Sqe::fabrics(4)).status,
        1,
        "and so are their commands"
    );
}

/// Endless pseudo-random numbers of 31 bits from `seed`.
pub(crate) fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::from_fn(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Some(state >> 33)
    })
}

/// The command `sqe` with PRPs for `len` bytes of data in scattered pages, the first at an offset;
/// and the address and length of each piece.
fn scattered(guest: &Guest, sqe: Sqe, len: u64, seed: u64) -> (Sqe, Vec<(u64, u64)>) {
    let mut random = numbers(seed);
    let mut free: Vec<u64> = (0..600)
        .map(|page| DATA + 0x10_0000 + page * 4096)
        .collect();
    let mut page = || {
        let number = random.next().expect("endless") as usize % free.len();
        free.swap_remove(number)
    };
    let offset = seed % 1024 * 4;
    let mut pieces = vec![(page() + offset, len.min(4096 - offset))];
    let mut left = len - pieces[0].1;
    while left > 0 {
        pieces.push((page(), left.min(4096)));
        left -= left.min(4096);
    }
    let second = match &pieces[1..] {
        [] => 0,
        [only] => only.0,
        rest => {
            // The PRP list begins near the end of its page; a long one continues in the next.
            let list = DATA + 0x1000 - (seed % 8 + 2) * 8;
            let room = (DATA + 0x1000 - list) as usize / 8;
            let pages: Vec<u64> = rest.iter().map(|piece| piece.0).collect();
            let bytes = |pages: &[u64]| {
                pages
                    .iter()
                    .flat_map(|at| at.to_le_bytes())
                    .collect::<Vec<u8>>()
            };
            if pages.len() <= room {
                guest.store(list, &bytes(&pages));
            } else {
                guest.store(list, &bytes(&pages[..room - 1]));
                guest.store(DATA + 0x1000 - 8, &(DATA + 0x2000).to_le_bytes());
                guest.store(DATA + 0x2000, &bytes(&pages[room - 1..]));
            }
            list
        }
    };
    (prp(sqe, pieces[0].0, second), pieces)
}

//= nvme-2.1 4.3.1
#[test]
fn guest_reads_its_writes_with_pages_anywhere_in_memory() {
    let slot = serve();
    let mut guest = Guest::booted(&slot.path);
    let queue = guest.make_queue(32);
    let mut model = vec![0_u8; 4 << 20];
    for (seed, count) in (1_u64..).zip([1, 2, 3, 10, 17, 256, 255, 4, 1, 90]) {
        let first = seed * 97 % (1024 - count);
        let len = count * 4096;
        let data: Vec<u8> = numbers(seed)
            .map(|number| number as u8)
            .take(len as usize)
            .collect();
        let write = Sqe::new(1).blocks(first, count as u32);
        let (write, pieces) = scattered(&guest, write, len, seed);
        let mut rest = &data[..];
        for (at, len) in pieces {
            guest.store(at, &rest[..len as usize]);
            rest = &rest[len as usize..];
        }
        assert_eq!(guest.call(queue, write).status, 0, "{seed}");
        model[(first * 4096) as usize..][..len as usize].copy_from_slice(&data);
        let first = seed * 31 % (1024 - count);
        let read = Sqe::new(2).blocks(first, count as u32);
        let (read, pieces) = scattered(&guest, read, len, seed + 100);
        assert_eq!(guest.call(queue, read).status, 0, "{seed}");
        let found: Vec<u8> = pieces
            .into_iter()
            .flat_map(|(at, len)| guest.load(at, len as usize))
            .collect();
        assert!(
            found == model[(first * 4096) as usize..][..len as usize],
            "{seed}"
        );
    }
}

//= nvme-2.1 4.3.2
#[test]
fn sgl_segments_describe_scattered_data() {
    let slot = serve();
    let mut guest = Guest::booted(&slot.path);
    let queue = guest.make_queue(8);
    let block = |at: u64, len: u32, kind: u8| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&at.to_le_bytes());
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[15] = kind;
        bytes
    };
    let (low, high) = (DATA + 0x1003, DATA + 0x5001);
    guest.store(DATA, &[block(low, 100, 0), block(high, 3996, 0)].concat());
    guest.store(low, &[7; 100]);
    guest.store(high, &[8; 3996]);
    let write = Sqe::new(1).blocks(5, 1).put(24, &block(DATA, 32, 0x30));
    assert_eq!(guest.call(queue, write).status, 0);
    let read = Sqe::new(2)
        .blocks(5, 1)
        .put(24, &block(DATA + 0x9000, 4096, 0));
    assert_eq!(guest.call(queue, read).status, 0);
    let found = guest.load(DATA + 0x9000, 4096);
    assert!(found[..100] == [7; 100] && found[100..] == [8; 3996]);
    let short = Sqe::new(2).blocks(5, 2).put(24, &block(DATA, 4096, 0));
    assert_eq!(guest.call(queue, short).status, 0x0f);
}

#[test]
fn concurrent_commands_complete_exactly_once() {
    let slot = served(Pace::Wall, Ns::ms(2));
    let mut guest = Guest::booted(&slot.path);
    let queues = [guest.make_queue(8), guest.make_queue(32)];
    let mut wanted = Vec::new();
    for (number, queue) in (0_u64..).zip(queues) {
        for turn in 0..6 {
            let count = if queue == 1 { 7 } else { 31 };
            let names = (0..count).map(|own| {
                let at = DATA + (number * 64 + own) * 4096;
                guest.store(at, &[turn as u8 + 1; 4096]);
                let write = Sqe::new(1).blocks(number * 64 + own, 1);
                guest.post(queue, prp(write, at, 0))
            });
            let mut names: Vec<u16> = names.collect();
            guest.ring(queue);
            let mut answered: Vec<u16> = (0..count).map(|_| guest.reap(queue).cid).collect();
            names.sort_unstable();
            answered.sort_unstable();
            assert_eq!(answered, names);
            assert_eq!(guest.completion(queue), None);
        }
        wanted.push(number * 64);
    }
    for first in wanted {
        let read = prp(Sqe::new(2).blocks(first, 1), DATA, 0);
        assert_eq!(guest.call(1, read).status, 0);
        assert!(guest.load(DATA, 4096) == [6; 4096]);
    }
}

//= nvme-2.1 3.7.2
#[test]
fn controller_reset_waits_for_writes_in_flight() {
    let slot = served(Pace::Wall, Ns::ms(60));
    let mut guest = Guest::booted(&slot.path);
    let queue = guest.make_queue(32);
    for turn in 1_u8..4 {
        guest.store(DATA, &[turn; 4096]);
        for block in 0..20 {
            guest.post(queue, prp(Sqe::new(1).blocks(block, 1), DATA, 0));
        }
        // An event request is pending too.
        guest.post(0, Sqe::new(0x0c));
        guest.ring(0);
        guest.ring(queue);
        while slot.writing.load(Ordering::SeqCst) < 20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        guest.set_register(0x14, 0x46_0060);
        assert_eq!(guest.register(0x1c) & 1, 1, "writes are under way");
        guest.await_state(0);
        assert_eq!(slot.writing.load(Ordering::SeqCst), 0, "turn {turn}");
        assert_eq!(
            guest.completion(queue),
            None,
            "no completion after the reset"
        );
        assert_eq!(slot.drive.links(), 1, "only the admin queue is left");
        guest.enable();
        assert_eq!(guest.make_queue(32), queue);
    }
    assert_eq!(
        guest
            .call(queue, prp(Sqe::new(2).blocks(19, 1), DATA, 0))
            .status,
        0
    );
    assert!(
        guest.load(DATA, 4096) == [3; 4096],
        "written data survive the resets"
    );
}

#[test]
fn device_reset_restores_the_power_on_state() {
    let slot = served(Pace::Wall, Ns::ms(30));
    let mut guest = Guest::booted(&slot.path);
    let queue = guest.make_queue(4);
    guest.write(7, 4, &[6, 4]).expect("it is there");
    guest.post(queue, prp(Sqe::new(1).blocks(0, 1), DATA, 0));
    guest.ring(queue);
    while slot.writing.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(guest.ask(13, &[], &[]), Ok(Vec::new()));
    assert_eq!(
        slot.writing.load(Ordering::SeqCst),
        0,
        "the reset waits for writes"
    );
    let state = [0x14, 0x1c, 0x24, 0x28].map(|at| guest.register(at));
    assert_eq!((state, guest.config(4) & 0xffff), ([0; 4], 0));
    // Mappings survive a device reset; interrupts must be assigned again.
    for vector in 0..4 {
        guest.interrupted(vector, Duration::ZERO);
    }
    guest.enable();
    guest.post(0, Sqe::new(0x18));
    guest.ring(0);
    assert!(!guest.interrupted(0, Duration::from_millis(100)));
    assert_eq!(guest.completion(0).map(|done| done.status), Some(0));
    guest.assign().expect("interrupts");
    assert_eq!(guest.call(0, Sqe::new(0x18)).status, 0);
}

#[test]
fn shutdown_completes_and_the_controller_restarts() {
    let slot = serve();
    let mut guest = Guest::booted(&slot.path);
    guest.set_register(0x14, 0x46_4061);
    guest.await_state(0b1001);
    guest.set_register(0x14, 0x46_0060);
    guest.await_state(0);
    guest.enable();
    assert_eq!(guest.call(0, Sqe::new(0x18)).status, 0);
}

//= nvme-pcie 4.1
#[test]
fn invalid_queue_creation_and_deletion_are_refused() {
    let slot = serve();
    let mut guest = Guest::booted(&slot.path);
    let make = |opcode, number: u32, last: u32, eleventh: u32| {
        let sqe = Sqe::new(opcode).dword(10, last << 16 | number);
        prp(sqe.dword(11, eleventh), BASE + 0x2_0000, 0)
    };
    let cases = [
        (make(5, 0, 7, 1), 0x101),
        (make(5, 17, 7, 1), 0x101),
        (make(5, 1, 0, 1), 0x102),
        (make(5, 1, 128, 1), 0x102),
        (make(5, 1, 7, 0), 0x002),
        (make(5, 1, 7, 17 << 16 | 3), 0x108),
        (prp(make(5, 1, 7, 1), BASE + 8, 0), 0x013),
        (make(1, 1, 7, 1 << 16 | 1), 0x100),
        (make(1, 1, 7, 1), 0x100),
        (make(0, 1, 0, 0), 0x101),
        (make(0, 0, 0, 0), 0x101),
        (make(4, 1, 0, 0), 0x101),
        (make(4, 0, 0, 0), 0x101),
    ];
    for (number, (sqe, status)) in cases.into_iter().enumerate() {
        assert_eq!(guest.call(0, sqe).status, status, "case {number}");
    }
    let queue = u32::from(guest.make_queue(4));
    assert_eq!(
        guest.call(0, make(5, queue, 7, 1)).status,
        0x101,
        "it is there"
    );
    assert_eq!(
        guest.call(0, make(1, queue, 7, queue << 16 | 1)).status,
        0x101
    );
    assert_eq!(
        guest.call(0, make(4, queue, 0, 0)).status,
        0x10c,
        "it is needed"
    );
    assert_eq!(guest.call(0, make(0, queue, 0, 0)).status, 0);
    assert_eq!(guest.call(0, make(4, queue, 0, 0)).status, 0);
    assert_eq!(slot.drive.links(), 1);
}

#[test]
fn queue_deletion_waits_for_commands_in_flight() {
    let slot = served(Pace::Wall, Ns::ms(40));
    let mut guest = Guest::booted(&slot.path);
    let queue = guest.make_queue(8);
    (0..5).for_each(|block| {
        guest.post(queue, prp(Sqe::new(1).blocks(block, 1), DATA, 0));
    });
    guest.ring(queue);
    while slot.writing.load(Ordering::SeqCst) < 5 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(guest.call(0, Sqe::new(0).dword(10, queue.into())).status, 0);
    let answered = std::iter::from_fn(|| guest.completion(queue)).count();
    assert_eq!((answered, slot.writing.load(Ordering::SeqCst)), (5, 0));
}

#[test]
fn unmapped_data_fail_a_command_and_unmapped_queues_fail_the_controller() {
    let slot = serve();
    let mut guest = Guest::booted(&slot.path);
    let queue = guest.make_queue(8);
    let read = |at| prp(Sqe::new(2).blocks(0, 1), at, 0);
    assert_eq!(guest.call(queue, read(BASE + MEMORY)).status, 0x04);
    assert_eq!(guest.call(queue, read(0)).status, 0x04);
    assert_eq!(
        guest
            .call(queue, prp(Sqe::new(1).blocks(0, 1), 0, 0))
            .status,
        0x04
    );
    assert_eq!(guest.call(queue, read(DATA)).status, 0);
    assert_eq!(guest.unmap(BASE, 4096), Err(2), "a part of it");
    guest.unmap(BASE, MEMORY).expect("it is there");
    guest.ring(queue);
    guest.store(BASE, &[0; 64]);
    guest.post(queue, read(DATA));
    guest.ring(queue);
    guest.await_state(0b10);
    // The controller can be reset once memory is mapped again.
    guest.map(BASE, MEMORY, 0).expect("new");
    guest.set_register(0x14, 0);
    guest.await_state(0);
    guest.enable();
    assert_eq!(guest.call(0, Sqe::new(0x18)).status, 0);
    // Admin queues of invalid size make the enable fail.
    guest.set_register(0x14, 0);
    guest.await_state(0);
    guest.set_register(0x24, 0);
    guest.set_register(0x14, 0x46_0061);
    guest.await_state(0b10);
}

#[test]
fn transfer_above_the_limit_is_refused() {
    let slot = serve();
    let mut guest = Guest::booted(&slot.path);
    let queue = guest.make_queue(8);
    let read = prp(Sqe::new(2).blocks(0, 257), DATA, DATA + 0x1000);
    assert_eq!(guest.call(queue, read).status, 0x02);
    let log = prp(Sqe::log(1, 4).dword(11, 0xffff), DATA, DATA + 0x1000);
    assert_eq!(guest.call(0, log).status, 0x02);
}

#[test]
fn completions_wait_for_room_in_the_completion_queue() {
    let slot = serve();
    let mut guest = Guest::booted(&slot.path);
    // Event requests above the limit of four complete at once with an error.
    let names: Vec<u16> = (1..ADMIN_ENTRIES)
        .map(|_| guest.post(0, Sqe::new(0x0c)))
        .collect();
    guest.ring(0);
    for name in &names[4..] {
        let completion = guest.reap(0);
        assert_eq!((completion.cid, completion.status), (*name, 0x105));
    }
    for _ in 0..ADMIN_ENTRIES * 3 {
        assert_eq!(guest.call(0, Sqe::new(0x18)).status, 0);
    }
}

/// Version reply to a monitor of minor revision `minor`. Retries until the server has room,
/// because the place of a closed connection is freed a little later.
fn told_version(slot: &Slot, minor: u8) -> Vec<u8> {
    let told = (0..2000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        let mut guest = Guest::silent(&slot.path);
        guest.send(1, 0, &[0, 0, minor, 0], &[]);
        guest.reply(1)
    });
    told.expect("there is room").expect("it is spoken")
}

//= vfio-user 2
#[test]
fn invalid_monitor_messages_are_refused() {
    let slot = serve();
    let mut guest = Guest::silent(&slot.path);
    assert_eq!(guest.version(1, 0), Err(95), "another revision");
    assert_eq!(guest.reply(1), None, "the connection is closed");
    let mut guest = Guest::silent(&slot.path);
    assert_eq!(
        guest.ask(4, &[0; 16], &[]),
        Err(22),
        "no version was negotiated"
    );
    for (asked, spoken) in [(0, 0), (1, 1), (9, 1)] {
        let told = told_version(&slot, asked);
        assert_eq!(
            told[..4],
            [0, 0, spoken, 0],
            "no newer one than the monitor's"
        );
    }
    let mut guest = Guest::booted(&slot.path);
    for command in [0, 6, 11, 12, 14, 15, 16, 99] {
        assert_eq!(guest.ask(command, &[0; 64], &[]), Err(95), "{command}");
    }
    for command in [1, 2, 3, 5, 7, 8, 9, 10] {
        assert_eq!(guest.ask(command, &[], &[]), Err(22), "{command}");
    }
    for (region, at, len) in [
        (0, 0x4000, 4),
        (7, 4096, 1),
        (1, 0, 4),
        (99, 0, 4),
        (0, 0x1ffc, 8),
    ] {
        assert_eq!(guest.read(region, at, len), Err(22));
        assert_eq!(guest.write(region, at, &vec![0; len]), Err(22));
    }
    assert_eq!(guest.map(BASE, 4096, 0), Err(17), "it is there");
    assert_eq!(guest.ask(2, &map_body(0, 0, 0, 3), &[]), Err(22));
    let none = guest.ask(2, &map_body(0, 4096, 0, 3), &[]);
    assert_eq!(none, Ok(Vec::new()), "memory that the monitor keeps");
    assert_eq!(
        guest.call(0, Sqe::new(0x18)).status,
        0,
        "the controller still works"
    );
}

#[test]
fn machine_beyond_the_limit_is_refused_and_others_continue() {
    let slot = serve();
    let mut guests: Vec<Guest> = (0..4).map(|_| Guest::booted(&slot.path)).collect();
    let mut late = Guest::silent(&slot.path);
    late.send(1, 0, &[0, 0, 1, 0], &[]);
    assert_eq!(late.reply(1), None);
    for guest in &mut guests {
        assert_eq!(guest.call(0, Sqe::new(0x18)).status, 0);
    }
    // An invalid message ends the connection and its controller.
    let mut rude = guests.pop().expect("one of four");
    rude.send_raw(&[0xff; 16], &[]);
    assert_eq!(rude.reply(0), None);
    drop(guests);
    let left = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        slot.drive.links() == 0
    });
    assert!(left, "{} controllers are left", slot.drive.links());
    told_version(&slot, 0);
}
