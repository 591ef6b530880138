//! `serve --nvme-tcp`: a drive for remote hosts.

use crate::{Bench, Guarded};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

/// A process that serves a drive, ended with its test.
struct Serving {
    child: Guarded,
    address: SocketAddr,
    told: String,
}

impl Serving {
    fn new(bench: &Bench, options: &[&str]) -> Self {
        let child = crate::heeding()
            .args(["serve", "d.flash", "--nvme-tcp", "0"])
            .args(options)
            .current_dir(bench.path(""))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut child = Guarded(child);
        let mut told = String::new();
        let err = child.0.stderr.as_mut().expect("it is piped");
        BufReader::new(err).read_line(&mut told).expect("a line");
        let address = told.split_whitespace().find_map(|word| word.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in {told}"));
        Self {
            child,
            address,
            told,
        }
    }

    /// Ends the process cleanly.
    fn end(mut self) {
        self.child.signal("-TERM");
        assert!(self.child.ended().success());
    }
}

/// Connects to a controller as `host`; returns the status of the Connect command.
fn connect(serving: &Serving, nqn: &str, host: &str) -> u16 {
    let mut socket = TcpStream::connect(serving.address).expect("it listens");
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).expect("a timeout");
    let mut open = [0; 128];
    (open[2], open[4]) = (128, 128);
    socket.write_all(&open).expect("sent");
    socket.read_exact(&mut open).expect("an answer");
    assert_eq!((open[0], open[4]), (1, 128));
    let mut capsule = vec![0; 72 + 1024];
    (capsule[0], capsule[2], capsule[3]) = (4, 72, 72);
    capsule[4..8].copy_from_slice(&1096_u32.to_le_bytes());
    // A Connect command with its data in the capsule.
    (capsule[8], capsule[9], capsule[12]) = (0x7f, 0x40, 0x01);
    capsule[40..44].copy_from_slice(&1024_u32.to_le_bytes());
    (capsule[47], capsule[52]) = (0x01, 31);
    let data = &mut capsule[72..];
    data[16..18].copy_from_slice(&[0xff, 0xff]);
    data[256..256 + nqn.len()].copy_from_slice(nqn.as_bytes());
    data[512..512 + host.len()].copy_from_slice(host.as_bytes());
    socket.write_all(&capsule).expect("sent");
    let mut response = [0; 24];
    socket.read_exact(&mut response).expect("an answer");
    u16::from_le_bytes([response[22], response[23]]) >> 1 & 0x7ff
}

#[test]
fn drive_is_served_to_allowed_hosts_only() {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 16MiB");
    let (own, host) = ("nqn.2026-11.local.flashloom:d", "nqn.2014-08.org.example:h");
    let open = Serving::new(&bench, &[]);
    assert!(open.told.contains(own), "{}", open.told);
    assert!(open.address.ip().is_loopback());
    assert_eq!(connect(&open, own, host), 0);
    assert_eq!(connect(&open, "nqn.2014-08.org.example:other", host), 0x182);
    open.end();
    let named = "nqn.2026-01.org.example:x";
    let closed = Serving::new(&bench, &["--allow", host, "--nqn", named]);
    assert_eq!(connect(&closed, named, host), 0);
    assert_eq!(connect(&closed, named, "nqn.2014-08.org.example:i"), 0x184);
    assert_eq!(connect(&closed, own, host), 0x182);
    closed.end();
    let secret = "DHHC-1:00:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAl7OaH:";
    let hosts = format!("{host} {secret}\n");
    std::fs::write(bench.path("hosts"), hosts).expect("written");
    let secret = Serving::new(&bench, &["--secrets", "hosts"]);
    assert_eq!(connect(&secret, own, "nqn.2014-08.org.example:i"), 0x184);
    assert_eq!(connect(&secret, own, host), 0, "it is to prove itself");
    secret.end();
    let smart = bench.json("drive smart d.flash", "flashloom.smart/1");
    assert_eq!(crate::number(&smart, "/unsafe_shutdowns"), 0);
}

#[test]
fn invalid_serve_is_rejected() {
    let bench = Bench::new();
    bench.done("drive create d.flash --size 16MiB");
    let serve = |options: &str, words: &[&str]| {
        bench.refuses(&format!("serve d.flash {options}"), words);
    };
    serve("", &["--file", "--nvme-tcp"]);
    serve("--nvme-tcp here", &["127.0.0.1:4420"]);
    serve("--nvme-tcp 0 --nqn d", &["nqn."]);
    serve("--file m --allow nqn.x", &["--nvme-tcp"]);
    serve("--nvme-tcp 0 --secrets hosts", &["hosts"]);
    std::fs::write(bench.path("hosts"), "\nnqn.x DHHC-1:00:AAAA:\n").expect("written");
    serve("--nvme-tcp 0 --secrets hosts", &["hosts:2", "32, 48 or 64"]);
    serve("--nvme-tcp 0 --secrets hosts --allow nqn.x", &["--allow"]);
    serve("--nvme-tcp 192.0.2.1:1", &["192.0.2.1:1"]);
}
