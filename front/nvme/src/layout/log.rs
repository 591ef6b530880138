//! Layouts of the log pages.

/// Entry of the Error Information page.
//= nvme-2.1 5.1.12.1.2
pub(crate) mod error {
    /// Size of an entry in bytes.
    pub(crate) const BYTES: usize = 64;
    units::layout! { 64:
        COUNT: u64 = 0,
        SQID: u16 = 8,
        CID: u16 = 10,
        STATUS: u16 = 12,
        PEL: u16 = 14,
        LBA: u64 = 16,
        NSID: u32 = 24,
        TRTYPE: u8 = 29,
    }
}

/// SMART / Health Information, of a controller or a namespace.
//= nvme-2.1 5.1.12.1.3
pub(crate) mod smart {
    /// Size of the page in bytes.
    pub(crate) const BYTES: usize = 512;
    units::layout! { 512:
        CRITICAL: u8 = 0,
        TEMPERATURE: u16 = 1,
        SPARE: u8 = 3,
        SPARE_THRESHOLD: u8 = 4,
        USED: u8 = 5,
        GROUP_CRITICAL: u8 = 6,
        READ: [u8; 16] = 32,
        WRITTEN: [u8; 16] = 48,
        READ_COMMANDS: [u8; 16] = 64,
        WRITE_COMMANDS: [u8; 16] = 80,
        POWER_CYCLES: [u8; 16] = 112,
        UNSAFE_SHUTDOWNS: [u8; 16] = 144,
        MEDIA_ERRORS: [u8; 16] = 160,
        ERRORS: [u8; 16] = 176,
    }
}

/// Log page Firmware Slot Information.
//= nvme-2.1 5.1.12.1.4
pub(crate) mod firmware {
    /// Size of the page in bytes.
    pub(crate) const BYTES: usize = 512;
    units::layout! { 512:
        ACTIVE: u8 = 0,
        SLOT: [u8; 8] = 8,
    }
}

/// Log page Endurance Group Information.
//= nvme-2.1 5.1.12.1.10
pub(crate) mod endurance {
    /// Size of the page in bytes.
    pub(crate) const BYTES: usize = 512;
    units::layout! { 512:
        CRITICAL: u8 = 0,
        SPARE: u8 = 3,
        SPARE_THRESHOLD: u8 = 4,
        USED: u8 = 5,
        READ: [u8; 16] = 48,
        WRITTEN: [u8; 16] = 64,
        MEDIA_WRITTEN: [u8; 16] = 80,
        READ_COMMANDS: [u8; 16] = 96,
        WRITE_COMMANDS: [u8; 16] = 112,
        MEDIA_ERRORS: [u8; 16] = 128,
        CAPACITY: [u8; 16] = 160,
    }
}

/// FDP Configurations: a header and one configuration.
//= nvme-2.1 5.1.12.1.28
pub(crate) mod placements {
    units::layout! { 80:
        VERSION: u8 = 2,
        SIZE: u32 = 4,
        CONFIG_SIZE: u16 = 16,
        ATTRIBUTES: u8 = 18,
        GROUPS: u32 = 20,
        HANDLES: u16 = 24,
        MOST_PLACEMENTS: u16 = 26,
        NAMESPACES: u32 = 28,
        UNIT: u64 = 32,
    }

    /// Offset in bytes of the reclaim unit handle descriptors.
    pub(crate) const HANDLES_AT: usize = 80;
    /// Size of a handle descriptor in bytes.
    pub(crate) const HANDLE_BYTES: usize = 4;
}

/// Log page FDP Statistics.
//= nvme-2.1 5.1.12.1.30
pub(crate) mod statistics {
    /// Size of the page in bytes.
    pub(crate) const BYTES: usize = 64;
    units::layout! { 64:
        HOST_WRITTEN: [u8; 16] = 0,
        MEDIA_WRITTEN: [u8; 16] = 16,
        MEDIA_ERASED: [u8; 16] = 32,
    }
}

/// Log page FDP Events.
//= nvme-2.1 5.1.12.1.31
pub(crate) mod event {
    /// Size in bytes of the header, and of each event.
    pub(crate) const BYTES: usize = 64;
    units::layout! { 64:
        KIND: u8 = 0,
        FLAGS: u8 = 1,
        PLACEMENT: u16 = 2,
        TIME: u64 = 4,
        NSID: u32 = 12,
        SPECIFIC_FLAGS: u8 = 16,
        MOVED_BLOCKS: u16 = 18,
        LBA: u64 = 20,
        GROUP: u16 = 32,
        HANDLE: u16 = 34,
    }
}

/// Log page Sanitize Status.
//= nvme-2.1 5.1.12.1.33
pub(crate) mod sanitize {
    /// Size of the page in bytes.
    pub(crate) const BYTES: usize = 512;
    units::layout! { 512:
        PROGRESS: u16 = 0,
        STATUS: u16 = 2,
        COMMAND: u32 = 4,
    }
}

/// Data structure of Report Zones.
//= zns 3.4.2
pub(crate) mod zone {
    /// Size in bytes of the header, and of each descriptor.
    pub(crate) const BYTES: usize = 64;
    units::layout! { 64:
        KIND: u8 = 0,
        STATE: u8 = 1,
        ATTRIBUTES: u8 = 2,
        CAPACITY: u64 = 8,
        START: u64 = 16,
        POINTER: u64 = 24,
    }
}

/// Reclaim Unit Handle Status.
//= nvme-2.1 7.3
pub(crate) mod unit {
    /// Size of the header in bytes.
    pub(crate) const HEADER_BYTES: usize = 16;
    /// Number of descriptors, in the header.
    pub(crate) const COUNT: units::layout::Field<u16> = units::layout::Field::at(14);
    /// Size of a descriptor in bytes.
    pub(crate) const BYTES: usize = 32;
    units::layout! { 32:
        PLACEMENT: u16 = 0,
        HANDLE: u16 = 2,
        WRITABLE: u64 = 8,
    }
}
