//! Hash functions of the authentication protocol.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// A hash function for HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hash {
    Sha256 = 1,
    Sha384,
    Sha512,
}

fn keyed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("a key may have any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

impl Hash {
    /// Hash function with this identifier; none if unsupported.
    //= nvme-2.0 8.13.5
    pub(super) fn of(number: u8) -> Option<Self> {
        let all = [Self::Sha256, Self::Sha384, Self::Sha512];
        all.into_iter().find(|hash| hash.number() == number)
    }

    pub(super) const fn number(self) -> u8 {
        self as u8
    }

    /// Size of a digest in bytes.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    pub(super) fn of_bytes(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }

    /// HMAC of the concatenated `parts`.
    pub(super) fn keyed(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Sha256 => keyed::<Hmac<Sha256>>(key, parts)
                .finalize()
                .into_bytes()
                .to_vec(),
            Self::Sha384 => keyed::<Hmac<Sha384>>(key, parts)
                .finalize()
                .into_bytes()
                .to_vec(),
            Self::Sha512 => keyed::<Hmac<Sha512>>(key, parts)
                .finalize()
                .into_bytes()
                .to_vec(),
        }
    }

    /// Whether `said` is the HMAC of the concatenated `parts`, compared in constant time.
    pub(super) fn is_keyed(self, key: &[u8], parts: &[&[u8]], said: &[u8]) -> bool {
        let found = match self {
            Self::Sha256 => keyed::<Hmac<Sha256>>(key, parts).verify_slice(said),
            Self::Sha384 => keyed::<Hmac<Sha384>>(key, parts).verify_slice(said),
            Self::Sha512 => keyed::<Hmac<Sha512>>(key, parts).verify_slice(said),
        };
        found.is_ok()
    }
}
