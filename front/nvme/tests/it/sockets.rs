//! NVMe/TCP over real sockets, with the simulation on a thread of its own.

use crate::host::{Host, NQN, Reply, Sqe};
use crate::memory::{Alive, Memory};
use crate::wire::{Wire, dial};
use engine::Pace;
use nvme::Subsystem;
use nvme::tcp::Target;
use sim::Kernel;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use units::Ns;

pub(crate) struct Served {
    pub(crate) drives: Alive,
    pub(crate) target: Option<Target>,
    pub(crate) address: SocketAddr,
}

pub(crate) fn serve(sizes: &'static [u64]) -> Served {
    serve_drives(Pace::Free, |_| {
        sizes.iter().map(|&bytes| Memory::new(bytes)).collect()
    })
}

pub(crate) fn serve_drive(drive: fn() -> Memory) -> Served {
    serve_drives(Pace::Free, move |_| vec![drive()])
}

pub(crate) fn serve_drives(
    pace: Pace,
    drives: impl FnOnce(&Kernel) -> Vec<Memory> + Send + 'static,
) -> Served {
    let drives = Alive::start(pace, drives);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = Target::start(listener, &drives.handle).expect("files");
    Served {
        drives,
        address: target.address(),
        target: Some(target),
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(target) = self.target.take() {
            target.stop();
        }
    }
}

pub(crate) fn queue(address: SocketAddr, controller: u16, number: u16) -> Host<TcpStream> {
    let mut host = Host::new(dial(address));
    host.open(3, 0);
    let reply = host.connect(number, controller);
    assert_eq!(reply.status, 0);
    host
}

#[test]
fn concurrent_hosts_read_back_their_writes() {
    let served = serve(&[4 << 20]);
    let address = served.address;
    let threads = (0..4_u64).map(|number| {
        std::thread::spawn(move || {
            let mut admin = Host::new(dial(address));
            let controller = admin.begin();
            let mut io = queue(address, controller, 1);
            // Longer than in-capsule data, so that several units are needed.
            let data = vec![number as u8 + 1; 300 << 10];
            let blocks = |opcode| Sqe::new(opcode).blocks(number * 75, 75);
            assert_eq!(io.call(blocks(1), &data, 0).status, 0);
            let reply = io.call(blocks(2), &[], data.len());
            assert_eq!((reply.status, reply.data == data), (0, true));
            assert_eq!(io.call(Sqe::fabrics(8), &[], 0).status, 0);
            assert_eq!(io.unit(), None, "the queue is left");
        })
    });
    let threads: Vec<_> = threads.collect();
    threads
        .into_iter()
        .for_each(|t| t.join().expect("it works"));
}

/// Waits until `count` queues are connected; fails after 5 s.
pub(crate) fn await_links(served: &Served, count: usize) {
    let tries = 0..1000;
    let found = tries.into_iter().any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        served.drives.links() == count
    });
    assert!(found, "{} queues are left", served.drives.links());
}

#[test]
fn broken_admin_connection_ends_its_controller() {
    let served = serve(&[1 << 20]);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let mut io = queue(served.address, controller, 1);
    assert_eq!(served.drives.links(), 2);
    drop(admin);
    assert_eq!(io.unit(), None, "the I/O queue is closed");
    await_links(&served, 0);
}

//= nvme-2.1 3.7.2
#[test]
fn controller_reset_completes_after_writes_in_flight() {
    let served = serve_drives(Pace::Wall, |kernel| {
        vec![Memory::new(1 << 20).slow(kernel.sim(), Ns::ms(60))]
    });
    let writing = |subsystem: Rc<Subsystem<Memory>>| async move {
        Arc::clone(&subsystem.namespaces()[0].backend().writing)
    };
    let writing = served.drives.handle.ask(writing).expect("it runs");
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    for _ in 0..2 {
        let mut io = queue(served.address, controller, 1);
        for block in 0..5 {
            io.post(Sqe::new(1).blocks(block, 1), &[7; 4096], 0);
        }
        while writing.load(Ordering::SeqCst) < 5 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let reset = admin.post(Sqe::property_set(0x14, 0), &[], 0);
        let state = admin.call(Sqe::property_get(0x1c, false), &[], 0);
        assert_eq!(state.result, 1, "writes are under way");
        assert_eq!(admin.reap(reset, &[]).status, 0);
        assert_eq!(writing.load(Ordering::SeqCst), 0);
        let state = admin.call(Sqe::property_get(0x1c, false), &[], 0);
        assert_eq!(state.result, 0);
        let enabled = admin.call(Sqe::property_set(0x14, 0x46_0061), &[], 0);
        assert_eq!(enabled.status, 0);
    }
    // A Format in flight completes before the reset, too.
    let format = admin.post(Sqe::new(0x80).nsid(1), &[], 0);
    while writing.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let reset = admin.post(Sqe::property_set(0x14, 0), &[], 0);
    assert_eq!(admin.reap(format, &[]).status, 0);
    assert_eq!(admin.reap(reset, &[]).status, 0);
    assert_eq!(writing.load(Ordering::SeqCst), 0);
}

#[test]
fn silent_host_is_dropped_after_its_keep_alive_timeout() {
    let served = serve(&[1 << 20]);
    let mut admin = Host::new(dial(served.address));
    admin.open(0, 0);
    let reply = admin.connect_as(crate::host::HOST, NQN, 0, 0xffff, 300);
    assert_eq!(reply.status, 0);
    assert_eq!(admin.unit(), None, "the controller closes the connection");
    await_links(&served, 0);
}

/// Input that arrived in time keeps a connection alive even if the thread was busy until the
/// timeout had passed.
#[test]
fn input_in_time_keeps_the_connection_although_the_thread_was_busy() {
    let served = serve(&[1 << 20]);
    let mut admin = Host::new(dial(served.address));
    admin.open(0, 0);
    let reply = admin.connect_as(crate::host::HOST, NQN, 0, 0xffff, 1000);
    assert_eq!(reply.status, 0);
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    served.drives.handle.open(move |_| {
        tell.send(()).expect("heard");
        // It ends when the other side is dropped.
        let _ = held.recv();
    });
    told.recv().expect("it runs");
    std::thread::sleep(Duration::from_millis(600));
    let name = admin.post(Sqe::fabrics(4), &[], 0);
    std::thread::sleep(Duration::from_millis(700));
    drop(hold);
    assert_eq!(admin.reap(name, &[]).cid, name);
}

/// The test waits for the real ten seconds. A connection with a queue may be silent for longer.
#[test]
fn connection_without_connect_is_dropped_after_ten_seconds() {
    let served = serve(&[1 << 20]);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let mut io = queue(served.address, controller, 1);
    let begun = Instant::now();
    let silent = Host::new(dial(served.address));
    let mut polite = Host::new(dial(served.address));
    polite.open(0, 0);
    let dropped = [silent, polite].map(|mut host| {
        std::thread::spawn(move || {
            let patience = host.wire.set_read_timeout(Some(Duration::from_secs(60)));
            patience.expect("it can be set");
            assert_eq!(host.unit(), None, "the end");
            begun.elapsed()
        })
    });
    for dropped in dropped {
        let after = dropped.join().expect("it is dropped");
        assert!(after >= Duration::from_secs(10), "after {after:?}");
        assert!(after < Duration::from_secs(40), "after {after:?}");
    }
    // The I/O queue has been silent for as long and is still served.
    let reply = io.call(Sqe::new(2).blocks(0, 1), &[], 4096);
    assert_eq!(reply.status, 0);
    await_links(&served, 2);
}

/// Idle connections do not use up the limit: they are closed to make room for active hosts.
#[test]
fn idle_connections_do_not_block_other_hosts() {
    let served = serve(&[1 << 20]);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let mut io = queue(served.address, controller, 1);
    let mut is_well = || {
        let reply = io.call(Sqe::new(2).blocks(0, 1), &[], 4096);
        assert_eq!(reply.status, 0);
    };
    // More connections than the limit: the target closes some of them.
    let idle: Vec<TcpStream> = (0..400).map(|_| dial(served.address)).collect();
    is_well();
    for _ in 0..2000 {
        dial(served.address);
    }
    is_well();
    // With idle connections present, new hosts are still served.
    let filled: Vec<TcpStream> = (0..400).map(|_| dial(served.address)).collect();
    for _ in 0..3 {
        let mut late = Host::new(dial(served.address));
        late.begin();
    }
    is_well();
    drop((idle, filled));
    is_well();
}

/// Terminated connections that their hosts keep open do not use up the limit of connections.
#[test]
fn terminated_connections_make_room_for_new_hosts() {
    let served = serve(&[1 << 20]);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let ended: Vec<_> = (0..300)
        .map(|_| {
            let mut host = Host::new(dial(served.address));
            host.wire.send(&[0xee; 8]);
            // A termination request, unless the connection was closed to make room.
            let _ = host.unit();
            host
        })
        .collect();
    let mut io = queue(served.address, controller, 1);
    let reply = io.call(Sqe::new(2).blocks(0, 1), &[], 4096);
    assert_eq!(reply.status, 0);
    drop(ended);
}

#[test]
fn queue_number_is_free_at_once_after_disconnect() {
    let served = serve(&[1 << 20]);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    for _ in 0..3 {
        let mut io = queue(served.address, controller, 1);
        assert_eq!(io.call(Sqe::fabrics(8), &[], 0).status, 0);
        // The first host has not closed its socket yet.
        let mut next = queue(served.address, controller, 1);
        assert_eq!(next.call(Sqe::new(0).nsid(1), &[], 0).status, 0);
        assert_eq!(io.unit(), None);
        assert_eq!(next.call(Sqe::fabrics(8), &[], 0).status, 0);
    }
    await_links(&served, 1);
}

#[test]
fn host_that_does_not_receive_delays_no_other_host() {
    let served = serve(&[2 << 20]);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let mut lazy = queue(served.address, controller, 1);
    let names: Vec<u16> = (0..31)
        .map(|_| lazy.post(Sqe::new(2).blocks(0, 256), &[], 1 << 20))
        .collect();
    // Others are served meanwhile.
    let mut other = queue(served.address, controller, 2);
    for _ in 0..10 {
        let reply: Reply = other.call(Sqe::new(2).blocks(0, 1), &[], 4096);
        assert_eq!(reply.status, 0);
    }
    for name in names {
        assert_eq!(lazy.reap(name, &[]).data.len(), 1 << 20);
    }
}
