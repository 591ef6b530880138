//! The segment summary area: whose each block is; and the journals of NAT and SIT,
//! which the summaries of the logs of data have room for.

use super::nat::{self, NatEntry};
use super::sit::{self, SitEntry};
use super::{BLOCK, Block, SEG_BLOCKS, Value, blank};

/// Bytes of an entry.
const SIZE: usize = 7;
/// Bytes of a journal with its count.
pub(crate) const JOURNAL: usize = 507;
/// Byte offset of the journal in a block of summaries.
const JOURNAL_AT: usize = SEG_BLOCKS as usize * SIZE;
/// Bytes behind all of it.
const FOOTER: usize = 5;
/// Entries of the NAT that fit its journal.
pub(crate) const NAT_MOST: usize = (JOURNAL - 2) / (4 + nat::SIZE);
/// Entries of the SIT that fit its journal.
pub(crate) const SIT_MOST: usize = (JOURNAL - 2) / (4 + sit::SIZE);

const _: () = assert!(JOURNAL_AT + JOURNAL + FOOTER == BLOCK && NAT_MOST == 38 && SIT_MOST == 6);

mod raw {
    //= f2fs-layout 5
    super::super::layout! { 7:
        NID: u32 = 0,
        VERSION: u8 = 4,
        OFFSET: u16 = 5,
    }
}

/// Owner of a block, by which cleaning finds the address that leads to the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Number of the node that leads to the block, or of the node in it.
    pub(crate) nid: u32,
    /// Version of `nid` at the write, as in its [`NatEntry`].
    pub(crate) version: u8,
    /// Index of the address in the node that leads to the block.
    pub(crate) at: u16,
}

impl Owner {
    fn decode(bytes: &[u8]) -> Self {
        Self {
            nid: raw::NID.get(bytes),
            version: raw::VERSION.get(bytes),
            at: raw::OFFSET.get(bytes),
        }
    }

    fn encode(self, bytes: &mut [u8]) {
        raw::NID.put(bytes, self.nid);
        raw::VERSION.put(bytes, self.version);
        raw::OFFSET.put(bytes, self.at);
    }
}

/// The owners of the blocks of a segment.
pub(crate) type Owners = Box<[Owner; SEG_BLOCKS as usize]>;

/// Owners of a segment without valid blocks: every entry is the default.
pub(crate) fn nobody() -> Owners {
    Box::new([Owner::default(); SEG_BLOCKS as usize])
}

/// The owners that a block of summaries names.
pub(crate) fn decode(block: &Block) -> Owners {
    let mut owners = nobody();
    for (owner, bytes) in owners.iter_mut().zip(block.chunks_exact(SIZE)) {
        *owner = Owner::decode(bytes);
    }
    owners
}

/// A block of summaries of a segment of nodes, or of data, with this journal.
pub(crate) fn encode(owners: &Owners, nodes: bool, journal: &[u8]) -> Box<Block> {
    let mut block = blank();
    for (owner, out) in owners.iter().zip(block.chunks_exact_mut(SIZE)) {
        owner.encode(out);
    }
    block[JOURNAL_AT..JOURNAL_AT + journal.len()].copy_from_slice(journal);
    block[JOURNAL_AT + JOURNAL] = u8::from(nodes);
    block
}

/// The journal in a block of summaries.
pub(crate) fn journal_of(block: &Block) -> &[u8] {
    &block[JOURNAL_AT..JOURNAL_AT + JOURNAL]
}

/// A journal with entries of the NAT.
pub(crate) fn nat_journal(entries: &[(u32, NatEntry)]) -> [u8; JOURNAL] {
    let mut journal = [0; JOURNAL];
    (entries.len() as u16).save(&mut journal);
    let places = journal[2..].chunks_exact_mut(4 + nat::SIZE);
    for ((nid, entry), out) in entries.iter().zip(places) {
        nid.save(out);
        entry.encode(&mut out[4..]);
    }
    journal
}

/// The entries of the NAT in a journal.
pub(crate) fn nats_of(journal: &[u8]) -> Vec<(u32, NatEntry)> {
    let count = usize::from(u16::load(journal)).min(NAT_MOST);
    let places = journal[2..].chunks_exact(4 + nat::SIZE).take(count);
    places
        .map(|bytes| (u32::load(bytes), NatEntry::decode(&bytes[4..])))
        .collect()
}

/// A journal with entries of the SIT.
pub(crate) fn sit_journal<'a>(entries: impl Iterator<Item = (u32, &'a SitEntry)>) -> [u8; JOURNAL] {
    let (mut journal, mut count) = ([0; JOURNAL], 0_u16);
    let places = journal[2..].chunks_exact_mut(4 + sit::SIZE);
    for ((segment, entry), out) in entries.zip(places) {
        segment.save(out);
        entry.encode(&mut out[4..]);
        count += 1;
    }
    count.save(&mut journal);
    journal
}

/// The entries of the SIT in a journal.
pub(crate) fn sits_of(journal: &[u8]) -> Vec<(u32, SitEntry)> {
    let count = usize::from(u16::load(journal)).min(SIT_MOST);
    let places = journal[2..].chunks_exact(4 + sit::SIZE).take(count);
    places
        .map(|bytes| (u32::load(bytes), SitEntry::decode(&bytes[4..])))
        .collect()
}

/// The end of the part of a block that compact summaries fill.
const COMPACT_END: usize = BLOCK - FOOTER;

/// Block and offset of the next compact entry, after one that ends at `at` of block `index`.
const fn next_place(index: usize, at: usize) -> (usize, usize) {
    if at + SIZE > COMPACT_END {
        (index + 1, 0)
    } else {
        (index, at)
    }
}

/// Owners in the compact form, up to the `used` of each of the three logs of data, after
/// the journals; none if they need as many blocks as the normal form.
pub(crate) fn compact(
    nat: &[u8; JOURNAL],
    sit: &[u8; JOURNAL],
    logs: [(&Owners, usize); 3],
) -> Option<Vec<Box<Block>>> {
    let mut blocks = vec![blank()];
    blocks[0][..JOURNAL].copy_from_slice(nat);
    blocks[0][JOURNAL..2 * JOURNAL].copy_from_slice(sit);
    let mut at = 2 * JOURNAL;
    for (owners, used) in logs {
        for owner in &owners[..used] {
            let (index, place) = next_place(blocks.len() - 1, at);
            if index == blocks.len() {
                blocks.push(blank());
            }
            owner.encode(&mut blocks[index][place..place + SIZE]);
            at = place + SIZE;
        }
    }
    (blocks.len() < 3).then_some(blocks)
}

/// Reads the compact form: journals of NAT and SIT, and the owners in the three logs of
/// data; none if there are fewer blocks than it needs.
pub(crate) fn uncompact(
    blocks: &[Box<Block>],
    used: [usize; 3],
) -> Option<(Vec<u8>, Vec<u8>, [Owners; 3])> {
    let first = blocks.first()?;
    let (nat, sit) = (&first[..JOURNAL], &first[JOURNAL..2 * JOURNAL]);
    let (mut index, mut at) = (0, 2 * JOURNAL);
    let mut logs = [nobody(), nobody(), nobody()];
    for (owners, used) in logs.iter_mut().zip(used) {
        for owner in owners.get_mut(..used)? {
            (index, at) = next_place(index, at);
            *owner = Owner::decode(&blocks.get(index)?[at..at + SIZE]);
            at += SIZE;
        }
    }
    Some((nat.to_vec(), sit.to_vec(), logs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_summaries_encoded_and_decoded_are_unchanged() {
        let owners = |seed: u32| {
            let mut owners = nobody();
            for (owner, n) in owners.iter_mut().zip(seed..) {
                (owner.nid, owner.at) = (n, n as u16 % 900);
            }
            owners
        };
        let logs = [owners(1), owners(10_000), owners(70_000)];
        for used in [[1, 0, 0], [400, 39, 0], [400, 40, 1], [300, 400, 300]] {
            let nat = nat_journal(&[(
                7,
                NatEntry {
                    version: 1,
                    ino: 7,
                    addr: 99,
                },
            )]);
            let entry = SitEntry::default();
            let sit = sit_journal([(3, &entry)].into_iter());
            let parts = [0, 1, 2].map(|n| (&logs[n], used[n]));
            let blocks = compact(&nat, &sit, parts).expect("two blocks are enough");
            let (nats, sits, back) = uncompact(&blocks, used).expect("it is whole");
            assert_eq!((nats_of(&nats).len(), sits_of(&sits).len()), (1, 1));
            for n in 0..3 {
                assert_eq!(back[n][..used[n]], logs[n][..used[n]]);
            }
        }
        let all = [0, 1, 2].map(|n| (&logs[n], 512));
        assert!(compact(&[0; JOURNAL], &[0; JOURNAL], all).is_none());
        assert!(uncompact(&[blank()], [512, 512, 0]).is_none());
    }
}
