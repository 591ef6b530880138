//! Byte layout of messages, queues and requests: the only module that knows it.
//!
//! Numbers are little endian.
//= virtio 5.2
//= vhost-user 1

/// Bytes of a message's header: type, flags and payload length.
pub const HEAD: usize = 12;
/// Longest payload of an accepted message: a memory table of [`REGIONS_MAX`] regions.
pub const PAYLOAD_MAX: usize = 8 + 32 * REGIONS_MAX;
/// Regions of memory that a machine may share.
pub const REGIONS_MAX: usize = 8;
/// Most data bytes of a block request.
pub const DATA_MAX: u64 = 32 << 20;
/// Number of queues that a machine may set up.
pub const QUEUES: u16 = 8;
/// Most descriptors of a queue. The specification allows 32,768; our choice is four times as
/// many as machines use.
pub const DESCRIPTORS_MAX: u32 = 1024;
/// Bytes that the requests of a machine and their answers may hold; a single request may hold
/// more. Our choice: two requests of the largest size.
pub const HELD_MAX: u64 = 2 * DATA_MAX;
/// Size of a descriptor in bytes.
pub const DESCRIPTOR: usize = 16;
/// Most data segments of a request, as the configuration tells the driver.
pub const SEGMENTS_MAX: u32 = 254;
/// Most sectors of 512 bytes in one discard or write-zeroes request.
pub const ZEROS_MAX: u32 = 1 << 22;
/// Size of the device's configuration space in bytes.
pub const CONFIG: usize = 60;
/// Size of the device's identification string in bytes.
pub const NAME: usize = 20;

/// Flag bits of a message: protocol version 1.
pub const VERSION: u32 = 1;
/// Flag of a message: it is a reply.
pub const REPLY: u32 = 1 << 2;
/// Flag of a message: the sender wants a reply even if the type has none.
pub const NEED_REPLY: u32 = 1 << 3;
/// Bit in the payload of a kick or call message: no file comes with it.
pub const NO_FILE: u64 = 1 << 8;

/// Types of the messages that a machine sends.
pub mod say {
    #![allow(missing_docs, reason = "these are the specification's words")]
    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ERR: u32 = 14;
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const GET_QUEUE_NUM: u32 = 17;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const GET_CONFIG: u32 = 24;
    pub const SET_CONFIG: u32 = 25;
}

/// Feature bits that the device offers.
pub const FEATURES: u64 = 1 << 2 // segments are limited
    | 1 << 6 // the block size is told
    | FLUSHES
    | 1 << 10 // sizes that serve it best
    | 1 << 12 // several queues
    | 1 << 13 // deallocate
    | 1 << 14 // write zeros
    | 1 << 28 // descriptors in tables of their own
    | PROTOCOL
    | 1 << 32; // not a legacy device
/// `VIRTIO_BLK_F_FLUSH`: the driver sends flushes. A driver without this feature considers a
/// write durable when it is answered.
//= virtio 5.2
pub const FLUSHES: u64 = 1 << 9;
/// `VHOST_USER_F_PROTOCOL_FEATURES`: protocol features can be negotiated, and queues must be
/// enabled.
pub const PROTOCOL: u64 = 1 << 30;
/// Protocol features that the device offers: several queues, replies on request, configuration.
pub const PROTOCOL_FEATURES: u64 = 1 | 1 << 3 | 1 << 9;

/// Flag of a descriptor: the chain continues at its `next`.
pub const NEXT: u16 = 1;
/// Flag of a descriptor: the device writes the buffer (else it reads it).
pub const WRITE: u16 = 2;
/// Flag of a descriptor: the buffer is a table of descriptors.
pub const INDIRECT: u16 = 4;
/// Flag of the available ring: the driver wants no interrupts for used entries.
pub const NO_INTERRUPT: u16 = 1;

/// Types of block requests.
pub mod want {
    #![allow(missing_docs, reason = "these are the specification's words")]
    pub const IN: u32 = 0;
    pub const OUT: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const WRITE_ZEROES: u32 = 13;
}

/// Status byte that ends a block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// `VIRTIO_BLK_S_OK`: the request succeeded.
    Ok = 0,
    /// `VIRTIO_BLK_S_IOERR`: the drive failed, or a range or buffer is invalid.
    Failed = 1,
    /// `VIRTIO_BLK_S_UNSUPP`: the request type or a flag is not supported.
    Unknown = 2,
}

/// Entry of a descriptor table: a buffer in guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Guest address of the buffer.
    pub address: u64,
    /// Length of the buffer in bytes.
    pub len: u32,
    /// Union of [`NEXT`], [`WRITE`] and [`INDIRECT`].
    pub flags: u16,
    /// Index of the next descriptor of the chain, if [`NEXT`] is set.
    pub next: u16,
}

impl Descriptor {
    /// Decodes a descriptor from its bytes in a table.
    #[must_use]
    pub fn parse(bytes: &[u8; DESCRIPTOR]) -> Self {
        Self {
            address: u64_at(bytes, 0),
            len: u32_at(bytes, 8),
            flags: u16_at(bytes, 12),
            next: u16_at(bytes, 14),
        }
    }
}

/// Configuration space of a device of `bytes` bytes whose pages have `page` bytes.
#[must_use]
pub fn config(bytes: u64, page: u32) -> [u8; CONFIG] {
    let mut config = [0; CONFIG];
    let mut put = |at: usize, value: &[u8]| config[at..at + value.len()].copy_from_slice(value);
    let sectors = |bytes: u32| bytes / 512;
    put(0, &(bytes / 512).to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    put(20, &512_u32.to_le_bytes());
    put(24, &[sectors(page).trailing_zeros() as u8]);
    put(26, &(sectors(page) as u16).to_le_bytes());
    put(32, &[1]);
    put(34, &QUEUES.to_le_bytes());
    put(36, &ZEROS_MAX.to_le_bytes());
    put(40, &1_u32.to_le_bytes());
    put(44, &sectors(page).to_le_bytes());
    put(48, &ZEROS_MAX.to_le_bytes());
    put(52, &1_u32.to_le_bytes());
    put(56, &[1]);
    config
}

/// Little-endian number of two bytes at `at`; zero if `bytes` end before.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let found = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    found.map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

/// Little-endian number of four bytes at `at`; zero if `bytes` end before.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    found.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Little-endian number of eight bytes at `at`; zero if `bytes` end before.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    found.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
