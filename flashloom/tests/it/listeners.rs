//! `serve --nbd`: a drive for clients of the network block device, whose server is killed.

use crate::serve::Served;
use crate::{Bench, Said, number};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const FLUSH: u16 = 3;

/// An NBD client with the oldest handshake and simple replies.
pub(crate) struct Client(UnixStream);

impl Client {
    pub(crate) fn connect(served: &Served) -> Self {
        let mut stream = UnixStream::connect(served.bench.path("n.sock")).expect("it is served");
        stream.read_exact(&mut [0; 18]).expect("a greeting");
        let wanted = [&[0, 0, 0, 3], &b"IHAVEOPT"[..], &[0, 0, 0, 1, 0, 0, 0, 0]].concat();
        stream.write_all(&wanted).expect("sent");
        stream.read_exact(&mut [0; 10]).expect("size and flags");
        Self(stream)
    }

    pub(crate) fn call(&mut self, kind: u16, at: u64, len: u32, data: &[u8]) -> Vec<u8> {
        let mut request = vec![0x25, 0x60, 0x95, 0x13, 0, 0];
        request.extend(kind.to_be_bytes());
        request.extend([7; 8]);
        request.extend(at.to_be_bytes());
        request.extend(len.to_be_bytes());
        request.extend(data);
        self.0.write_all(&request).expect("sent");
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
        let mut bytes = vec![0; if kind == READ { len as usize } else { 0 }];
        self.0.read_exact(&mut bytes).expect("data");
        bytes
    }
}

#[test]
fn flushed_data_of_nbd_clients_survives_a_kill() {
    let line = "serve d.flash --nbd unix:n.sock --background";
    let served = Served::prepared(Bench::new(), "--size 16MiB --preset plain.toml", line);
    served.start();
    let mut client = Client::connect(&served);
    client.call(WRITE, 8190, 4, b"kept");
    client.call(FLUSH, 0, 0, b"");
    client.call(WRITE, 8190, 4, b"lost");
    // A second client sees the writes of the first one; other commands cannot use the drive.
    assert_eq!(Client::connect(&served).call(READ, 8190, 4, b""), b"lost");
    let Said { code, err, .. } = served.bench.run("drive info d.flash");
    assert_eq!(code, Some(2), "{err}");
    served.signal("-KILL");
    served.ended();
    served.start();
    let found = Client::connect(&served).call(READ, 8190, 4, b"");
    assert!(found == b"kept" || found == b"lost", "{found:?}");
    served.signal("-TERM");
    served.ended();
    assert!(!served.bench.path("n.sock").exists());
    served.bench.done("drive export d.flash out.img");
    assert_eq!(served.bench.read("out.img")[8190..8194], found[..]);
}

#[test]
fn served_drive_answers_queries_and_obeys_commands() {
    let line = "serve d.flash --nbd unix:n.sock --background --latency model";
    let served = Served::prepared(Bench::new(), "--size 16MiB --preset plain.toml", line);
    let bench = &served.bench;
    let Said { code, err, .. } = bench.run("drive stats d.flash");
    assert_eq!(code, Some(2));
    assert!(err.contains("the drive is neither served"), "{err}");
    served.start();
    let mut client = Client::connect(&served);
    client.call(WRITE, 0, 4096, &[5; 4096]);
    client.call(FLUSH, 0, 0, b"");
    let stats = bench.json("drive stats d.flash", "flashloom.drive-stats/1");
    assert_eq!(number(&stats, "/host_write_bytes"), 4096);
    assert_eq!(number(&stats, "/lateness/answers"), 2);
    let why = bench.json("why d.flash", "flashloom.drive-why/1");
    assert_eq!(number(&why, "/programmed_pages/host"), 1);
    bench.done("drive fault d.flash --flip-reads 1");
    assert_eq!(client.call(READ, 0, 1, b""), [4]);
    for (fault, told) in [
        ("--unreadable 16MiB+4KiB", "which ends at 16 MiB"),
        ("--unwritable 15MiB+2MiB", "which ends at 16 MiB"),
        ("--fail-reads 0", "--fail-reads"),
    ] {
        bench.refuses(&format!("drive fault d.flash {fault}"), &[told]);
    }
    bench.done("drive fault d.flash --heal");
    assert_eq!(client.call(READ, 0, 1, b""), [5]);
    // A power cut drops connections; clients can reconnect afterwards.
    let back = bench.json("drive cut d.flash", "flashloom.drive-cut/1");
    assert!(number(&back, "/off_ns") > 0);
    assert_eq!(client.0.read(&mut [0]).unwrap_or(0), 0);
    assert_eq!(Client::connect(&served).call(READ, 0, 1, b""), [5]);
    let smart = bench.json("drive smart d.flash", "flashloom.smart/1");
    assert_eq!(number(&smart, "/unsafe_shutdowns"), 1);
    served.signal("-TERM");
    served.ended();
    assert!(!bench.path("d.flash.live").exists());
    let smart = bench.json("drive smart d.flash", "flashloom.smart/1");
    assert_eq!(number(&smart, "/unsafe_shutdowns"), 1);
}

#[test]
fn invalid_or_used_address_is_reported() {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 16MiB");
    for (line, reason) in [
        (
            "serve d.flash --nbd nowhere",
            "expected unix:PATH, HOST:PORT",
        ),
        (
            "serve d.flash --nbd unix:none/n.sock",
            "unix:none/n.sock: No such file",
        ),
        (
            "serve d.flash --nbd unix:n.sock --nbd-tls none",
            "none/server-cert.pem: expected certificates",
        ),
        ("serve d.flash --nbd-tls none", "--nbd <ADDR>"),
        (
            "serve d.flash --vhost-user none/v.sock",
            "none/v.sock: No such file",
        ),
        ("serve d.flash", "--nbd <ADDR>"),
    ] {
        let Said { code, err, out, .. } = bench.run(line);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{line}: {err}");
        assert!(err.contains(reason), "{line}: {err}");
    }
    let smart = bench.json("drive smart d.flash", "flashloom.smart/1");
    assert_eq!(number(&smart, "/unsafe_shutdowns"), 0);
}
