//! Addresses, start and close of the server, and a simulated drive as its export.

use crate::client::{Client, FLUSH, READ, STATUS, TRIM, WRITE, ZERO};
use crate::memory::{Shown, start};
use engine::{Device, DriveFile, Pace, Show};
use nbd::{Address, Drive, Server};
use sim::Seed;
use ssd::{DriveMedia, Preset};
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use units::{Bytes, KIB, MIB};

#[test]
fn addresses_are_sockets_or_of_this_machine_unless_said() {
    let text = |text: &str| text.parse::<Address>().map(|a| a.to_string());
    assert_eq!(text("unix:n.sock").expect("a path"), "unix:n.sock");
    assert_eq!(text("10809").expect("a port"), "127.0.0.1:10809");
    assert_eq!(text(":10809").expect("a port"), "127.0.0.1:10809");
    assert_eq!(text("0.0.0.0:1").expect("said"), "0.0.0.0:1");
    for wrong in ["", "unix:", "nowhere", "1.2.3.4", "x:y"] {
        let error = text(wrong).expect_err("no address").to_string();
        assert!(error.starts_with(&format!("{wrong}: expected")), "{error}");
    }
}

#[test]
fn clients_are_served_until_the_server_is_closed() {
    let (_engine, memory) = start(8192);
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = Server::start(&address, None, &memory, Shown::new).expect("it listens");
    let Address::Tcp(address) = *server.address() else {
        panic!("a port was asked for");
    };
    let connect = || TcpStream::connect(address).expect("connected");
    let mut first = Client::hello(connect());
    first.go(true);
    let mut second = Client::hello(connect());
    second.go(false);
    first.call(0, WRITE, 0, 512, &[7; 512]);
    assert_eq!(second.call(0, READ, 0, 512, b"").bytes, [7; 512]);
    server.close();
    assert_eq!(second.stream.read(&mut [0]).unwrap_or(0), 0);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_socket_is_taken_over_from_the_dead_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("n.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let address = Address::Unix(path.clone());
    let (_engine, memory) = start(512);
    let server = Server::start(&address, None, &memory, Shown::new).expect("nobody listened");
    assert!(Server::start(&address, None, &memory, Shown::new).is_err());
    Client::hello(UnixStream::connect(&path).expect("connected")).go(true);
    server.close();
    assert!(!path.exists());
}

#[test]
fn drive_keeps_written_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket) = (folder.path().join("d.flash"), folder.path().join("n.sock"));
    let preset = (Preset::named("block").expect("a preset").config)();
    let mut config = preset.resized(Bytes(16 * MIB));
    config.flash.keep_contents = true;
    let media = DriveMedia::new(&config, Seed(1)).expect("a drive");
    DriveFile::create(&file, &config, &media).expect("made");
    let address = Address::Unix(socket.clone());
    for round in 0..2 {
        let (engine, device) = Device::start(&file, Pace::Free, Show::Drive).expect("powered");
        let made = |desk: &_| Drive::new(desk, "d.flash");
        let server = Server::start(&address, None, &device, made).expect("it listens");
        let mut client = Client::hello(UnixStream::connect(&socket).expect("connected"));
        client.go(true);
        if round == 0 {
            assert_eq!(client.call(0, WRITE, 4094, 4, b"last").error, 0);
            assert_eq!(client.call(0, WRITE, 64 * KIB, 4096, &[1; 4096]).error, 0);
            assert_eq!(client.call(1, WRITE, 128 * KIB, 4096, &[2; 4096]).error, 0);
            assert_eq!(client.call(0, TRIM, 64 * KIB, 4096, b"").error, 0);
            assert_eq!(client.call(2, ZERO, 132 * KIB, 4096, b"").error, 0);
            assert_eq!(client.call(0, FLUSH, 0, 0, b"").error, 0);
        }
        assert_eq!(client.call(0, READ, 4092, 8, b"").bytes, b"\0\0last\0\0");
        let said = client.call(0, STATUS, 60 * KIB, 128 * 1024, b"");
        let kib: Vec<_> = said
            .pieces
            .iter()
            .map(|(len, flags)| (len / 1024, *flags))
            .collect();
        assert_eq!(kib, [(68, 3), (8, 0), (52, 3)]);
        server.close();
        device.stop();
        engine.join().expect("no panic").expect("saved");
    }
}
