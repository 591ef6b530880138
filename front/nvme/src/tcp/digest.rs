//! Header and data digests of units.

/// Size of a digest in bytes.
pub(super) const DIGEST: usize = 4;

/// CRC32C of `bytes` in wire order (little endian).
//= nvme-tcp 1
#[must_use]
pub fn crc(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).to_le_bytes()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_digest_is_that_of_iscsi() {
        // RFC 3720, B.4: 32 bytes of zeros.
        assert_eq!(super::crc(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
    }
}
