//! A submission queue entry as it comes: 64 bytes, and what every transport has to
//! know of them before anyone knows the command.
//!
//! Dwords are seen here and in [`crate::command`], and nowhere else.

use units::layout::Field;

/// Bytes of an entry.
//= nvme-2.1 4.1
pub const ENTRY_BYTES: usize = 64;

/// Opcode of the commands of fabrics.
//= nvme-2.1 6
pub(crate) const FABRICS: u8 = 0x7f;

const FLAGS: Field<u8> = Field::at(1);
const CID: Field<u16> = Field::at(2);
const FABRICS_TYPE: Field<u8> = Field::at(4);
const NSID: Field<u32> = Field::at(4);
const SGL_ADDRESS: Field<u64> = Field::at(24);
const SGL_LENGTH: Field<u32> = Field::at(32);
const SGL_TYPE: Field<u8> = Field::at(39);

/// Which way the data of a command go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// There are none.
    None,
    /// From the host.
    ToController,
    /// To the host.
    ToHost,
}

/// Where the data of a command are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sgl {
    /// In the capsule, behind the entry.
    InCapsule {
        /// First byte, counted from the end of the entry.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// With the host, and moved by the transport.
    Transport {
        /// Bytes.
        len: u32,
    },
    /// Described in a way that fabrics do not know.
    Unknown,
}

/// 64 bytes of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry([u8; ENTRY_BYTES]);

impl Entry {
    /// The entry of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; ENTRY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The command of fabrics that writes a property of a controller: what a write of a
    /// register comes to.
    //= nvme-2.1 6.6
    pub(crate) fn property_set(offset: u32, value: u64) -> Self {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0] = FABRICS;
        Field::at(44).put(&mut bytes, offset);
        Field::at(48).put(&mut bytes, value);
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; ENTRY_BYTES] {
        &self.0
    }

    /// What is asked for.
    #[must_use]
    pub const fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// What the host calls the command.
    #[must_use]
    pub fn cid(&self) -> u16 {
        CID.get(&self.0)
    }

    /// Whether it is one of two commands that belong together.
    //= nvme-2.1 3.4.2
    #[must_use]
    pub fn is_fused(&self) -> bool {
        FLAGS.get(&self.0) & 0b11 != 0
    }

    /// Whether its data are described by a list of segments, as fabrics want it.
    #[must_use]
    pub fn has_sgl(&self) -> bool {
        matches!(FLAGS.get(&self.0) >> 6, 0b01 | 0b10)
    }

    /// Whether it is a command of fabrics, and not of a command set.
    #[must_use]
    pub const fn is_fabrics(&self) -> bool {
        self.opcode() == FABRICS
    }

    /// Which way its data go. Two bits of the opcode say so, in commands of fabrics
    /// those of their type.
    //= nvme-2.1 4.1
    #[must_use]
    pub fn direction(&self) -> Direction {
        let code = if self.is_fabrics() {
            self.fabrics_type()
        } else {
            self.opcode()
        };
        match code & 0b11 {
            0b01 => Direction::ToController,
            0b10 => Direction::ToHost,
            _ => Direction::None,
        }
    }

    /// Where its data are.
    //= nvme-2.1 4.3.2
    #[must_use]
    pub fn sgl(&self) -> Sgl {
        let len = SGL_LENGTH.get(&self.0);
        match SGL_TYPE.get(&self.0) {
            0x01 => Sgl::InCapsule {
                offset: SGL_ADDRESS.get(&self.0),
                len,
            },
            0x5a => Sgl::Transport { len },
            _ => Sgl::Unknown,
        }
    }

    /// The namespace that it names.
    pub(crate) fn nsid(&self) -> u32 {
        NSID.get(&self.0)
    }

    /// Which command of fabrics it is.
    pub(crate) fn fabrics_type(&self) -> u8 {
        FABRICS_TYPE.get(&self.0)
    }

    /// A field of a command of fabrics.
    pub(crate) fn field<T: units::layout::Value>(&self, at: usize) -> T {
        Field::<T>::at(at).get(&self.0)
    }

    /// Dword `number` of 16.
    pub(crate) fn dword(&self, number: usize) -> Dword {
        Dword(Field::<u32>::at(4 * number).get(&self.0))
    }

    /// Dwords 10 and 11, which name an address.
    pub(crate) fn address(&self) -> u64 {
        Field::<u64>::at(40).get(&self.0)
    }
}

/// One dword of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dword(pub(crate) u32);

impl Dword {
    /// The bits `low` to `high`.
    pub(crate) const fn bits(self, low: u32, high: u32) -> u32 {
        let width = high - low + 1;
        let mask = if width == 32 {
            u32::MAX
        } else {
            (1 << width) - 1
        };
        (self.0 >> low) & mask
    }

    /// Whether bit `number` is set.
    pub(crate) const fn is_set(self, number: u32) -> bool {
        self.bits(number, number) == 1
    }

    /// The bits `low` to `low` + 7.
    pub(crate) const fn byte(self, low: u32) -> u8 {
        self.bits(low, low + 7) as u8
    }

    /// The bits `low` to `low` + 15.
    pub(crate) const fn word(self, low: u32) -> u16 {
        self.bits(low, low + 15) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_lowest() {
        let dword = Dword(0x8765_4321);
        assert_eq!((dword.bits(4, 7), dword.bits(0, 31)), (2, 0x8765_4321));
        assert_eq!((dword.byte(8), dword.word(16)), (0x43, 0x8765));
        assert!(dword.is_set(31) && !dword.is_set(1));
    }

    #[test]
    fn the_opcode_says_which_way_data_go() {
        let of = |opcode, kind| {
            let mut bytes = [0; 64];
            (bytes[0], bytes[4]) = (opcode, kind);
            Entry::new(bytes).direction()
        };
        assert_eq!(of(0x01, 0), Direction::ToController);
        assert_eq!(of(0x02, 0), Direction::ToHost);
        assert_eq!(of(0x08, 0), Direction::None);
        assert_eq!(of(FABRICS, 0x01), Direction::ToController);
        assert_eq!(of(FABRICS, 0x04), Direction::None);
    }
}
