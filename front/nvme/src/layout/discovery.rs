//! Layout of the discovery log page.

/// Size in bytes of the header, and of each record.
//= nvme-2.1 5.1.12.3.1
pub(crate) const BYTES: usize = 1024;

/// Header of the page.
pub(crate) mod header {
    units::layout! { 1024:
        GENERATION: u64 = 0,
        RECORDS: u64 = 8,
    }
}

/// Discovery log entry: a subsystem and its address.
pub(crate) mod record {
    units::layout! { 1024:
        TRANSPORT: u8 = 0,
        FAMILY: u8 = 1,
        KIND: u8 = 2,
        SECURITY: u8 = 3,
        PORT: u16 = 4,
        CONTROLLER: u16 = 6,
        ADMIN_ENTRIES: u16 = 8,
        SERVICE: [u8; 32] = 32,
        SUBSYSTEM: [u8; 256] = 256,
        ADDRESS: [u8; 256] = 512,
    }
}
