//! Hosts that take nothing, say half of something, or go while something is under way.

use crate::host::{Host, Sqe, Unit, identity};
use crate::memory::Memory;
use crate::sockets::{Served, await_links, queue, serve, serve_drives};
use crate::wire::{Wire, dial};
use engine::{Engine, Pace};
use nvme::tcp::Target;
use nvme::tcp::pdu::{self, Kind};
use nvme::{Namespace, Subsystem};
use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use units::Ns;

/// Serves a drive of 1 MiB; each write takes `write`.
fn serve_slow(pace: Pace, write: Ns) -> Served {
    serve_drives(pace, move |kernel| {
        vec![Memory::new(1 << 20).slow(kernel.sim(), write)]
    })
}

/// Reads that were carried out.
fn reads(served: &Served) -> usize {
    let reads = |subsystem: Rc<Subsystem<Memory>>| async move {
        subsystem.namespaces()[0].backend().reads.get()
    };
    served.drives.handle.ask(reads).expect("it runs")
}

/// Reads that were carried out when no more are.
fn settled_reads(served: &Served) -> usize {
    let mut last = usize::MAX;
    loop {
        let now = reads(served);
        if now == last {
            return now;
        }
        last = now;
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A host is served as if it were alone.
fn is_prompt(io: &mut Host<TcpStream>) {
    let begun = Instant::now();
    for _ in 0..100 {
        let reply = io.call(Sqe::new(2).blocks(0, 1), &[], 4096);
        assert_eq!((reply.status, reply.data.len()), (0, 4096));
    }
    // One that others are waited for is not done within their 30 s.
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// A host with 31 reads of 1 MiB under way, of which it has taken nothing, and their names.
fn greedy(served: &Served, controller: u16, number: u16) -> (Host<TcpStream>, Vec<u16>) {
    let mut host = queue(served.address, controller, number);
    // A small receive buffer, so that the system itself holds little of the output.
    rustix::net::sockopt::set_socket_recv_buffer_size(&host.wire, 64 << 10).expect("a size");
    let names = (0..31).map(|_| host.post(Sqe::new(2).blocks(0, 256), &[], 1 << 20));
    let names = names.collect();
    (host, names)
}

#[test]
fn slow_reader_gets_all_data_and_delays_no_other_host() {
    let served = serve(&[2 << 20]);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let mut other = queue(served.address, controller, 9);
    let lazy = (1..=4).map(|number| greedy(&served, controller, number));
    let lazy: Vec<_> = lazy.collect();
    let carried_out = settled_reads(&served);
    // Each connection holds back 4 MiB of answers, and socket buffers hold some more.
    assert!(carried_out < 4 * 16, "{carried_out} of {}", 4 * 31);
    is_prompt(&mut other);
    for (mut lazy, names) in lazy {
        for name in names {
            assert_eq!(lazy.reap(name, &[]).data.len(), 1 << 20);
        }
    }
}

#[test]
fn host_that_does_not_receive_is_not_read_from() {
    let served = serve(&[2 << 20]);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let mut other = queue(served.address, controller, 9);
    let (mut deaf, _) = greedy(&served, controller, 1);
    settled_reads(&served);
    // Input that the controller does not read, because its output is blocked.
    let patience = deaf
        .wire
        .set_write_timeout(Some(Duration::from_millis(500)));
    patience.expect("it can be set");
    let sent = (0..1000).find_map(|_| deaf.wire.write(&[0xff; 64 << 10]).err());
    let refused = sent.expect("there is an end to what is taken").kind();
    assert!(matches!(refused, ErrorKind::WouldBlock), "{refused:?}");
    is_prompt(&mut other);
    drop(deaf);
    await_links(&served, 2);
}

#[test]
fn incomplete_capsule_delays_no_other_host() {
    let served = serve(&[1 << 20]);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let mut other = queue(served.address, controller, 2);
    let mut half = queue(served.address, controller, 1);
    let mut head = pdu::header(Kind::Command);
    let sqe = Sqe::new(1).blocks(5, 1).sgl(0, 4096, 1);
    head[8..].copy_from_slice(&sqe.put(2, &777_u16.to_le_bytes()).0);
    let mut capsule = Vec::new();
    half.format.append(&mut capsule, head, &[6; 4096]);
    let (first, rest) = capsule.split_at(1234);
    half.wire.send(first);
    is_prompt(&mut other);
    for piece in rest.chunks(1000) {
        std::thread::sleep(Duration::from_millis(5));
        half.wire.send(piece);
    }
    let Some(Unit::Reply(reply)) = half.unit() else {
        panic!("a completion");
    };
    assert_eq!((reply.cid, reply.status), (777, 0));
    assert_eq!(
        other.call(Sqe::new(2).blocks(5, 1), &[], 4096).data,
        [6; 4096]
    );
    // And one that never comes is nothing that is left.
    half.wire.send(first);
    drop(half);
    await_links(&served, 2);
    is_prompt(&mut other);
}

#[test]
fn command_in_flight_is_executed_after_its_host_has_gone() {
    let served = serve_slow(Pace::Free, Ns::ms(300));
    let writing = |subsystem: Rc<Subsystem<Memory>>| async move {
        Arc::clone(&subsystem.namespaces()[0].backend().writing)
    };
    let writing = served.drives.handle.ask(writing).expect("it runs");
    let await_writes = |count| {
        let begun = Instant::now();
        while writing.load(Ordering::SeqCst) != count {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let mut gone = queue(served.address, controller, 1);
    for block in 0..8 {
        gone.post(Sqe::new(1).blocks(block, 1), &[3; 4096], 0);
    }
    await_writes(8);
    drop(gone);
    await_links(&served, 1);
    await_writes(0);
    let mut other = queue(served.address, controller, 2);
    let reply = other.call(Sqe::new(2).blocks(0, 8), &[], 8 * 4096);
    assert_eq!(reply.data, [3; 8 * 4096]);
}

#[test]
fn termination_request_arrives_before_the_connection_closes() {
    let served = serve(&[1 << 20]);
    let mut admin = Host::new(dial(served.address));
    admin.begin();
    admin.wire.send(&[0xee; 100]);
    // A host that keeps sending still receives the termination request.
    admin.wire.send(&[0xee; 5000]);
    assert!(matches!(admin.unit(), Some(Unit::End { reason: 1, .. })));
    assert_eq!(admin.unit(), None);
    await_links(&served, 0);
}

#[test]
fn stopped_target_accepts_no_host_and_keeps_connected_ones() {
    let mut served = serve(&[1 << 20]);
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let mut io = queue(served.address, controller, 1);
    served.target.take().expect("it is there").stop();
    assert!(TcpStream::connect(served.address).is_err());
    is_prompt(&mut io);
    // The end of the simulation closes all connections, also with an event request in flight.
    admin.post(Sqe::new(0x0c), &[], 0);
    drop(served);
    assert_eq!((io.unit(), admin.unit()), (None, None));
}

#[test]
fn lateness_is_recorded_for_commands_from_sockets() {
    let served = serve_slow(Pace::Wall, Ns::ms(5));
    let mut admin = Host::new(dial(served.address));
    let controller = admin.begin();
    let mut io = queue(served.address, controller, 1);
    for block in 0..3 {
        let begun = Instant::now();
        let write = Sqe::new(1).blocks(block, 1);
        assert_eq!(io.call(write, &[3; 4096], 0).status, 0);
        assert!(begun.elapsed() >= Duration::from_millis(5));
    }
    let late = served.drives.handle.lateness().expect("it runs");
    assert_eq!(late.expect("it is paced").count, 3);
}

#[test]
fn panic_closes_all_connections() {
    let build = |_: &_| {
        let drives = vec![Namespace::new(Memory::new(1 << 20))];
        Ok::<_, io::Error>(Subsystem::new(identity(), drives))
    };
    let (engine, handle) = Engine::start(Pace::Free, build, |_, _| ()).expect("a thread");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = Target::start(listener, &handle).expect("files");
    let mut admin = Host::new(dial(target.address()));
    admin.begin();
    admin.post(Sqe::new(0x0c), &[], 0);
    handle.submit(|_| async { panic!("a mistake of ours") });
    assert_eq!(admin.unit(), None);
    target.stop();
    assert!(engine.join().is_err());
}
