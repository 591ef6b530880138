//! Where the fields of what a controller tells lie: one home for each structure.
//! Fields that stay zero are left out.

pub(crate) mod discovery;
pub(crate) mod identify;
pub(crate) mod log;

/// A count of 16 bytes, little endian.
pub(crate) fn wide(value: u64) -> [u8; 16] {
    u128::from(value).to_le_bytes()
}

/// `text` in a field of ASCII characters, which spaces fill.
pub(crate) fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    let graphic = text.bytes().filter(|byte| (b' '..=b'~').contains(byte));
    for (to, byte) in field.iter_mut().zip(graphic) {
        *to = byte;
    }
    field
}

/// `text` in a field that zeros fill and end.
pub(crate) fn ended<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let len = text.len().min(N - 1);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    field
}
