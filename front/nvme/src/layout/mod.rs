//! Layouts of the structures that a controller returns, each defined once. Fields that are always
//! zero are left out.

pub(crate) mod discovery;
pub(crate) mod identify;
pub(crate) mod log;

/// `value` as a 16-byte little-endian number.
pub(crate) fn wide(value: u64) -> [u8; 16] {
    u128::from(value).to_le_bytes()
}

/// `text` as an ASCII field, padded with spaces.
pub(crate) fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    let graphic = text.bytes().filter(|byte| (b' '..=b'~').contains(byte));
    for (to, byte) in field.iter_mut().zip(graphic) {
        *to = byte;
    }
    field
}

/// `text` as a field that is padded and terminated with zeros.
pub(crate) fn ended<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let len = text.len().min(N - 1);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    field
}
