//! Byte layout of messages, queues and requests: the only module that knows it.
//!
//! Numbers are little endian.
//= virtio 5.2
//= vhost-user 1

/// Bytes of a message before its payload.
pub const HEAD: usize = 12;
/// Longest payload of a message that is taken: a table of memory has 8 regions.
pub const PAYLOAD_MAX: usize = 8 + 32 * REGIONS_MAX;
/// Regions of memory that a machine may share.
pub const REGIONS_MAX: usize = 8;
/// Longest request of data, in bytes.
pub const DATA_MAX: u64 = 32 << 20;
/// Maximum number of queues.
pub const QUEUES: u16 = 8;
/// Most descriptors of a queue. The specification lets there be 32,768; a choice of ours, four
/// times as many as machines have.
pub const DESCRIPTORS_MAX: u32 = 1024;
/// Bytes that the requests of a machine and their answers may hold, but for one request that
/// may be larger: a choice of ours, two requests of the largest size.
pub const HELD_MAX: u64 = 2 * DATA_MAX;
/// Bytes of a descriptor.
pub const DESCRIPTOR: usize = 16;
/// Segments of data that a request may have.
pub const SEGMENTS_MAX: u32 = 254;
/// Sectors of 512 bytes that may be deallocated or made zeros at a time.
pub const ZEROS_MAX: u32 = 1 << 22;
/// Bytes of the device's configuration.
pub const CONFIG: usize = 60;
/// Bytes of the name of a drive.
pub const NAME: usize = 20;

/// Version 1 of the messages, in their flags.
pub const VERSION: u32 = 1;
/// A message that is an answer.
pub const REPLY: u32 = 1 << 2;
/// A message that wants to be answered.
pub const NEED_REPLY: u32 = 1 << 3;
/// No file comes with this message.
pub const NO_FILE: u64 = 1 << 8;

/// Message types of the machine.
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

/// Feature bits of the device.
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
/// The machine flushes. One that does not takes a write for durable when it is answered.
//= virtio 5.2
pub const FLUSHES: u64 = 1 << 9;
/// There are features of the protocol.
pub const PROTOCOL: u64 = 1 << 30;
/// Several queues, answers where they are wanted, configuration.
pub const PROTOCOL_FEATURES: u64 = 1 | 1 << 3 | 1 << 9;

/// More of a chain follows.
pub const NEXT: u16 = 1;
/// The device writes it.
pub const WRITE: u16 = 2;
/// It is a table of descriptors.
pub const INDIRECT: u16 = 4;
/// The machine wants no interrupt for what is used.
pub const NO_INTERRUPT: u16 = 1;

/// Request types.
pub mod want {
    #![allow(missing_docs, reason = "these are the specification's words")]
    pub const IN: u32 = 0;
    pub const OUT: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const WRITE_ZEROES: u32 = 13;
}

/// Status of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It is done.
    Ok = 0,
    /// It failed.
    Failed = 1,
    /// There is no such request.
    Unknown = 2,
}

/// A piece of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Guest address of the buffer.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// [`NEXT`], [`WRITE`], [`INDIRECT`].
    pub flags: u16,
    /// The next one of its chain.
    pub next: u16,
}

impl Descriptor {
    /// The descriptor in these bytes.
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

/// The configuration of a device of so many bytes in pages of `page`.
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

/// The two bytes at `at`; zero where there are none.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let found = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    found.map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

/// The four bytes at `at`; zero where there are none.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    found.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The eight bytes at `at`; zero where there are none.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    found.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
