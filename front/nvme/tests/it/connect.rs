//! Connect: hosts that are admitted, and hosts that are rejected.

use crate::host::{HOST, Host, NQN, Sqe, identity, memory, queue, subsystem};
use crate::memory::Memory;
use crate::wire::Local;
use nvme::{Allowed, DISCOVERY_NQN, Identity, Namespace, Subsystem};
use std::rc::Rc;
use std::sync::atomic::Ordering;

fn opened(subsystem: &Rc<Subsystem<Memory>>) -> Host<Local<Memory>> {
    let mut host = Host::new(Local::new(subsystem));
    host.open(0, 0);
    host
}

#[test]
fn host_outside_the_allow_list_is_refused() {
    let allowed = Identity {
        allowed: Allowed::Only([HOST.to_owned()].into()),
        ..identity()
    };
    let namespaces = vec![Namespace::new(Memory::new(1 << 20))];
    let subsystem = Rc::new(Subsystem::new(allowed, namespaces));
    for nqn in [NQN, DISCOVERY_NQN] {
        for other in ["nqn.2014-08.org.example:other", ""] {
            let mut host = opened(&subsystem);
            let reply = host.connect_as(other, nqn, 0, 0xffff, 0);
            assert_eq!(reply.status, 0x184, "{nqn}");
            assert!(host.wire.connection.is_over());
            host.post(Sqe::identify(1, 0), &[], 4096);
            assert_eq!(host.unit(), None, "{nqn}");
        }
        assert_eq!(
            opened(&subsystem)
                .connect_as(HOST, nqn, 0, 0xffff, 0)
                .status,
            0
        );
    }
}

#[test]
fn host_without_a_name_connects_if_all_hosts_are_allowed() {
    let subsystem = subsystem(vec![Memory::new(1 << 20)]);
    let reply = opened(&subsystem).connect_as("", NQN, 0, 0xffff, 0);
    assert_eq!(reply.status, 0);
}

#[test]
fn command_before_connect_ends_the_connection() {
    let subsystem = subsystem(vec![Memory::new(1 << 20)]);
    for sqe in [Sqe::identify(1, 0), Sqe::new(2).blocks(0, 1)] {
        let mut host = opened(&subsystem);
        let reply = host.call(sqe, &[], 4096);
        assert_eq!((reply.status, reply.data.len()), (0x0c, 0));
        assert!(host.wire.connection.is_over());
    }
    assert_eq!(subsystem.links(), 0);
}

/// A Connect with one invalid field: its status, and the field that the result names.
//= nvme-2.1 6.3
#[test]
fn invalid_connect_names_the_invalid_field() {
    let subsystem = subsystem(vec![Memory::new(1 << 20)]);
    let connect = |nqn: &str, number, controller| {
        let reply = opened(&subsystem).connect_as(HOST, nqn, number, controller, 0);
        (reply.status, reply.result)
    };
    assert_eq!(
        connect("nqn.2014-08.org.example:no", 0, 0xffff),
        (0x182, 0x1_0100)
    );
    assert_eq!(connect("", 0, 0xffff), (0x182, 0x1_0100));
    assert_eq!(
        connect(NQN, 0, 7),
        (0x182, 0x1_0010),
        "the host cannot choose a controller"
    );
    assert_eq!(connect(NQN, 1, 7), (0x182, 0x1_0010), "no such controller");
    let mut admin = opened(&subsystem);
    let controller = admin.connect(0, 0xffff).result as u16;
    assert_eq!(connect(NQN, 1, controller).0, 0x0c, "it is not enabled");
    admin.call(Sqe::property_set(0x14, 0x46_0061), &[], 0);
    assert_eq!(
        connect(NQN, 17, controller),
        (0x182, 42),
        "queue number above the limit"
    );
    assert_eq!(connect(NQN, 0xffff, controller), (0x182, 42));
    let _io = queue(&admin, controller, 1);
    assert_eq!(connect(NQN, 1, controller), (0x182, 42), "it is in use");
    let other = opened(&subsystem).connect_as("nqn.2014-08.org.example:x", NQN, 2, controller, 0);
    assert_eq!(other.status, 0x184, "the controller is another host's");
    assert_eq!(subsystem.links(), 2);
}

#[test]
fn second_connect_on_a_connection_is_refused() {
    let mut host = memory(&[1 << 20]);
    assert_eq!(host.connect(0, 0xffff).status, 0x0c);
}

#[test]
fn end_of_the_admin_connection_closes_its_io_queues() {
    let mut admin = memory(&[1 << 20]);
    let subsystem = Rc::clone(&admin.wire.subsystem);
    let io = queue(&admin, 1, 1);
    assert_eq!(subsystem.links(), 2);
    admin.wire.hang_up();
    assert!(io.wire.hung_up.load(Ordering::Relaxed));
    drop(io);
    assert_eq!(subsystem.links(), 0);
}

#[test]
fn disabled_controller_closes_its_queues_and_resets_features() {
    let mut admin = memory(&[1 << 20]);
    admin.call(Sqe::new(9).dword(10, 6).dword(11, 0), &[], 0);
    let io = queue(&admin, 1, 1);
    assert_eq!(admin.call(Sqe::property_set(0x14, 0), &[], 0).status, 0);
    assert!(io.wire.hung_up.load(Ordering::Relaxed));
    assert_eq!(admin.call(Sqe::identify(1, 0), &[], 4096).status, 0x0c);
    admin.call(Sqe::property_set(0x14, 0x46_0061), &[], 0);
    assert_eq!(admin.call(Sqe::new(0xa).dword(10, 6), &[], 0).result, 1);
}

#[test]
fn connect_beyond_the_controller_limit_is_refused() {
    let subsystem = subsystem(vec![Memory::new(1 << 20)]);
    let mut hosts: Vec<_> = (0..64).map(|_| opened(&subsystem)).collect();
    for host in &mut hosts {
        assert_eq!(host.connect(0, 0xffff).status, 0);
    }
    assert_eq!(opened(&subsystem).connect(0, 0xffff).status, 0x181);
    hosts.pop();
    assert_eq!(opened(&subsystem).connect(0, 0xffff).status, 0);
}

/// Without a keep-alive timeout in Connect, a discovery controller uses two minutes and an I/O
/// controller none.
//= nvme-2.1 3.1.3.3
#[test]
fn discovery_controller_always_has_a_keep_alive_timeout() {
    let subsystem = subsystem(vec![Memory::new(1 << 20)]);
    for (nqn, promised, waits) in [
        (NQN, 0, None),
        (NQN, 5000, Some(5000)),
        (DISCOVERY_NQN, 0, Some(120_000)),
        (DISCOVERY_NQN, 5000, Some(5000)),
    ] {
        let mut host = opened(&subsystem);
        let reply = host.connect_as(HOST, nqn, 0, 0xffff, promised);
        assert_eq!(reply.status, 0);
        assert_eq!(host.wire.connection.keep_alive_ms(), waits);
        host.call(Sqe::property_set(0x14, 0x46_0001), &[], 0);
        // The host can disable the keep-alive timeout again.
        let none = Sqe::new(9).dword(10, 0x0f).dword(11, 0);
        assert_eq!(host.call(none, &[], 0).status, 0);
        let always = (nqn == DISCOVERY_NQN).then_some(120_000);
        assert_eq!(host.wire.connection.keep_alive_ms(), always);
    }
}

#[test]
fn property_get_of_the_wrong_width_is_refused() {
    let mut host = memory(&[1 << 20]);
    let capabilities = host.call(Sqe::property_get(0, true), &[], 0);
    // Entries of a queue, less one; contiguous; sets of commands: blocks, and several.
    assert_eq!(capabilities.result & 0x1_ffff, 0x1_007f);
    assert_eq!(capabilities.result >> 37 & 0xff, 0b100_0001);
    assert_eq!(
        host.call(Sqe::property_get(0x08, false), &[], 0).result,
        0x2_0100
    );
    assert_eq!(host.call(Sqe::property_get(0x1c, false), &[], 0).result, 1);
    assert_eq!(host.call(Sqe::property_get(0, false), &[], 0).status, 0x02);
    assert_eq!(
        host.call(Sqe::property_get(0x30, false), &[], 0).status,
        0x02
    );
    assert_eq!(
        host.call(Sqe::property_set(0x20, 0x4e56_4d65), &[], 0)
            .status,
        0x02
    );
}

#[test]
fn format_by_another_host_completes_an_event_request() {
    let mut host = memory(&[1 << 20]);
    let subsystem = Rc::clone(&host.wire.subsystem);
    let mut other = Host::new(Local::new(&subsystem));
    other.begin();
    // Enable notices of namespace changes.
    host.call(Sqe::new(9).dword(10, 0x0b).dword(11, 1 << 8), &[], 0);
    let name = host.post(Sqe::new(0x0c), &[], 0);
    assert_eq!(host.unit(), None);
    assert_eq!(other.call(Sqe::new(0x80).nsid(1), &[], 0).status, 0);
    assert_eq!(host.reap(name, &[]).result, 0x04_0002);
    let changed = host.call(Sqe::log(4, 4096), &[], 4096).data;
    assert_eq!(changed[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    // A pending event request can be aborted.
    let name = host.post(Sqe::new(0x0c), &[], 0);
    let abort = host.post(Sqe::new(8).dword(10, u32::from(name) << 16), &[], 0);
    assert_eq!(host.reap(name, &[]).status, 0x07);
    assert_eq!(host.reap(abort, &[]).result, 0, "it was aborted");
    let missed = host.call(Sqe::new(8).dword(10, 99 << 16), &[], 0);
    assert_eq!(missed.result, 1);
}

//= nvme-2.1 5.1.2
#[test]
fn worn_drive_completes_the_event_request_of_its_subscriber() {
    let mut host = memory(&[1 << 20]);
    let subsystem = Rc::clone(&host.wire.subsystem);
    let mut io = queue(&host, 1, 1);
    let mut other = Host::new(Local::new(&subsystem));
    other.begin();
    // Only `host` enables the critical warning, which Identify does not list as a notice.
    host.call(Sqe::new(9).dword(10, 0x0b).dword(11, 1 << 3), &[], 0);
    let page = host.call(Sqe::identify(1, 0), &[], 4096).data;
    assert_eq!(page[92..96], [0, 1, 0, 0]);
    let name = host.post(Sqe::new(0x0c), &[], 0);
    other.post(Sqe::new(0x0c), &[], 0);
    subsystem.namespaces()[0].backend().worn.set(true);
    for _ in 0..2 {
        assert_eq!(
            io.call(Sqe::new(1).blocks(0, 1), &[1; 4096], 0).status,
            0x20
        );
    }
    assert_eq!(host.reap(name, &[]).result, 0x02_0001);
    assert_eq!(other.unit(), None, "it has not enabled the warning");
    // Reading the health log re-arms the warning.
    let next = host.post(Sqe::new(0x0c), &[], 0);
    assert_eq!(host.unit(), None);
    let health = host.call(Sqe::log(2, 512), &[], 512);
    assert_eq!((health.status, health.data[0]), (0, 1 << 3));
    assert_eq!(
        io.call(Sqe::new(1).blocks(0, 1), &[1; 4096], 0).status,
        0x20
    );
    assert_eq!(host.reap(next, &[]).result, 0x02_0001);
}
