//! In-band authentication: hosts that must authenticate, and rejection of all others.
//!
//! The test host encodes the messages itself and computes responses with cryptographic libraries,
//! without code of the crate under test.

use crate::host::{HOST, Host, NQN, Sqe, identity};
use crate::memory::Memory;
use crate::wire::Local;
use bolero::TypeGenerator;
use hmac::{Hmac, KeyInit, Mac};
use nvme::{Allowed, DISCOVERY_NQN, Identity, Namespace, Secrets, Subsystem};
use sha2::{Digest, Sha256, Sha512};
use std::rc::Rc;
use std::time::Duration;

/// Secret of the host: the key 01h, 02h, … 20h, untransformed.
const HOST_SECRET: &str = "DHHC-1:00:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAl7OaH:";
/// Secret of the drive: the key 01h, 02h, … 30h, to be transformed with SHA-384.
const DRIVE_SECRET: &str =
    "DHHC-1:02:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8wyg3Bcw==:";
/// Status "authentication required".
const REQUIRED: u16 = 0x191;

/// A subsystem that requires authentication of hosts; it has a secret of its own if `drive`.
fn gated(drive: bool) -> Rc<Subsystem<Memory>> {
    let secrets = Secrets {
        host: HOST_SECRET.parse().expect("a secret"),
        drive: drive.then(|| DRIVE_SECRET.parse().expect("a secret")),
    };
    let identity = Identity {
        allowed: Allowed::Proved([(HOST.to_owned(), secrets)].into()),
        ..identity()
    };
    let namespaces = vec![Namespace::new(Memory::new(1 << 20))];
    Rc::new(Subsystem::new(identity, namespaces))
}

/// A host whose Connect succeeded on one queue and which has yet to authenticate.
struct Guest {
    host: Host<Local<Memory>>,
    nqn: &'static str,
}

fn keyed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("a key");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

impl Guest {
    fn new(subsystem: &Rc<Subsystem<Memory>>, nqn: &'static str, queue: u16, to: u16) -> Self {
        let mut host = Host::new(Local::new(subsystem));
        host.open(0, 0);
        let reply = host.connect_as(HOST, nqn, queue, to, 0);
        assert_eq!(reply.status, 0);
        assert_eq!(reply.result >> 16, 0b10, "authentication is required");
        Self { host, nqn }
    }

    fn send(&mut self, data: &[u8]) -> u16 {
        let sqe = Sqe::fabrics(5)
            .put(41, &[1, 1, 0xe9])
            .put(44, &(data.len() as u32).to_le_bytes());
        self.host.call(sqe, data, 0).status
    }

    fn receive(&mut self) -> Vec<u8> {
        let sqe = Sqe::fabrics(6)
            .put(41, &[1, 1, 0xe9])
            .put(44, &4096_u32.to_le_bytes());
        let reply = self.host.call(sqe, &[], 4096);
        assert_eq!(reply.status, 0);
        reply.data
    }

    /// Offers hash functions and Diffie-Hellman groups; returns the challenge.
    fn offer(&mut self, hashes: &[u8], groups: &[u8]) -> Vec<u8> {
        let mut offer = vec![0, 0, 0, 0, 7, 0, 0, 1];
        let mut chap = [0; 64];
        (chap[0], chap[2], chap[3]) = (1, hashes.len() as u8, groups.len() as u8);
        chap[4..4 + hashes.len()].copy_from_slice(hashes);
        chap[34..34 + groups.len()].copy_from_slice(groups);
        offer.extend(chap);
        assert_eq!(self.send(&offer), 0);
        self.receive()
    }

    /// Starts authentication with SHA-256 and no Diffie-Hellman group; returns the status.
    fn begin(&mut self) -> u16 {
        let mut offer = vec![0, 0, 0, 0, 7, 0, 0, 1, 1, 0, 1, 1, 1];
        offer.resize(8 + 64, 0);
        self.send(&offer)
    }

    /// The reply with `key` to a challenge for SHA-256 without a group. `asks` is the host's own
    /// challenge to the controller.
    fn reply(&self, challenge: &[u8], key: &[u8], asks: Option<[u8; 32]>) -> Vec<u8> {
        let (value, sequence) = (&challenge[16..48], &challenge[12..16]);
        let parts = [
            value,
            sequence,
            &[7, 0, 0],
            b"HostHost",
            HOST.as_bytes(),
            &[0],
        ];
        let parts = [&parts[..], &[self.nqn.as_bytes()]].concat();
        let mut reply = vec![1, 2, 0, 0, 7, 0, 32, 0, u8::from(asks.is_some()), 0, 0, 0];
        reply.extend(9_u32.to_le_bytes());
        reply.extend(keyed::<Hmac<Sha256>>(key, &parts));
        reply.extend(asks.unwrap_or_default());
        reply
    }

    /// Authenticates with `key`; returns the last message of the exchange.
    fn prove(&mut self, key: &[u8]) -> Vec<u8> {
        let challenge = self.offer(&[1], &[0]);
        assert_eq!(challenge[..12], [1, 1, 0, 0, 7, 0, 32, 0, 1, 0, 0, 0]);
        assert_eq!(challenge.len(), 48);
        let reply = self.reply(&challenge, key, None);
        assert_eq!(self.send(&reply), 0);
        self.receive()
    }

    /// Status of an Identify command.
    fn identify(&mut self) -> u16 {
        self.host.call(Sqe::identify(1, 0), &[], 4096).status
    }

    /// Asserts that the connection is over and commands get no answer.
    fn is_out(&mut self) {
        assert!(self.host.wire.connection.is_over());
        self.host.post(Sqe::identify(1, 0), &[], 4096);
        assert_eq!(self.host.unit(), None);
    }
}

fn key() -> Vec<u8> {
    (1..=32).collect()
}

/// Properties, Identify and log pages need authentication, on discovery controllers too.
//= nvme-2.0 8.13
#[test]
fn unauthenticated_host_is_refused_every_command() {
    for nqn in [NQN, DISCOVERY_NQN] {
        let mut guest = Guest::new(&gated(false), nqn, 0, 0xffff);
        let before = [
            (Sqe::identify(1, 0), 4096),
            (Sqe::log(2, 512), 512),
            (Sqe::property_get(0, true), 0),
            (Sqe::property_set(0x14, 0x46_0061), 0),
            (Sqe::new(0x0c), 0),
            (Sqe::new(0x18), 0),
        ];
        for (sqe, room) in before {
            let reply = guest.host.call(sqe, &[], room);
            assert_eq!((reply.status, reply.data.len()), (REQUIRED, 0), "{sqe:?}");
        }
        assert!(!guest.host.wire.connection.is_live());
        let success = guest.prove(&key());
        assert_eq!(success, [1, 3, 0, 0, 7, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(guest.host.wire.connection.is_live());
        let enabled = guest.host.call(Sqe::property_set(0x14, 0x46_0061), &[], 0);
        assert_eq!(enabled.status, 0);
        assert_eq!(guest.identify(), 0);
    }
}

//= nvme-2.0 8.13.5
#[test]
fn wrong_secret_fails_authentication_and_drops_the_connection() {
    let mut wrong = key();
    wrong[31] ^= 1;
    let subsystem = gated(false);
    let mut guest = Guest::new(&subsystem, NQN, 0, 0xffff);
    assert_eq!(guest.prove(&wrong), [0, 0xf1, 0, 0, 7, 0, 1, 1]);
    guest.is_out();
    let mut other = Host::new(Local::new(&subsystem));
    other.open(0, 0);
    let reply = other.connect_as("nqn.2014-08.org.example:other", NQN, 0, 0xffff, 0);
    assert_eq!(reply.status, 0x184, "a host without a secret is refused");
    assert_eq!(reply.result, 0);
}

#[test]
fn response_of_one_queue_does_not_authenticate_another() {
    let subsystem = gated(false);
    let mut admin = Guest::new(&subsystem, NQN, 0, 0xffff);
    let challenge = admin.offer(&[1], &[0]);
    let reply = admin.reply(&challenge, &key(), None);
    assert_eq!(admin.send(&reply), 0);
    assert_eq!(admin.receive()[1], 3);
    admin.host.call(Sqe::property_set(0x14, 0x46_0061), &[], 0);
    let mut io = Guest::new(&subsystem, NQN, 1, 1);
    let read = io.host.call(Sqe::new(2).blocks(0, 1), &[], 4096);
    assert_eq!((read.status, read.data.len()), (REQUIRED, 0));
    // The response of another queue does not authenticate this one.
    assert_ne!(io.offer(&[1], &[0])[16..], challenge[16..]);
    assert_eq!(io.send(&reply), 0);
    assert_eq!(io.receive()[1], 0xf1);
    io.is_out();
    drop(io);
    let mut io = Guest::new(&subsystem, NQN, 1, 1);
    assert_eq!(io.prove(&key())[1], 3);
    assert_eq!(io.host.call(Sqe::new(2).blocks(0, 1), &[], 4096).status, 0);
}

/// Linux authenticates again when its secret is replaced.
//= nvme-2.0 8.13.5
#[test]
fn failed_reauthentication_drops_the_connection() {
    let mut guest = Guest::new(&gated(false), NQN, 0, 0xffff);
    assert_eq!(guest.prove(&key())[1], 3);
    assert_eq!(
        guest
            .host
            .call(Sqe::property_set(0x14, 0x46_0061), &[], 0)
            .status,
        0
    );
    let first = guest.offer(&[1], &[0]);
    assert_eq!(guest.identify(), 0, "the host is authenticated already");
    let reply = guest.reply(&first, &key(), None);
    assert_eq!((guest.send(&reply), guest.receive()[1]), (0, 3));
    assert_eq!(guest.identify(), 0);
    // The response to one challenge fails for the next one.
    assert_ne!(guest.offer(&[1], &[0])[16..], first[16..]);
    assert_eq!((guest.send(&reply), guest.receive()[1]), (0, 0xf1));
    guest.is_out();
}

//= nvme-2.0 8.13.5
#[test]
fn mutual_authentication_proves_the_controller_to_the_host() {
    let mut guest = Guest::new(&gated(true), NQN, 0, 0xffff);
    let challenge = guest.offer(&[1], &[0]);
    let reply = guest.reply(&challenge, &key(), Some([5; 32]));
    assert_eq!(guest.send(&reply), 0);
    assert_eq!(
        guest.identify(),
        REQUIRED,
        "the controller has not authenticated"
    );
    let success = guest.receive();
    assert_eq!(success[..9], [1, 3, 0, 0, 7, 0, 32, 0, 1]);
    let own: Vec<u8> = (1..=48).collect();
    let named: [&[u8]; 2] = [NQN.as_bytes(), b"NVMe-over-Fabrics"];
    let own = keyed::<Hmac<sha2::Sha384>>(&own, &named);
    let asked: [&[u8]; 7] = [
        &[5; 32],
        &[9, 0, 0, 0, 7, 0, 0],
        b"Controller",
        NQN.as_bytes(),
        &[0],
        HOST.as_bytes(),
        &[],
    ];
    assert_eq!(success[16..], keyed::<Hmac<Sha256>>(&own, &asked));
    assert_eq!(guest.identify(), REQUIRED, "the host has not confirmed");
    assert_eq!(
        guest.send(&[1, 4, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        0
    );
    assert_eq!(guest.identify(), 0x0c, "authenticated, but not enabled");
    // The host may refuse the controller's response, which ends the connection.
    let mut guest = Guest::new(&gated(true), NQN, 0, 0xffff);
    let challenge = guest.offer(&[1], &[0]);
    let reply = guest.reply(&challenge, &key(), Some([5; 32]));
    assert_eq!((guest.send(&reply), guest.receive()[1]), (0, 3));
    assert_eq!(guest.send(&[0, 0xf0, 0, 0, 7, 0, 1, 1]), 0);
    guest.is_out();
    // A controller without a secret cannot answer the host's challenge.
    let mut guest = Guest::new(&gated(false), NQN, 0, 0xffff);
    let challenge = guest.offer(&[1], &[0]);
    let reply = guest.reply(&challenge, &key(), Some([5; 32]));
    assert_eq!((guest.send(&reply), guest.receive()[1]), (0, 0xf1));
    guest.is_out();
}

/// If the host's public number is 2, the group's key equals the drive's public number.
//= nvme-2.0 8.13.5
#[test]
fn response_without_the_diffie_hellman_key_is_rejected() {
    for is_right in [true, false] {
        let mut guest = Guest::new(&gated(false), NQN, 0, 0xffff);
        let challenge = guest.offer(&[1, 3, 2, 9], &[0, 1]);
        assert_eq!(challenge[..12], [1, 1, 0, 0, 7, 0, 64, 0, 3, 1, 0, 1]);
        let (value, number) = challenge[16..].split_at(64);
        let shared = Sha512::digest(number);
        let augmented = keyed::<Hmac<Sha512>>(&shared, &[value]);
        let value = if is_right { &augmented[..] } else { value };
        let parts = [value, &challenge[12..16], &[7, 0, 0], b"HostHost"];
        let names = [HOST.as_bytes(), &[0], NQN.as_bytes()];
        let response = keyed::<Hmac<Sha512>>(&key(), &[&parts[..], &names].concat());
        let mut reply = vec![1, 2, 0, 0, 7, 0, 64, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        reply.extend(response);
        reply.extend([0; 64]);
        reply.extend([0; 255]);
        reply.push(2);
        assert_eq!(guest.send(&reply), 0);
        assert_eq!(guest.receive()[1], if is_right { 3 } else { 0xf1 });
    }
}

/// Messages out of order or malformed, each with the reason code of its failure.
//= nvme-2.0 8.13.5
#[test]
fn invalid_message_ends_in_a_failure() {
    let why = |steps: &dyn Fn(&mut Guest) -> Vec<u8>| {
        let mut guest = Guest::new(&gated(true), NQN, 0, 0xffff);
        let failure = steps(&mut guest);
        assert_eq!((failure[1], failure[6]), (0xf1, 1), "{failure:?}");
        guest.is_out();
        failure[7]
    };
    let said = |data: Vec<u8>| {
        why(&move |guest| {
            assert_eq!(guest.send(&data), 0);
            guest.receive()
        })
    };
    assert_eq!(why(&Guest::receive), 7, "no message is pending");
    assert_eq!(why(&|guest| guest.offer(&[9], &[0])), 4);
    assert_eq!(why(&|guest| guest.offer(&[1], &[5])), 5);
    assert_eq!(said(vec![0, 0, 0, 0, 7, 0, 1, 1]), 3);
    assert_eq!(said(vec![0, 0, 0, 0, 7, 0, 0, 1]), 6);
    assert_eq!(said(vec![0, 0, 0, 0, 7, 0, 0, 0]), 2);
    assert_eq!(said(vec![0, 0, 0]), 6);
    assert_eq!(said(vec![1, 2, 0, 0, 7, 0, 32, 0]), 7);
    assert_eq!(
        said(vec![1, 4, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        7
    );
    let mut long = vec![0, 0, 0, 0, 7, 0, 0, 1];
    long.extend([1, 0, 31, 31]);
    long.extend([1; 60]);
    assert_eq!(said(long), 6);
    let replied = |change: &dyn Fn(&mut Vec<u8>)| {
        why(&move |guest| {
            let challenge = guest.offer(&[1], &[0]);
            let mut reply = guest.reply(&challenge, &key(), None);
            change(&mut reply);
            assert_eq!(guest.send(&reply), 0);
            guest.receive()
        })
    };
    assert_eq!(replied(&|reply| reply[4] = 8), 6, "of another transaction");
    assert_eq!(replied(&|reply| reply[6] = 48), 6);
    assert_eq!(replied(&|reply| reply.truncate(60)), 6);
    assert_eq!(replied(&|reply| reply[11] = 0xff), 6);
    assert_eq!(replied(&|reply| reply[16] ^= 1), 1);
}

#[test]
fn unauthenticated_connections_make_room_for_new_hosts() {
    let subsystem = gated(false);
    let mut first = Guest::new(&subsystem, NQN, 0, 0xffff);
    assert_eq!(first.prove(&key())[1], 3);
    let _silent: Vec<_> = (0..63)
        .map(|_| Guest::new(&subsystem, NQN, 0, 0xffff))
        .collect();
    let mut late = Guest::new(&subsystem, NQN, 0, 0xffff);
    assert_eq!(late.prove(&key())[1], 3);
    assert_eq!(first.identify(), 0x0c, "the first host stays authenticated");
    assert_eq!(subsystem.links(), 64);
}

/// The rate limit admits a burst of authentications, then one at a time; other hosts get a status
/// that tells them to retry.
#[test]
fn authentication_attempts_beyond_the_rate_limit_are_told_to_retry() {
    const INTERRUPTED: u16 = 0x21;
    let subsystem = gated(false);
    let mut first = Guest::new(&subsystem, NQN, 0, 0xffff);
    assert_eq!(first.prove(&key())[1], 3);
    let next = || Guest::new(&subsystem, NQN, 0, 0xffff).begin();
    let begun = (0..10_000).take_while(|_| next() == 0).count();
    assert!((63..10_000).contains(&begun), "{begun}");
    assert_eq!(next(), INTERRUPTED);
    assert_eq!(first.identify(), 0x0c, "authenticated hosts are served");
    // A refused host may authenticate again.
    let mut late = Guest::new(&subsystem, NQN, 0, 0xffff);
    let again = (0..1000).find(|_| {
        std::thread::sleep(Duration::from_millis(20));
        late.begin() == 0
    });
    assert!(again.is_some());
    let challenge = late.receive();
    let reply = late.reply(&challenge, &key(), None);
    assert_eq!(late.send(&reply), 0);
    assert_eq!(late.receive()[1], 3);
}

#[derive(Clone, Debug, TypeGenerator)]
enum Message {
    Offer { hashes: [u8; 3], groups: [u8; 2] },
    Reply { asks: bool, at: u8, value: u8 },
    Confirm,
    Bytes(Vec<u8>),
    Read,
}

/// Random sequences of valid and invalid messages, from a host without the secret.
#[test]
fn arbitrary_messages_without_the_secret_never_authenticate() {
    bolero::check!()
        .with_iterations(2_000)
        .with_type::<Vec<Message>>()
        .for_each(|messages| {
            let mut guest = Guest::new(&gated(true), NQN, 0, 0xffff);
            let mut heard = Vec::new();
            for message in messages {
                if guest.host.wire.connection.is_over() {
                    break;
                }
                let bytes = match message {
                    Message::Offer { hashes, groups } => {
                        // Large groups take long.
                        let groups = groups.map(|group| group % 2 * 7);
                        heard = guest.offer(&hashes.map(|hash| hash % 5), &groups);
                        continue;
                    }
                    Message::Reply { asks, at, value } if heard.len() >= 48 => {
                        let mut reply = guest.reply(&heard, &[7; 32], asks.then_some([1; 32]));
                        let at = usize::from(*at) % reply.len();
                        reply[at] = *value;
                        reply
                    }
                    Message::Reply { .. } => continue,
                    Message::Confirm => vec![1, 4, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                    Message::Bytes(bytes) => bytes[..bytes.len().min(1000)].to_vec(),
                    Message::Read => {
                        heard = guest.receive();
                        continue;
                    }
                };
                if !bytes.is_empty() {
                    guest.send(&bytes);
                }
            }
            let connection = &guest.host.wire.connection;
            assert!(!connection.is_live());
            if !connection.is_over() {
                assert_eq!(guest.identify(), REQUIRED);
            }
        });
}
