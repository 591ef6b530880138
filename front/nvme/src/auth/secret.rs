//! Secrets in their textual representation.

use super::hash::Hash;
use base64ct::{Base64, Encoding};
use std::fmt;
use std::str::FromStr;

/// Prefix of the representation.
const KIND: &str = "DHHC-1:";
/// Size in bytes of the checksum behind the key.
const CHECK: usize = 4;

/// A secret shared by a host and a drive. `Debug` does not print the key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Hash function that derives the key of a name; none if the key is used as it is.
    hash: Option<Hash>,
    key: Vec<u8>,
}

impl fmt::Debug for Secret {
    /// The key must not appear in messages or logs.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

/// Reason why a text is no valid secret. Does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The text does not have the form of a secret.
    #[error("expected a secret such as DHHC-1:00:…:, as nvme gen-dhchap-key makes it")]
    Form,
    /// The hash function is unknown.
    #[error("the secret names a hash function that is not known: expected 00, 01, 02 or 03")]
    Hash,
    /// The length of the key in bytes does not fit the hash function.
    #[error("the key of the secret has {0} bytes: expected 32, 48 or 64, as its hash function has")]
    Length(usize),
    /// The checksum does not match the key.
    #[error("the secret does not match its checksum: it was mistyped, or cut")]
    Checksum,
}

impl FromStr for Secret {
    type Err = SecretError;

    //= nvme-2.0 8.13.5
    fn from_str(text: &str) -> Result<Self, SecretError> {
        let inner = text
            .strip_prefix(KIND)
            .and_then(|rest| rest.strip_suffix(':'));
        let (hash, coded) = inner
            .and_then(|inner| inner.split_once(':'))
            .ok_or(SecretError::Form)?;
        let hash = match hash {
            "00" => None,
            _ => {
                let number = hash.strip_prefix('0').and_then(|digit| digit.parse().ok());
                Some(number.and_then(Hash::of).ok_or(SecretError::Hash)?)
            }
        };
        let mut key = Base64::decode_vec(coded).map_err(|_| SecretError::Form)?;
        let len = key.len().saturating_sub(CHECK);
        let fits = match hash {
            None => [32, 48, 64].contains(&len),
            Some(hash) => len == hash.bytes(),
        };
        if !fits {
            return Err(SecretError::Length(len));
        }
        let check = key.split_off(len);
        let whole = crc32fast::hash(&key).to_le_bytes() == check[..];
        whole
            .then_some(Self { hash, key })
            .ok_or(SecretError::Checksum)
    }
}

impl Secret {
    /// Key of the side named `name`.
    //= nvme-2.0 8.13.5
    pub(super) fn key_of(&self, name: &str) -> Vec<u8> {
        match self.hash {
            None => self.key.clone(),
            Some(hash) => hash.keyed(&self.key, &[name.as_bytes(), b"NVMe-over-Fabrics"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(hash: &str, key: &[u8]) -> String {
        let bytes = [key, &crc32fast::hash(key).to_le_bytes()].concat();
        format!("DHHC-1:{hash}:{}:", Base64::encode_string(&bytes))
    }

    /// The key 01h, 02h, … 20h, as another program writes it.
    #[test]
    fn secret_of_another_program_is_parsed() {
        let text = "DHHC-1:00:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAl7OaH:";
        let key: Vec<u8> = (1..=32).collect();
        let secret: Secret = text.parse().expect("a secret");
        assert_eq!(secret.key, key);
        assert_eq!(secret.key_of("anyone"), key);
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    /// The key 01h to 30h, derived for a name by another program.
    #[test]
    fn secret_with_a_hash_function_depends_on_the_name() {
        let text = "DHHC-1:02:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8w\
                    yg3Bcw==:";
        let secret: Secret = text.parse().expect("a secret");
        let key = secret.key_of("nqn.2014-08.org.example:host");
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "54be5d7cbd6b7913441dd29a93a0ea997d0943c1093b310c9f9554068732db80\
                        6367ae60c543d52773e753d75517f7a7";
        assert_eq!(hex, expected);
        assert_ne!(secret.key_of("another"), key);
    }

    #[test]
    fn invalid_secret_is_refused_with_the_reason() {
        let why = |text: &str| text.parse::<Secret>().expect_err("no secret");
        let whole = coded("01", &[7; 32]);
        for text in [
            "",
            "DHHC-1:",
            "DHHC-1::",
            "DHHC-1:00:",
            "DHHC-1:00:%%%%:",
            "DHHC-2:00:AAAA:",
        ] {
            assert_eq!(why(text), SecretError::Form, "{text}");
        }
        assert_eq!(why(&whole[..whole.len() - 1]), SecretError::Form);
        assert_eq!(why(&coded("04", &[7; 32])), SecretError::Hash);
        assert_eq!(why(&coded("1", &[7; 32])), SecretError::Hash);
        assert_eq!(why(&coded("02", &[7; 32])), SecretError::Length(32));
        assert_eq!(why(&coded("00", &[7; 31])), SecretError::Length(31));
        assert_eq!(why("DHHC-1:00::"), SecretError::Length(0));
        let bytes = [&[7; 32][..], &[1, 2, 3, 4]].concat();
        let wrong = format!("DHHC-1:01:{}:", Base64::encode_string(&bytes));
        assert_eq!(why(&wrong), SecretError::Checksum);
    }
}
