//! TLS: what clients and the server are to each other is said by certificates, and what goes
//! over the line is sealed.
//!
//! Invariants: whoever serves with certificates serves nothing without: neither data nor what
//! there is; bytes that come after the client has asked for TLS mean TLS and nothing else, so
//! that nobody on the way puts in words of his own; what is sealed and not sent is bounded
//! ([`SEALED`]), what a handshake holds is bounded by the library (64 KiB of a message), and a
//! client has one handshake: sessions are not resumed, and nothing is agreed on anew. A handshake
//! takes some milliseconds of the thread of the drive, so there are only so many ([`Turnstile`]),
//! and who is served has the rest.
//= nbd 3

use engine::{Output, Turnstile};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The certificate of the server, and those that lead to the authority.
const CERTIFICATE: &str = "server-cert.pem";
/// Its private key.
const KEY: &str = "server-key.pem";
/// The authority whose certificates clients have to show.
const AUTHORITY: &str = "ca-cert.pem";
/// Sealed bytes that wait to be sent before more are sealed.
const SEALED: u64 = 256 << 10;
/// Handshakes that may come together. One with an RSA key of 3,072 bits and a certificate of the
/// client takes 2 ms.
const TOGETHER: u32 = 64;
/// After so long there may be one more: a tenth of the time of the drive's thread.
const PERIOD: Duration = Duration::from_millis(20);

/// TLS certificates of a server, and those it demands of clients.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    asks: bool,
}

/// Certificates that are no use.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file has none.
    #[error("{}: expected {what} in PEM: {why}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Kind of content that is missing.
        what: &'static str,
        /// Error of the parser.
        why: pem::Error,
    },
    /// They do not belong together, or are of no kind that can be used.
    #[error("{}: the certificates cannot be used: {why}", path.display())]
    Unusable {
        /// The folder that they are in.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Tls {
    /// Reads the files that nbdkit and QEMU use from a folder: `server-cert.pem`, `server-key.pem`
    /// and, if clients need a certificate, `ca-cert.pem` of the authority that signs theirs.
    ///
    /// # Errors
    /// If a file is missing or is not what it has to be.
    pub fn read(folder: &Path) -> Result<Self, TlsError> {
        let own = certificates(&folder.join(CERTIFICATE))?;
        let path = folder.join(KEY);
        let key = PrivateKeyDer::from_pem_file(&path);
        let key = key.map_err(|why| TlsError::File {
            path,
            what: "a private key",
            why,
        })?;
        let unusable = |why: String| TlsError::Unusable {
            path: folder.to_owned(),
            why,
        };
        let authority = folder.join(AUTHORITY);
        let asks = authority.exists();
        let verifier = match asks {
            true => verifier(certificates(&authority)?).map_err(unusable)?,
            false => WebPkiClientVerifier::no_client_auth(),
        };
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_client_cert_verifier(verifier))
            .and_then(|builder| builder.with_single_cert(own, key));
        let mut config = config.map_err(|error| unusable(error.to_string()))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            asks,
        })
    }

    /// Whether clients have to show a certificate.
    #[must_use]
    pub const fn asks(&self) -> bool {
        self.asks
    }

    /// What stands between a socket and a client that has asked for it.
    pub(crate) fn seal(&self) -> io::Result<Seal> {
        let line = ServerConnection::new(Arc::clone(&self.config));
        line.map(Seal).map_err(io::Error::other)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let some = all.and_then(|all| match all.is_empty() {
        true => Err(pem::Error::NoItemsFound),
        false => Ok(all),
    });
    some.map_err(|why| TlsError::File {
        path: path.to_owned(),
        what: "certificates",
        why,
    })
}

fn verifier(
    authorities: Vec<CertificateDer<'static>>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| error.to_string())
}

/// Counts handshakes: who comes when there were too many is hung up on.
pub(crate) fn turnstile() -> Turnstile {
    Turnstile::new(TOGETHER, PERIOD, Instant::now())
}

/// A TLS session.
pub(crate) struct Seal(ServerConnection);

impl Seal {
    /// Opens what has come, behind `clear`. Whether the client says that this is all.
    ///
    /// # Errors
    /// If the client does not keep to the protocol, or is not who he has to be.
    pub(crate) fn open(&mut self, mut sealed: &[u8], clear: &mut Vec<u8>) -> io::Result<bool> {
        while !sealed.is_empty() {
            self.0.read_tls(&mut sealed)?;
            let state = self.0.process_new_packets();
            let state = state.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
            let before = clear.len();
            clear.resize(before + state.plaintext_bytes_to_read(), 0);
            self.0.reader().read_exact(&mut clear[before..])?;
            if state.peer_has_closed() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Seals what waits, as far as there is room for it, behind what is sealed.
    ///
    /// # Errors
    /// If it cannot be sealed.
    pub(crate) fn close(&mut self, clear: &mut Output, sealed: &mut Output) -> io::Result<()> {
        loop {
            while self.0.wants_write() {
                let mut written = Ok(0);
                sealed.put(|out| written = self.0.write_tls(out));
                written?;
            }
            let piece = clear.first();
            if piece.is_empty() || sealed.bytes() >= SEALED || self.0.is_handshaking() {
                return Ok(());
            }
            let taken = self.0.writer().write(piece)?;
            clear.take(taken);
        }
    }

    /// Says that this is all.
    pub(crate) fn end(&mut self) {
        self.0.send_close_notify();
    }
}
