//! PCI configuration space of the drive, by which a machine enumerates it.
//!
//! Invariants: only bits set in the mask can be written. The base address of the registers reads
//! back as a multiple of their size, from which a machine learns the size.

use super::registers::{PENDING_AT, REGISTER_BYTES, TABLE_AT, VECTORS};
use units::layout::Field;

/// Size of a PCI Express configuration space in bytes.
pub(super) const CONFIG_BYTES: usize = 4096;

/// PCI vendor ID. Our choice of an unassigned one.
pub(crate) const VENDOR: u16 = 0xf1a5;
/// PCI device ID. Our choice.
const DEVICE: u16 = 0x0001;

/// Offsets of the capabilities.
const POWER_AT: usize = 0x40;
const EXPRESS_AT: usize = 0x50;
const INTERRUPTS_AT: usize = 0x90;

//= pcie 7.5.1
mod head {
    units::layout! { 64:
        VENDOR: u16 = 0,
        DEVICE: u16 = 2,
        COMMAND: u16 = 4,
        STATUS: u16 = 6,
        INTERFACE: u8 = 9,
        SUBCLASS: u8 = 10,
        CLASS: u8 = 11,
        BASE: u32 = 16,
        BASE_HIGH: u32 = 20,
        SUBSYSTEM_VENDOR: u16 = 44,
        SUBSYSTEM: u16 = 46,
        CAPABILITIES: u8 = 52,
        LINE: u8 = 60,
    }
}

/// Configuration space of one machine's drive.
pub(super) struct Config {
    bytes: Vec<u8>,
    /// Bits that the machine can write; the others are read-only.
    mask: Vec<u8>,
}

impl Default for Config {
    fn default() -> Self {
        let mut config = Self {
            bytes: vec![0; CONFIG_BYTES],
            mask: vec![0; CONFIG_BYTES],
        };
        config.put_head();
        config.put_capabilities();
        config
    }
}

impl Config {
    fn put_head(&mut self) {
        let (bytes, mask) = (&mut self.bytes[..], &mut self.mask[..]);
        head::VENDOR.put(bytes, VENDOR);
        head::DEVICE.put(bytes, DEVICE);
        head::SUBSYSTEM_VENDOR.put(bytes, VENDOR);
        head::SUBSYSTEM.put(bytes, DEVICE);
        // Mass storage; not volatile; with the registers of NVMe.
        head::CLASS.put(bytes, 0x01);
        head::SUBCLASS.put(bytes, 0x08);
        head::INTERFACE.put(bytes, 0x02);
        // The device has a list of capabilities.
        head::STATUS.put(bytes, 1 << 4);
        head::CAPABILITIES.put(bytes, POWER_AT as u8);
        // Base address of type memory, 64 bits wide.
        head::BASE.put(bytes, 0b100);
        // Writable: memory space enable, bus master enable, interrupt (INTx) disable.
        head::COMMAND.put(mask, 0b100_0000_0110);
        head::BASE.put(mask, !(REGISTER_BYTES as u32 - 1));
        head::BASE_HIGH.put(mask, u32::MAX);
        head::LINE.put(mask, 0xff);
    }

    fn put_capabilities(&mut self) {
        let mut put = |at: usize, value: u16, mask: u16| {
            Field::at(at).put(&mut self.bytes, value);
            Field::at(at).put(&mut self.mask, mask);
        };
        let kind = |id: u16, next: usize| (next as u16) << 8 | id;
        // Power management: states D0 and D3hot.
        //= pcie 7.5.2
        put(POWER_AT, kind(0x01, EXPRESS_AT), 0);
        put(POWER_AT + 2, 3, 0);
        put(POWER_AT + 4, 1 << 3, 0b11);
        // PCI Express endpoint, version 2 of the capability.
        //= pcie 7.5.3
        put(EXPRESS_AT, kind(0x10, INTERRUPTS_AT), 0);
        put(EXPRESS_AT + 2, 2, 0);
        // Role-based error reporting.
        put(EXPRESS_AT + 4, 1 << 15, 0);
        put(EXPRESS_AT + 8, 0, 0x7fff);
        // One lane at 2.5 GT/s. The simulation does not derive any timing from the link.
        put(EXPRESS_AT + 12, 1 << 4 | 1, 0);
        put(EXPRESS_AT + 18, 1 << 4 | 1, 0);
        // MSI-X, with its table behind the doorbells.
        //= pcie 7.7.2
        put(INTERRUPTS_AT, kind(0x11, 0), 0);
        put(INTERRUPTS_AT + 2, VECTORS as u16 - 1, 0b11 << 14);
        put(INTERRUPTS_AT + 4, TABLE_AT as u16, 0);
        put(INTERRUPTS_AT + 8, PENDING_AT as u16, 0);
    }

    /// Reads `len` bytes at offset `at`; `None` if they reach past the end.
    pub(super) fn read(&self, at: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(at).ok()?;
        self.bytes.get(at..at.checked_add(len)?)
    }

    /// Writes the writable bits of `data` at offset `at`; `None` if it reaches past the end.
    pub(super) fn write(&mut self, at: u64, data: &[u8]) -> Option<()> {
        let at = usize::try_from(at).ok()?;
        let span = at..at.checked_add(data.len())?;
        let (bytes, mask) = (self.bytes.get_mut(span.clone())?, self.mask.get(span)?);
        for ((byte, mask), new) in bytes.iter_mut().zip(mask).zip(data) {
            *byte = *byte & !mask | new & mask;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dword(config: &Config, at: u64) -> u32 {
        Field::at(0).get(config.read(at, 4).expect("it is there"))
    }

    //= pcie 7.5.1
    #[test]
    fn a_machine_learns_the_size_of_the_registers_and_places_them() {
        let mut config = Config::default();
        config.write(0x10, &[0xff; 8]).expect("it is there");
        let size = !(dword(&config, 0x10) & !0xf) + 1;
        assert_eq!(size as usize, REGISTER_BYTES);
        assert_eq!(dword(&config, 0x10) & 0xf, 0b100);
        assert_eq!(dword(&config, 0x14), u32::MAX);
        config
            .write(0x10, &0xfebd_0000_u32.to_le_bytes())
            .expect("it is there");
        assert_eq!(dword(&config, 0x10), 0xfebd_0004);
    }

    #[test]
    fn identity_is_read_only() {
        let mut config = Config::default();
        let before = dword(&config, 0);
        config.write(0, &[0xaa; 12]).expect("it is there");
        assert_eq!(
            (dword(&config, 0), dword(&config, 8)),
            (before, 0x0108_0200)
        );
        assert_eq!(dword(&config, 4) & 0xffff, 0x0402 & 0xaaaa);
    }

    /// The list of capabilities is finite and has the three that a drive needs.
    #[test]
    fn capabilities_are_a_list() {
        let config = Config::default();
        let (mut at, mut found) = (u64::from(config.bytes[0x34]), Vec::new());
        while at != 0 {
            let head = dword(&config, at);
            found.push(head as u8);
            at = u64::from(head as u16 >> 8);
        }
        assert_eq!(found, [0x01, 0x10, 0x11]);
    }

    #[test]
    fn there_is_nothing_behind_its_end() {
        let mut config = Config::default();
        for at in [4093, 4096, u64::MAX] {
            assert!(config.read(at, 4).is_none() && config.write(at, &[0; 4]).is_none());
        }
    }
}
