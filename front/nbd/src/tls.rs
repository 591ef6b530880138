//! TLS: certificates authenticate the server and, if demanded, clients; the connection is
//! encrypted.
//!
//! Invariants: a server with certificates serves neither data nor the list of exports without
//! TLS. Bytes after the client's `STARTTLS` are TLS records and nothing else, so an attacker on
//! the network cannot inject plain text. Encrypted bytes that are not sent yet are bounded
//! ([`SEALED`]), and the library bounds a handshake message (64 KiB). Each connection has one
//! handshake: sessions are not resumed or renegotiated. A handshake takes some milliseconds of
//! the thread of the drive, so their rate is limited ([`Turnstile`]) to keep time for the clients
//! that are served.
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

/// File with the server's certificate and its chain up to the authority.
const CERTIFICATE: &str = "server-cert.pem";
/// File with the server's private key.
const KEY: &str = "server-key.pem";
/// File with the authority that must have signed the certificates of clients.
const AUTHORITY: &str = "ca-cert.pem";
/// Encryption pauses while at least this many encrypted bytes are unsent.
const SEALED: u64 = 256 << 10;
/// Largest burst of handshakes. One with an RSA key of 3,072 bits and a client certificate takes
/// 2 ms.
const TOGETHER: u32 = 64;
/// Time after which one more handshake is admitted; at 2 ms each, handshakes take a tenth of the
/// time of the drive's thread.
const PERIOD: Duration = Duration::from_millis(20);

/// TLS certificates of a server, and those it demands of clients.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    asks: bool,
}

/// Error in the folder of certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, or has no valid PEM item of the expected kind.
    #[error("{}: expected {what} in PEM: {why}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Kind of content that is missing.
        what: &'static str,
        /// Error of the parser.
        why: pem::Error,
    },
    /// The certificates and the key do not match, or are of an unsupported kind.
    #[error("{}: the certificates cannot be used: {why}", path.display())]
    Unusable {
        /// Folder that was read.
        path: PathBuf,
        /// Message of the TLS library.
        why: String,
    },
}

impl Tls {
    /// Reads the files that nbdkit and QEMU use from a folder: `server-cert.pem`, `server-key.pem`
    /// and, if clients need a certificate, `ca-cert.pem` of the authority that signs theirs.
    ///
    /// # Errors
    /// If a file is missing or invalid, or certificate and key do not match.
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

    /// Whether clients must present a certificate: the folder had a `ca-cert.pem`.
    #[must_use]
    pub const fn asks(&self) -> bool {
        self.asks
    }

    /// A new TLS session, whose handshake has not begun.
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

/// Rate limit of handshakes; a client beyond it is dropped.
pub(crate) fn turnstile() -> Turnstile {
    Turnstile::new(TOGETHER, PERIOD, Instant::now())
}

/// TLS session of one connection, on the server's side.
pub(crate) struct Seal(ServerConnection);

impl Seal {
    /// Decrypts `sealed` and appends the plain text to `clear`. Returns whether the client has
    /// sent `close_notify`.
    ///
    /// # Errors
    /// If the client violates the protocol, or its certificate is rejected.
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

    /// Encrypts bytes of `clear` and appends them to `sealed`, up to [`SEALED`] unsent bytes.
    /// During the handshake only its own records are appended.
    ///
    /// # Errors
    /// If the library cannot encrypt.
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

    /// Queues `close_notify`; the next [`Seal::close`] encrypts it.
    pub(crate) fn end(&mut self) {
        self.0.send_close_notify();
    }
}
