//! Diffie-Hellman groups of RFC 7919, and the null group.
//!
//! Invariants: a public value of the peer is accepted only strictly between 1 and the prime less 1;
//! the time of a computation does not depend on the exponent.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize};

/// First 3,966 bits of *e*, from which all the primes are built.
//= rfc7919 app A
const E: &str = "\
    adf85458a2bb4a9aafdc5620273d3cf1d8b9c583ce2d3695a9e13641146433fb\
    cc939dce249b3ef97d2fe363630c75d8f681b202aec4617ad3df1ed5d5fd6561\
    2433f51f5f066ed0856365553ded1af3b557135e7f57c935984f0c70e0e68b77\
    e2a689daf3efe8721df158a136ade73530acca4f483a797abc0ab182b324fb61\
    d108a94bb2c8e3fbb96adab760d7f4681d4f42a3de394df4ae56ede76372bb19\
    0b07a7c8ee0a6d709e02fce1cdf7e2ecc03404cd28342f619172fe9ce98583ff\
    8e4f1232eef28183c3fe3b1b4c6fad733bb5fcbc2ec22005c58ef1837d1683b2\
    c6f34a26c1b2effa886b4238611fcfdcde355b3b6519035bbc34f4def99c0238\
    61b46fc9d6e6c9077ad91d2691f7f7ee598cb0fac186d91caefe130985139270\
    b4130c93bc437944f4fd4452e2d74dd364f2e21e71f54bff5cae82ab9c9df69e\
    e86d2bc522363a0dabc521979b0deada1dbf9a42d5c4484e0abcd06bfa53ddef\
    3c1b20ee3fd59d7c25e41d2b669e1ef16e6f52c3164df4fb7930e9e4e58857b6\
    ac7d5f42d69f6d187763cf1d5503400487f55ba57e31cc7a7135c886efb4318a\
    ed6a1e012d9e6832a907600a918130c46dc778f971ad0038092999a333cb8b7a\
    1a1db93d7140003c2a4ecea9f98d0acc0a8291cdcec97dcf8ec9b55a7f88a46b\
    4db5a851f44182e1c68a007e5e0dd902";
const E_BITS: u32 = 3966;

/// Size of an exponent in bytes: more than the strength of the largest group requires.
//= rfc7919 5.2
const EXPONENT: usize = 48;

/// A group, named by the size of its prime in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Null group: no key is agreed on.
    Null,
    Bits2048,
    Bits3072,
    Bits4096,
}

impl Group {
    /// Group with this identifier; none if unsupported.
    //= nvme-2.0 8.13.5
    pub(super) fn of(number: u8) -> Option<Self> {
        let all = [Self::Null, Self::Bits2048, Self::Bits3072, Self::Bits4096];
        all.get(usize::from(number)).copied()
    }

    pub(super) const fn number(self) -> u8 {
        self as u8
    }

    /// Size of the prime in bits, and the offset that is added to *e*; none for the null group.
    const fn shape(self) -> Option<(u32, u32)> {
        match self {
            Self::Null => None,
            Self::Bits2048 => Some((2048, 560_316)),
            Self::Bits3072 => Some((3072, 2_625_351)),
            Self::Bits4096 => Some((4096, 5_736_041)),
        }
    }

    /// Size of a public value in bytes; 0 for the null group.
    pub(super) fn bytes(self) -> usize {
        self.shape().map_or(0, |(bits, _)| bits as usize / 8)
    }

    /// The prime: 64 one bits, the leading bits of *e* plus an offset, and 64 one bits.
    //= rfc7919 app A
    fn prime(self) -> Option<BoxedUint> {
        let (bits, more) = self.shape()?;
        let e: Option<BoxedUint> = BoxedUint::from_be_hex(E, 4 * E.len() as u32).into();
        let e = e?.resize(4096);
        let middle = e.shr(E_BITS - (bits - 130));
        let middle = middle.wrapping_add(BoxedUint::from(more).resize(4096));
        // Subtracting 1 sets the last 64 bits.
        let middle = middle.wrapping_sub(BoxedUint::from(1_u32).resize(4096));
        let ones = BoxedUint::from(u64::MAX).resize(4096);
        let prime = ones.shl(bits - 64) | middle.shl(64) | ones;
        Some(prime.resize(bits))
    }

    fn power(self, base: &BoxedUint, exponent: &[u8; EXPONENT]) -> Option<Vec<u8>> {
        let prime = self.prime()?;
        let odd: Option<Odd<BoxedUint>> = Odd::new(prime).into();
        let params = BoxedMontyParams::new(odd?);
        let exponent = BoxedUint::from_be_slice(exponent, 8 * EXPONENT as u32).ok()?;
        let power = BoxedMontyForm::new(base.clone(), &params).pow(&exponent);
        Some(power.retrieve().to_be_bytes().to_vec())
    }
}

/// Private exponent in a group.
pub(super) struct Own {
    group: Group,
    exponent: [u8; EXPONENT],
}

impl Own {
    /// Creates a random exponent; none if `chance` fails.
    pub(super) fn new(group: Group, chance: &mut super::Chance<'_>) -> Option<Self> {
        let mut exponent = [0; EXPONENT];
        chance(&mut exponent)?;
        Some(Self { group, exponent })
    }

    /// Public value for the peer; empty for the null group.
    pub(super) fn told(&self) -> Option<Vec<u8>> {
        let Some((bits, _)) = self.group.shape() else {
            return Some(Vec::new());
        };
        self.group
            .power(&BoxedUint::from(2_u32).resize(bits), &self.exponent)
    }

    /// Shared key from the public value `told` of the peer; empty for the null group, none if
    /// `told` is not a valid public value.
    pub(super) fn key(&self, told: &[u8]) -> Option<Vec<u8>> {
        let (Some((bits, _)), Some(prime)) = (self.group.shape(), self.group.prime()) else {
            return told.is_empty().then(Vec::new);
        };
        if told.len() != self.group.bytes() {
            return None;
        }
        let base = BoxedUint::from_be_slice(told, bits).ok()?;
        let one = BoxedUint::from(1_u32).resize(bits);
        let is_number = base > one && base < prime.wrapping_sub(&one);
        if !is_number {
            return None;
        }
        self.group.power(&base, &self.exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: [Group; 3] = [Group::Bits2048, Group::Bits3072, Group::Bits4096];

    fn own(group: Group, seed: u8) -> Own {
        let mut chance = |bytes: &mut [u8]| {
            bytes.fill(seed);
            Some(())
        };
        Own::new(group, &mut chance).expect("chance has something")
    }

    /// The last digits of the primes match those in the RFC.
    //= rfc7919 app A
    #[test]
    fn primes_match_the_rfc() {
        let ends: [u64; 3] = [
            0x886b_4238_6128_5c97,
            0x25e4_1d2b_66c6_2e37,
            0xc68a_007e_5e65_5f6a,
        ];
        for (group, end) in GROUPS.into_iter().zip(ends) {
            let bytes = group.prime().expect("a prime").to_be_bytes();
            assert_eq!(bytes.len(), group.bytes());
            let words: Vec<u64> = bytes
                .chunks(8)
                .map(|word| u64::from_be_bytes(word.try_into().expect("eight")))
                .collect();
            assert_eq!(words[..2], [u64::MAX, 0xadf8_5458_a2bb_4a9a]);
            assert_eq!(words[words.len() - 2], end);
            assert_eq!(words[words.len() - 1], u64::MAX);
        }
    }

    #[test]
    fn both_sides_derive_the_same_key_and_other_pairs_do_not() {
        for group in GROUPS {
            let (a, b, c) = (own(group, 3), own(group, 5), own(group, 7));
            let told = |own: &Own| own.told().expect("a number");
            let key = a.key(&told(&b)).expect("a key");
            assert_eq!(key.len(), group.bytes());
            assert_eq!(b.key(&told(&a)), Some(key.clone()));
            assert_ne!(c.key(&told(&a)), Some(key));
        }
        let none = own(Group::Null, 1);
        assert_eq!((none.told(), none.key(&[])), (Some(vec![]), Some(vec![])));
        assert_eq!(none.key(&[2]), None);
    }

    //= rfc7919 5.1
    #[test]
    fn public_values_that_reveal_the_key_are_rejected() {
        let group = Group::Bits2048;
        let (own, mut small) = (own(group, 3), vec![0; group.bytes()]);
        assert_eq!(own.key(&small), None);
        *small.last_mut().expect("bytes") = 1;
        assert_eq!(own.key(&small), None);
        let mut large = group.prime().expect("a prime").to_be_bytes().to_vec();
        assert_eq!(own.key(&large), None);
        *large.last_mut().expect("bytes") -= 1;
        assert_eq!(own.key(&large), None);
        assert_eq!(own.key(&large[1..]), None);
    }
}
