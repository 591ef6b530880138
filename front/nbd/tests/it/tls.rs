//! Clients over TLS, and clients that must be rejected.

use crate::client::{Client, FLUSH, READ, WRITE, option};
use crate::memory::Place;
use nbd::Tls;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STARTTLS: u32 = 5;
const REQUIRED: u32 = (1 << 31) + 5;
const INVALID: u32 = (1 << 31) + 3;

/// Certificate authority of a test.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        // Libraries look an authority up by its name, so names must be unique.
        let name = format!("{:02x?}", &key.public_key_raw()[1..9]);
        params.distinguished_name.push(DnType::CommonName, name);
        let own = params.self_signed(&key).expect("signed");
        Self {
            certificate: own.der().clone(),
            pem: own.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for `name`, and its key.
    pub(crate) fn signs(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("signed");
        (signed, key)
    }

    /// A folder for a server with a certificate of this authority.
    fn folder(&self, clients: Option<&Self>) -> TempDir {
        let folder = TempDir::new().expect("a folder");
        let put = |name: &str, text: String| {
            fs::write(folder.path().join(name), text).expect("written");
        };
        let (own, key) = self.signs("localhost");
        put("server-cert.pem", own.pem());
        put("server-key.pem", key.serialize_pem());
        if let Some(clients) = clients {
            put("ca-cert.pem", clients.pem.clone());
        }
        folder
    }

    pub(crate) fn tls(&self, clients: Option<&Self>) -> Tls {
        Tls::read(self.folder(clients).path()).expect("certificates")
    }
}

/// TLS identity of a client: the authority that it trusts, and the certificate that it presents.
struct Client509 {
    trusts: CertificateDer<'static>,
    shows: Option<(rcgen::Certificate, KeyPair)>,
    version: &'static SupportedProtocolVersion,
}

impl Client509 {
    fn of(trusts: &Authority) -> Self {
        Self {
            trusts: trusts.certificate.clone(),
            shows: None,
            version: &rustls::version::TLS13,
        }
    }

    fn showing(trusts: &Authority, signer: &Authority) -> Self {
        Self {
            shows: Some(signer.signs("client")),
            ..Self::of(trusts)
        }
    }

    fn line(&self) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusts.clone()).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[self.version])
            .expect("a version")
            .with_root_certificates(roots);
        let config = match &self.shows {
            None => config.with_no_client_auth(),
            Some((shown, key)) => {
                let key = PrivatePkcs8KeyDer::from(key.serialize_der());
                let shown = config.with_client_auth_cert(vec![shown.der().clone()], key.into());
                shown.expect("they belong together")
            }
        };
        let name = ServerName::try_from("localhost").expect("a name");
        ClientConnection::new(Arc::new(config), name).expect("a client")
    }
}

type Sealed = Client<StreamOwned<ClientConnection, UnixStream>>;

/// Starts TLS on a client and runs the handshake.
fn sealed(mut clear: Client<UnixStream>, who: &Client509) -> std::io::Result<Sealed> {
    assert_eq!(clear.ask(STARTTLS, b""), [(1, vec![])]);
    let mut stream = StreamOwned::new(who.line(), clear.stream);
    // The handshake as far as the client can see it.
    stream.flush()?;
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(Client::over(stream))
}

/// Whether the server accepts the client and answers an option.
fn is_served(place: &Place, who: &Client509) -> bool {
    let Ok(mut client) = sealed(place.connected(), who) else {
        return false;
    };
    // With TLS 1.3 the rejection arrives only after the client's handshake is complete.
    let asked = client.stream.write_all(&option(7, &[0; 6]));
    let mut answer = [0; 20];
    asked.is_ok() && client.stream.read_exact(&mut answer).is_ok()
}

#[test]
fn all_that_works_in_the_clear_works_sealed() {
    let authority = Authority::new();
    let place = Place::over(64 << 10, Some(&authority.tls(None)));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let who = Client509 {
            version,
            ..Client509::of(&authority)
        };
        let mut client = sealed(place.connected(), &who).expect("a handshake");
        assert_eq!(client.go(true).0, 64 << 10);
        let bytes: Vec<u8> = (0..40_000_u32).map(|n| n as u8).collect();
        assert_eq!(client.call(0, WRITE, 512, 40_000, &bytes).error, 0);
        assert_eq!(client.call(0, FLUSH, 0, 0, b"").error, 0);
        assert_eq!(client.call(0, READ, 512, 40_000, b"").bytes, bytes);
        // Many reads at a time: their answers exceed the limit of encrypted bytes.
        let cookies: Vec<u64> = (0..64)
            .map(|_| client.send(0, READ, 0, 64 << 10, b""))
            .collect();
        for cookie in cookies {
            let said = client.reply(|_| 64 << 10);
            assert_eq!((said.cookie, said.error), (cookie, 0));
            assert_eq!(said.bytes[512..40_512], bytes);
        }
        // The server answers a disconnect with `close_notify`.
        client.send(0, 2, 0, 0, b"");
        assert_eq!(client.stream.read(&mut [0]).expect("the end is said"), 0);
    }
}

#[test]
fn nothing_is_told_in_the_clear() {
    let authority = Authority::new();
    let place = Place::over(8192, Some(&authority.tls(None)));
    let mut client = place.connected();
    for number in [3, 6, 7, 8, 9, 10, 99] {
        let replies = client.ask(number, &[0; 8]);
        assert_eq!(replies.len(), 1, "{number} {replies:?}");
        assert_eq!(replies[0].0, REQUIRED, "{number}");
    }
    assert_eq!(client.ask(STARTTLS, b"x")[0].0, INVALID);
    // After the refusals TLS can still start, but only once.
    let mut client = sealed(client, &Client509::of(&authority)).expect("a handshake");
    assert_eq!(client.ask(STARTTLS, b"")[0].0, INVALID);
    client.go(true);
    // `EXPORT_NAME` has no error reply, so the server drops the connection.
    let mut client = place.connected();
    client.stream.write_all(&option(1, b"")).expect("sent");
    assert_eq!(client.stream.read(&mut [0]).expect("hung up"), 0);
    // Requests without a handshake are invalid options.
    let mut client = place.connected();
    client.stream.write_all(&[0x25; 64]).expect("sent");
    assert_eq!(client.stream.read(&mut [0]).expect("hung up"), 0);
    // A server without certificates does not support TLS.
    let open = Place::new(8192);
    assert_eq!(open.connected().ask(STARTTLS, b"")[0].0, (1 << 31) + 1);
}

#[test]
fn client_without_a_certificate_of_the_authority_is_rejected() {
    let (servers, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let tls = servers.tls(Some(&clients));
    assert!(tls.asks());
    let place = Place::over(8192, Some(&tls));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let over = |who| Client509 { version, ..who };
        assert!(is_served(
            &place,
            &over(Client509::showing(&servers, &clients))
        ));
        assert!(!is_served(&place, &over(Client509::of(&servers))));
        assert!(!is_served(
            &place,
            &over(Client509::showing(&servers, &others))
        ));
        // A certificate of the server's authority does not authenticate a client.
        assert!(!is_served(
            &place,
            &over(Client509::showing(&servers, &servers))
        ));
    }
}

#[test]
fn a_client_sees_that_a_server_is_another_one() {
    let (servers, others) = (Authority::new(), Authority::new());
    let tls = servers.tls(None);
    assert!(!tls.asks());
    let place = Place::over(8192, Some(&tls));
    assert!(is_served(&place, &Client509::of(&servers)));
    assert!(!is_served(&place, &Client509::of(&others)));
}

#[test]
fn plain_text_injected_before_tls_is_not_obeyed() {
    let authority = Authority::new();
    let place = Place::over(8192, Some(&authority.tls(None)));
    // One write, so that the server reads both options at once.
    let mut client = place.connected();
    let both = [option(STARTTLS, b""), option(7, &[0; 6])].concat();
    client.stream.write_all(&both).expect("sent");
    let mut said = Vec::new();
    // The end may arrive as an error, because the server left bytes unread.
    let _ = client.stream.read_to_end(&mut said);
    let ack = [
        &0x0003_e889_0455_65a9_u64.to_be_bytes()[..],
        &[0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0],
    ];
    let ack = ack.concat();
    assert_eq!(said[..ack.len()], ack);
    // At most a TLS alert follows, and no answer to the second option.
    assert!(said.len() < ack.len() + 16, "{said:?}");
    assert!(
        said[ack.len()..].first().is_none_or(|&kind| kind == 21),
        "{said:?}"
    );
}

#[test]
fn bytes_that_are_no_handshake_end_the_connection_and_nothing_else() {
    let authority = Authority::new();
    let tls = authority.tls(None);
    // A valid hello, which the cases below truncate or change in one byte.
    let mut hello = Vec::new();
    Client509::of(&authority)
        .line()
        .write_tls(&mut hello)
        .expect("a hello");
    let (tls, authority) = (AssertUnwindSafe(&tls), AssertUnwindSafe(&authority));
    bolero::check!()
        .with_type::<(u8, u16, u8, Vec<u8>)>()
        .with_iterations(200)
        .for_each(|(how, at, byte, raw)| {
            let at = usize::from(*at) % hello.len();
            let bytes = match how % 4 {
                0 => raw.clone(),
                1 => hello[..at].to_vec(),
                2 => {
                    let mut changed = hello.clone();
                    changed[at] ^= byte | 1;
                    changed
                }
                // The start of a handshake message of the largest length, repeated.
                _ => [22, 3, 1, 64, 0, 1, 255, 255, 255].repeat(8),
            };
            // A new server for each case, so that its limit of handshakes is not used up.
            let (tls, authority) = (&tls, &authority);
            let place = Place::over(8192, Some(**tls));
            let mut client = place.connected();
            assert_eq!(client.ask(STARTTLS, b""), [(1, vec![])]);
            for piece in bytes.chunks(usize::from(how >> 2).max(1)) {
                // The server may have closed the connection before.
                let _ = client.stream.write_all(piece);
            }
            let _ = client.stream.shutdown(std::net::Shutdown::Write);
            let _ = client.stream.read_to_end(&mut Vec::new());
            assert!(is_served(&place, &Client509::of(authority)));
        });
}

#[test]
fn a_handshake_without_end_is_hung_up_on() {
    let authority = Authority::new();
    let place = Place::over(8192, Some(&authority.tls(None)));
    let mut client = place.connected();
    assert_eq!(client.ask(STARTTLS, b""), [(1, vec![])]);
    // A hello of 16 MiB less one byte, record by record.
    let mut record = vec![22, 3, 1, 64, 0];
    record.resize(5 + (16 << 10), 0);
    record[5..9].copy_from_slice(&[1, 255, 255, 255]);
    let mut sent = 0;
    while client.stream.write_all(&record).is_ok() {
        sent += record.len();
        assert!(sent < 4 << 20, "it takes in whatever comes");
        record[5..9].fill(0);
    }
}

#[test]
fn handshakes_that_are_not_finished_make_room_and_leave_others_alone() {
    let authority = Authority::new();
    let place = Place::over(8192, Some(&authority.tls(None)));
    let mut first = sealed(place.connected(), &Client509::of(&authority)).expect("a handshake");
    first.go(true);
    let mut hello = Vec::new();
    let mut line = Client509::of(&authority).line();
    line.write_tls(&mut hello).expect("a hello");
    let (mut silent, mut most, flood) = (Vec::new(), Duration::ZERO, Instant::now());
    for n in 0..nbd::CLIENTS_MAX + 64 {
        let mut client = place.connected();
        assert_eq!(client.ask(STARTTLS, b""), [(1, vec![])]);
        // Every other client stops within the hello; the rest send all of it and leave the
        // server's answer unread. The server may have dropped this client already.
        let len = hello.len() / (1 + n % 2);
        let _ = client.stream.write_all(&hello[..len]);
        silent.push(client);
        let begun = Instant::now();
        assert_eq!(first.call(0, READ, 0, 512, b"").error, 0);
        most = most.max(begun.elapsed());
    }
    assert!(most < Duration::from_secs(2), "a read took {most:?}");
    // The limit of handshakes leaves some complete hellos without an answer.
    let spent = flood.elapsed();
    let is_answered = |client: &mut Client<UnixStream>| {
        let patience = client
            .stream
            .set_read_timeout(Some(Duration::from_millis(20)));
        patience.expect("it can be set");
        client.stream.read(&mut [0]).is_ok_and(|len| len == 1)
    };
    let whole = silent.iter_mut().step_by(2);
    let answered = whole
        .filter_map(|client| is_answered(client).then_some(()))
        .count();
    let most = 64 + spent.as_millis() as usize / 20;
    assert!(answered > 0 && answered <= most, "{answered} in {spent:?}");
    // The limit of handshakes recovers with time.
    let served = || is_served(&place, &Client509::of(&authority));
    let again = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        served()
    });
    assert!(again, "nobody is let in any more");
}

#[test]
fn a_folder_without_certificates_is_refused_by_name() {
    let authority = Authority::new();
    let refusal = |folder: &Path| Tls::read(folder).expect_err("it is no use").to_string();
    for (name, text, says) in [
        ("server-cert.pem", None, "expected certificates"),
        ("server-cert.pem", Some(""), "expected certificates"),
        ("server-key.pem", None, "expected a private key"),
        ("server-key.pem", Some("x"), "expected a private key"),
        ("ca-cert.pem", Some("-----BEGIN x"), "expected certificates"),
    ] {
        let folder = authority.folder(None);
        let path = folder.path().join(name);
        match text {
            Some(text) => fs::write(&path, text).expect("written"),
            None => fs::remove_file(&path).expect("it was there"),
        }
        let said = refusal(folder.path());
        assert!(said.contains(name) && said.contains(says), "{said}");
    }
    // A key that does not match the certificate.
    let folder = authority.folder(None);
    let key = authority.signs("other").1.serialize_pem();
    fs::write(folder.path().join("server-key.pem"), key).expect("written");
    let said = refusal(folder.path());
    assert!(said.contains("cannot be used"), "{said}");
}
