//! A raw submission queue entry (64 bytes), and the fields that every transport needs before the
//! command is parsed.
//!
//! Invariant: only this module and [`crate::command`] read dwords of an entry.

use units::layout::Field;

/// Size of an entry in bytes.
//= nvme-2.1 4.1
pub const ENTRY_BYTES: usize = 64;

/// Opcode of Fabrics commands.
//= nvme-2.1 6
pub(crate) const FABRICS: u8 = 0x7f;

const FLAGS: Field<u8> = Field::at(1);
const CID: Field<u16> = Field::at(2);
const FABRICS_TYPE: Field<u8> = Field::at(4);
const NSID: Field<u32> = Field::at(4);
const SGL_ADDRESS: Field<u64> = Field::at(24);
const SGL_LENGTH: Field<u32> = Field::at(32);
const SGL_TYPE: Field<u8> = Field::at(39);

/// Direction of a command's data transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The command moves no data.
    None,
    /// From the host to the controller.
    ToController,
    /// From the controller to the host.
    ToHost,
}

/// Location of a command's data, from its SGL descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sgl {
    /// In the capsule, after the entry.
    InCapsule {
        /// Offset of the first byte from the end of the entry.
        offset: u64,
        /// Length of the data in bytes.
        len: u32,
    },
    /// In host memory; the transport moves them.
    Transport {
        /// Length of the data in bytes.
        len: u32,
    },
    /// A descriptor type that Fabrics does not define.
    Unknown,
}

/// A raw submission queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry([u8; ENTRY_BYTES]);

impl Entry {
    /// Wraps the bytes of an entry.
    #[must_use]
    pub const fn new(bytes: [u8; ENTRY_BYTES]) -> Self {
        Self(bytes)
    }

    /// A Property Set command: the Fabrics equivalent of a register write.
    //= nvme-2.1 6.6
    pub(crate) fn property_set(offset: u32, value: u64) -> Self {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0] = FABRICS;
        Field::at(44).put(&mut bytes, offset);
        Field::at(48).put(&mut bytes, value);
        Self(bytes)
    }

    /// Raw bytes of the entry.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; ENTRY_BYTES] {
        &self.0
    }

    /// Opcode of the command.
    #[must_use]
    pub const fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// Command identifier, chosen by the host.
    #[must_use]
    pub fn cid(&self) -> u16 {
        CID.get(&self.0)
    }

    /// Whether the command is part of a fused operation.
    //= nvme-2.1 3.4.2
    #[must_use]
    pub fn is_fused(&self) -> bool {
        FLAGS.get(&self.0) & 0b11 != 0
    }

    /// Whether an SGL describes the data, as Fabrics requires.
    #[must_use]
    pub fn has_sgl(&self) -> bool {
        matches!(FLAGS.get(&self.0) >> 6, 0b01 | 0b10)
    }

    /// Whether this is a Fabrics command rather than one of a command set.
    #[must_use]
    pub const fn is_fabrics(&self) -> bool {
        self.opcode() == FABRICS
    }

    /// Direction of the data, from two bits of the opcode or, in Fabrics commands, of the command
    /// type.
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

    /// Location of the data.
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

    /// Namespace identifier (NSID) of the command.
    pub(crate) fn nsid(&self) -> u32 {
        NSID.get(&self.0)
    }

    /// Type of a Fabrics command.
    pub(crate) fn fabrics_type(&self) -> u8 {
        FABRICS_TYPE.get(&self.0)
    }

    /// Field of a Fabrics command at byte `at`.
    pub(crate) fn field<T: units::layout::Value>(&self, at: usize) -> T {
        Field::<T>::at(at).get(&self.0)
    }

    /// Dword `number`, 0 to 15.
    pub(crate) fn dword(&self, number: usize) -> Dword {
        Dword(Field::<u32>::at(4 * number).get(&self.0))
    }

    /// Dwords 10 and 11 as one address.
    pub(crate) fn address(&self) -> u64 {
        Field::<u64>::at(40).get(&self.0)
    }
}

/// A dword of a command, with access to its bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dword(pub(crate) u32);

impl Dword {
    /// Bits `low` to `high`, inclusive.
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

    /// Bits `low` to `low` + 7.
    pub(crate) const fn byte(self, low: u32) -> u8 {
        self.bits(low, low + 7) as u8
    }

    /// Bits `low` to `low` + 15.
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
