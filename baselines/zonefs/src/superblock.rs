//! The superblock, the only structure on the medium: identity of the file system, and owner and
//! permissions of its files.
//!
//! Layout, little endian (`fs/zonefs/zonefs.h`): magic at 0, checksum at 4, label at 8, UUID at 40,
//! features at 56, owner at 64, group at 68, permissions at 72, and zeros up to 4,096. The checksum
//! is the CRC-32 of the block with zeros in its place, not inverted at the end.

use flate2::Crc;

/// Size of the superblock, and unit of direct writes, in bytes.
pub const BLOCK: usize = 4096;

const MAGIC: u32 = 0x5a4f_4653;
const LABEL: usize = 32;
const END: usize = 76;

const AGGREGATE: u64 = 1;
const OWNER: u64 = 2;
const GROUP: u64 = 4;
const PERMISSIONS: u64 = 8;
const KNOWN: u64 = AGGREGATE | OWNER | GROUP | PERMISSIONS;

/// Contents of the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Volume name, at most 32 bytes on the medium.
    pub label: String,
    /// UUID of the volume, all zeros by default.
    pub uuid: [u8; 16],
    /// Whether adjacent conventional zones form one file.
    pub aggregates: bool,
    /// User id of the owner of all files.
    pub uid: u32,
    /// Group id of all files.
    pub gid: u32,
    /// Permission bits of all files.
    pub perm: u16,
}

impl Default for Superblock {
    /// The defaults of `mkzonefs`.
    fn default() -> Self {
        Self {
            label: String::new(),
            uuid: [0; 16],
            aggregates: false,
            uid: 0,
            gid: 0,
            perm: 0o640,
        }
    }
}

/// Reason for rejecting a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// The block is no superblock of zonefs.
    #[error("there is no zonefs: its first block has another magic number")]
    Magic,
    /// The block was changed without an update of its checksum.
    #[error(
        "the superblock is damaged: its checksum is {found:#010x}, and should be {right:#010x}"
    )]
    Checksum {
        /// Checksum stored in the block.
        found: u32,
        /// Checksum computed from the block.
        right: u32,
    },
    /// The block has feature bits of a later version.
    #[error("the superblock has features that are not known here: {0:#x}")]
    Features(u64),
    /// A reserved byte, at this offset, is not zero: a later version, or damage.
    #[error("the superblock has something where zeros should be, at byte {0}")]
    Reserved(usize),
    /// The permissions exceed 0777.
    #[error("the superblock has the permissions {0:#o}, and files have at most 0777")]
    Permissions(u32),
}

fn checksum(block: &[u8; BLOCK]) -> u32 {
    let mut crc = Crc::new();
    crc.update(&block[..4]);
    crc.update(&[0; 4]);
    crc.update(&block[8..]);
    !crc.sum()
}

fn u32_at(block: &[u8; BLOCK], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&block[at..at + 4]);
    u32::from_le_bytes(bytes)
}

impl Superblock {
    //= zonefs 1
    /// The block to be written. A label is cut to 32 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        let label = self.label.as_bytes();
        let default = Self::default();
        let features = [
            (AGGREGATE, self.aggregates),
            (OWNER, self.uid != default.uid),
            (GROUP, self.gid != default.gid),
            (PERMISSIONS, self.perm != default.perm),
        ];
        let features = features.iter().filter(|(_, is)| *is).map(|(bit, _)| bit);
        put(0, &MAGIC.to_le_bytes());
        put(8, &label[..label.len().min(LABEL)]);
        put(40, &self.uuid);
        put(56, &features.sum::<u64>().to_le_bytes());
        put(64, &self.uid.to_le_bytes());
        put(68, &self.gid.to_le_bytes());
        put(72, &u32::from(self.perm).to_le_bytes());
        let sum = checksum(&block);
        block[4..8].copy_from_slice(&sum.to_le_bytes());
        block
    }

    /// Parses a block.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn decode(block: &[u8; BLOCK]) -> Result<Self, SuperblockError> {
        if u32_at(block, 0) != MAGIC {
            return Err(SuperblockError::Magic);
        }
        let (found, right) = (u32_at(block, 4), checksum(block));
        if found != right {
            return Err(SuperblockError::Checksum { found, right });
        }
        let features = u64::from(u32_at(block, 60)) << 32 | u64::from(u32_at(block, 56));
        if features & !KNOWN != 0 {
            return Err(SuperblockError::Features(features & !KNOWN));
        }
        if let Some(at) = block[END..].iter().position(|&byte| byte != 0) {
            return Err(SuperblockError::Reserved(END + at));
        }
        let default = Self::default();
        let has = |bit, at, other| match features & bit {
            0 => other,
            _ => u32_at(block, at),
        };
        let perm = has(PERMISSIONS, 72, u32::from(default.perm));
        let named = block[8..8 + LABEL].split(|&byte| byte == 0).next();
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&block[40..56]);
        Ok(Self {
            label: String::from_utf8_lossy(named.unwrap_or_default()).into_owned(),
            uuid,
            aggregates: features & AGGREGATE != 0,
            uid: has(OWNER, 64, default.uid),
            gid: has(GROUP, 68, default.gid),
            perm: u16::try_from(perm)
                .ok()
                .filter(|perm| perm & !0o777 == 0)
                .ok_or(SuperblockError::Permissions(perm))?,
        })
    }
}
