//! The bytes of the format, one home per layout.
//!
//! Invariants: a field is a typed offset, written down once; fields of a layout
//! are sorted, do not overlap and fit its size, which the compiler checks; no
//! bytes, however wrong, make a function here panic.
//!
//! All numbers on the medium are little endian, but those of the journal.

pub(crate) mod dirent;
pub(crate) mod extent;
pub(crate) mod group;
pub(crate) mod hash;
pub(crate) mod htree;
pub(crate) mod inode;
pub(crate) mod journal;
pub(crate) mod superblock;
pub(crate) mod xattr;

use std::marker::PhantomData;

/// A number or a row of bytes as it lies on the medium.
pub(crate) trait Value: Copy {
    /// Its bytes.
    const SIZE: usize;
    /// Reads it from the start of `bytes`, which are long enough.
    fn load(bytes: &[u8]) -> Self;
    /// Writes it to the start of `bytes`, which are long enough.
    fn save(self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            const SIZE: usize = size_of::<$number>();
            #[inline]
            fn load(bytes: &[u8]) -> Self {
                let mut own = [0; Self::SIZE];
                own.copy_from_slice(&bytes[..Self::SIZE]);
                Self::from_le_bytes(own)
            }
            #[inline]
            fn save(self, bytes: &mut [u8]) {
                bytes[..Self::SIZE].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

impl<const N: usize> Value for [u8; N] {
    const SIZE: usize = N;
    #[inline]
    fn load(bytes: &[u8]) -> Self {
        let mut own = [0; N];
        own.copy_from_slice(&bytes[..N]);
        own
    }
    #[inline]
    fn save(self, bytes: &mut [u8]) {
        bytes[..N].copy_from_slice(&self);
    }
}

/// Where a value lies in a layout.
#[derive(Debug)]
pub(crate) struct Field<T> {
    /// Its first byte.
    pub(crate) at: usize,
    kind: PhantomData<T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T: Value> Field<T> {
    pub(crate) const fn at(at: usize) -> Self {
        Self {
            at,
            kind: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn get(self, layout: &[u8]) -> T {
        T::load(&layout[self.at..])
    }

    #[inline]
    pub(crate) fn put(self, layout: &mut [u8], value: T) {
        value.save(&mut layout[self.at..]);
    }
}

/// Name, first byte and length of a field, for prints and checks.
pub(crate) type FieldInfo = (&'static str, usize, usize);

/// Whether fields are sorted, apart and within `size`.
pub(crate) const fn is_sound(fields: &[FieldInfo], size: usize) -> bool {
    let (mut index, mut end) = (0, 0);
    while index < fields.len() {
        let (_, at, len) = fields[index];
        if at < end {
            return false;
        }
        end = at + len;
        index += 1;
    }
    end <= size
}

/// Declares the fields of a layout of `size` bytes.
macro_rules! layout {
    ($size:literal: $($(#[$doc:meta])* $name:ident: $kind:ty = $at:literal,)*) => {
        $(
            $(#[$doc])*
            pub(crate) const $name: $crate::format::Field<$kind> =
                $crate::format::Field::at($at);
        )*
        /// All fields of the layout.
        pub(crate) const FIELDS: &[$crate::format::FieldInfo] = &[
            $((stringify!($name), $name.at, <$kind as $crate::format::Value>::SIZE),)*
        ];
        const _: () = assert!($crate::format::is_sound(FIELDS, $size));
    };
}
pub(crate) use layout;

/// The checksum of the format: CRC-32C that goes on from `seed`, without the
/// inversions that are usual at both ends.
//= ext4-layout 4.1
#[inline]
pub(crate) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// CRC-16 (polynomial 0xA001, reflected), of group descriptors before
/// `metadata_csum`.
pub(crate) fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte), |crc, _| {
            (crc >> 1) ^ (0xA001 * (crc & 1))
        })
    })
}

/// A number of 48 or 64 bits out of two.
#[inline]
pub(crate) fn wide(lo: u32, hi: impl Into<u64>) -> u64 {
    u64::from(lo) | hi.into() << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_have_their_published_check_values() {
        let text = b"123456789";
        assert_eq!(!crc(!0, text), 0xE306_9283);
        assert_eq!(crc16(0, text), 0xBB3D);
    }

    #[test]
    fn overlapping_fields_are_unsound() {
        assert!(is_sound(&[("a", 0, 4), ("b", 4, 2)], 6));
        assert!(!is_sound(&[("a", 0, 4), ("b", 3, 2)], 6));
        assert!(!is_sound(&[("a", 0, 4), ("b", 4, 4)], 6));
    }

    #[test]
    fn a_field_reads_what_was_written() {
        let field: Field<u32> = Field::at(2);
        let mut bytes = [0; 8];
        field.put(&mut bytes, 0x0403_0201);
        assert_eq!(bytes, [0, 0, 1, 2, 3, 4, 0, 0]);
        assert_eq!(field.get(&bytes), 0x0403_0201);
    }
}
