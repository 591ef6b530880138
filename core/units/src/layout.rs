//! Byte layouts of on-media structures, each declared once.
//!
//! A format declares each of its layouts with [`layout!`](crate::layout!): a field is a
//! typed offset with methods to read and write its value.
//!
//! ```
//! mod head {
//!     units::layout! { 12:
//!         /// Number of entries that follow the header.
//!         COUNT: u32 = 0,
//!         NAME: [u8; 6] = 4,
//!     }
//! }
//!
//! let mut bytes = [0; 12];
//! head::COUNT.put(&mut bytes, 7);
//! head::NAME.put(&mut bytes, *b"seven\0");
//! assert_eq!(&bytes, b"\x07\0\0\0seven\0\0\0");
//! assert_eq!(head::COUNT.get(&bytes), 7);
//! assert_eq!(head::FIELDS[1], ("NAME", 4, 6));
//! ```
//!
//! Invariants: the fields of a layout are sorted, do not overlap and fit its size (checked
//! at compile time); all numbers are little endian.

use std::marker::PhantomData;

/// A number or an array of bytes with a fixed encoding on a medium.
pub trait Value: Copy {
    /// Size of the encoding in bytes.
    const SIZE: usize;
    /// Decodes the value at the start of `bytes`, which hold at least [`Self::SIZE`] bytes.
    fn load(bytes: &[u8]) -> Self;
    /// Encodes the value at the start of `bytes`, which hold at least [`Self::SIZE`] bytes.
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

/// A field of a layout: the offset of a value of type `T`.
#[derive(Debug)]
pub struct Field<T> {
    /// Offset of the first byte of the field.
    pub at: usize,
    kind: PhantomData<T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T: Value> Field<T> {
    /// A field that begins at byte `at` of the layout.
    #[must_use]
    pub const fn at(at: usize) -> Self {
        Self {
            at,
            kind: PhantomData,
        }
    }

    /// Offset one past the last byte of the field.
    #[must_use]
    pub const fn end(self) -> usize {
        self.at + T::SIZE
    }

    /// Reads the field from `layout`.
    ///
    /// # Panics
    /// If `layout` ends before the field does.
    #[inline]
    #[must_use]
    pub fn get(self, layout: &[u8]) -> T {
        T::load(&layout[self.at..])
    }

    /// Writes `value` to the field in `layout`.
    ///
    /// # Panics
    /// If `layout` ends before the field does.
    #[inline]
    pub fn put(self, layout: &mut [u8], value: T) {
        value.save(&mut layout[self.at..]);
    }
}

/// Name, offset and length in bytes of a field, for printing and checks.
pub type FieldInfo = (&'static str, usize, usize);

/// Whether `fields` are sorted by offset, do not overlap and end within `size` bytes.
#[must_use]
pub const fn is_sound(fields: &[FieldInfo], size: usize) -> bool {
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

/// Declares a layout of `$size` bytes in the surrounding module: each field as a constant
/// [`Field`], and the list of all fields as `FIELDS`.
#[macro_export]
macro_rules! layout {
    ($size:literal: $($(#[$doc:meta])* $name:ident: $kind:ty = $at:literal,)*) => {
        $(
            $(#[$doc])*
            pub(crate) const $name: $crate::layout::Field<$kind> =
                $crate::layout::Field::at($at);
        )*
        /// Every field of the layout, in the order of offsets.
        pub(crate) const FIELDS: &[$crate::layout::FieldInfo] = &[
            $((stringify!($name), $name.at, $name.end() - $name.at),)*
        ];
        const _: () = assert!($crate::layout::is_sound(FIELDS, $size));
    };
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((field.get(&bytes), field.end()), (0x0403_0201, 6));
    }
}
