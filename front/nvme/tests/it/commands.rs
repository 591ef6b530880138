//! Commands on blocks, beside a model of a few lines.

use crate::host::{Host, Sqe, memory, queue};
use crate::memory::Memory;
use crate::wire::Local;
use proptest::prelude::*;

/// Blocks of the namespace, of 4,096 bytes until it is formatted.
const BLOCKS: u64 = 64;

fn drive() -> (Host<Local<Memory>>, Host<Local<Memory>>) {
    let admin = memory(&[BLOCKS * 4096]);
    let io = queue(&admin, 1, 1);
    (admin, io)
}

#[derive(Clone, Debug)]
enum Op {
    Write(u64, u32, u8),
    Read(u64, u32),
    Compare(u64, u32, u8),
    Zero(u64, u32),
    Verify(u64, u32),
    Discard(Vec<(u64, u32)>),
    Copy(Vec<(u64, u32)>, u64),
    Flush,
    Format(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let place = || (0..BLOCKS + 4, 1..9_u32);
    let places = || prop::collection::vec(place(), 1..4);
    prop_oneof![
        4 => (place(), any::<u8>()).prop_map(|((at, n), fill)| Op::Write(at, n, fill)),
        4 => place().prop_map(|(at, n)| Op::Read(at, n)),
        1 => (place(), any::<u8>()).prop_map(|((at, n), fill)| Op::Compare(at, n, fill)),
        1 => place().prop_map(|(at, n)| Op::Zero(at, n)),
        1 => place().prop_map(|(at, n)| Op::Verify(at, n)),
        1 => places().prop_map(Op::Discard),
        2 => (places(), 0..BLOCKS).prop_map(|(from, to)| Op::Copy(from, to)),
        1 => Just(Op::Flush),
        1 => (0..3_u8).prop_map(Op::Format),
    ]
}

/// Model of a drive's contents.
struct Model {
    bytes: Vec<u8>,
    block: usize,
}

const OUT_OF_RANGE: u16 = 0x80;

impl Model {
    fn span(&self, at: u64, count: u32) -> Result<std::ops::Range<usize>, u16> {
        let start = at as usize * self.block;
        let end = start + count as usize * self.block;
        let fits = end <= self.bytes.len();
        fits.then_some(start..end).ok_or(OUT_OF_RANGE)
    }

    /// The status and the data of an operation.
    fn run(&mut self, op: &Op) -> Result<Vec<u8>, u16> {
        match *op {
            Op::Write(at, count, fill) => {
                let span = self.span(at, count)?;
                self.bytes[span].fill(fill);
            }
            Op::Read(at, count) => return Ok(self.bytes[self.span(at, count)?].to_vec()),
            Op::Compare(at, count, fill) => {
                let same = self.bytes[self.span(at, count)?].iter().all(|&b| b == fill);
                return same.then(Vec::new).ok_or(0x285);
            }
            Op::Zero(at, count) => {
                let span = self.span(at, count)?;
                self.bytes[span].fill(0);
            }
            Op::Verify(at, count) => {
                self.span(at, count)?;
            }
            Op::Discard(ref places) => {
                let spans: Result<Vec<_>, _> =
                    places.iter().map(|&(at, n)| self.span(at, n)).collect();
                for span in spans? {
                    self.bytes[span].fill(0);
                }
            }
            Op::Copy(ref places, to) => {
                let spans: Result<Vec<_>, _> =
                    places.iter().map(|&(at, n)| self.span(at, n)).collect();
                let sources: Vec<u8> = spans?
                    .into_iter()
                    .flat_map(|span| self.bytes[span].to_vec())
                    .collect();
                let target = self.span(to, (sources.len() / self.block) as u32)?;
                self.bytes[target].copy_from_slice(&sources);
            }
            Op::Flush => {}
            Op::Format(format) => {
                self.block = *[512, 4096].get(usize::from(format)).ok_or(0x10a_u16)?;
                self.bytes.fill(0);
            }
        }
        Ok(Vec::new())
    }
}

fn dataset(places: &[(u64, u32)]) -> Vec<u8> {
    let range =
        |&(at, count): &(u64, u32)| [&[0; 4][..], &count.to_le_bytes(), &at.to_le_bytes()].concat();
    places.iter().flat_map(range).collect()
}

fn sources(places: &[(u64, u32)]) -> Vec<u8> {
    let range = |&(at, count): &(u64, u32)| {
        let head = [&[0; 8][..], &at.to_le_bytes(), &(count - 1).to_le_bytes()].concat();
        [head, vec![0; 12]].concat()
    };
    places.iter().flat_map(range).collect()
}

/// Carries an operation out, `block` bytes a block.
fn run(
    (admin, io): (&mut Host<Local<Memory>>, &mut Host<Local<Memory>>),
    op: &Op,
    block: usize,
) -> Result<Vec<u8>, u16> {
    let filled = |count: u32, fill| vec![fill; count as usize * block];
    let (sqe, data, room) = match *op {
        Op::Write(at, count, fill) => (Sqe::new(1).blocks(at, count), filled(count, fill), 0),
        Op::Read(at, count) => (
            Sqe::new(2).blocks(at, count),
            vec![],
            count as usize * block,
        ),
        Op::Compare(at, count, fill) => (Sqe::new(5).blocks(at, count), filled(count, fill), 0),
        Op::Zero(at, count) => (Sqe::new(8).blocks(at, count), vec![], 0),
        Op::Verify(at, count) => (Sqe::new(0xc).blocks(at, count), vec![], 0),
        Op::Discard(ref places) => {
            let sqe = Sqe::new(9).nsid(1).dword(10, places.len() as u32 - 1);
            (sqe.dword(11, 4), dataset(places), 0)
        }
        Op::Copy(ref places, to) => {
            let sqe = Sqe::new(0x19).blocks(to, places.len() as u32);
            (sqe, sources(places), 0)
        }
        Op::Flush => (Sqe::new(0).nsid(1), vec![], 0),
        Op::Format(format) => {
            let sqe = Sqe::new(0x80).nsid(1).dword(10, format.into());
            let reply = admin.call(sqe, &[], 0);
            return if reply.status == 0 {
                Ok(vec![])
            } else {
                Err(reply.status)
            };
        }
    };
    let reply = io.call(sqe, &data, room);
    if reply.status == 0 {
        Ok(reply.data)
    } else {
        Err(reply.status)
    }
}

proptest! {
    #[test]
    fn drive_and_model_have_equal_contents(ops in prop::collection::vec(op(), 1..60)) {
        let (mut admin, mut io) = drive();
        let mut model = Model { bytes: vec![0; BLOCKS as usize * 4096], block: 4096 };
        for op in ops {
            let block = model.block;
            let expected = model.run(&op);
            let found = run((&mut admin, &mut io), &op, block);
            prop_assert_eq!(found, expected, "{:?}", op);
        }
    }
}

#[test]
fn unsupported_commands_are_refused() {
    let (mut admin, mut io) = drive();
    // Write uncorrectable, reservations, zones, bytes.
    for opcode in [0x04, 0x0d, 0x79, 0x7a, 0x7d, 0x81, 0x82, 0x88, 0xff] {
        let reply = io.call(Sqe::new(opcode).nsid(1), &[], 0);
        assert_eq!(reply.status, 0x01, "{opcode:#x}");
    }
    // There are no placement handles.
    for opcode in [0x12, 0x1d] {
        let reply = io.call(Sqe::new(opcode).nsid(1).dword(10, 1), &[], 0);
        assert_eq!(reply.status, 0x29, "{opcode:#x}");
    }
    for opcode in [0x00, 0x01, 0x10, 0x0d, 0x15, 0x82] {
        assert_eq!(
            admin.call(Sqe::new(opcode), &[], 0).status,
            0x01,
            "{opcode:#x}"
        );
    }
}

#[test]
fn invalid_command_fields_are_refused() {
    let (_admin, mut io) = drive();
    let read = || Sqe::new(2).blocks(0, 1);
    let status = |io: &mut Host<_>, sqe: Sqe, room| io.call(sqe, &[], room).status;
    assert_eq!(status(&mut io, read().put(1, &[0x41]), 4096), 0x02, "fused");
    assert_eq!(
        status(&mut io, read().put(1, &[0x00]), 4096),
        0x02,
        "no list of segments"
    );
    assert_eq!(status(&mut io, read().nsid(2), 4096), 0x0b);
    assert_eq!(status(&mut io, read().nsid(0), 4096), 0x0b);
    assert_eq!(status(&mut io, read().nsid(u32::MAX), 4096), 0x0b);
    assert_eq!(
        status(&mut io, read().dword(12, 1 << 29), 4096),
        0x181,
        "protection"
    );
    assert_eq!(status(&mut io, read(), 2048), 0x0f, "the data are longer");
    assert_eq!(status(&mut io, read().put(40, &[0xff; 8]), 4096), 0x80);
    let write = Sqe::new(1).blocks(0, 1);
    assert_eq!(io.call(write, &[0; 8192], 0).status, 0x0f);
    assert_eq!(
        io.call(write.dword(12, 1 << 20), &[0; 4096], 0).status,
        0x02,
        "streams"
    );
    assert_eq!(
        io.call(write.dword(12, 2 << 20), &[0; 4096], 0).status,
        0x02,
        "handles"
    );
    // More ranges than there are.
    let dsm = Sqe::new(9).nsid(1).dword(10, 3).dword(11, 4);
    assert_eq!(io.call(dsm, &dataset(&[(0, 1)]), 0).status, 0x0f);
    assert_eq!(
        io.call(Sqe::identify(1, 0).put(0, &[0x06]), &[], 4096)
            .status,
        0x01
    );
}

#[test]
fn flush_of_all_namespaces_is_accepted() {
    let (_admin, mut io) = drive();
    for (nsid, status) in [(1, 0), (u32::MAX, 0), (2, 0x0b), (0, 0x0b)] {
        assert_eq!(
            io.call(Sqe::new(0).nsid(nsid), &[], 0).status,
            status,
            "{nsid}"
        );
    }
}

#[test]
fn namespaces_have_separate_contents() {
    let admin = memory(&[1 << 20, 1 << 20]);
    let mut io = queue(&admin, 1, 1);
    for nsid in [1, 2] {
        let sqe = Sqe::new(1).blocks(3, 1).nsid(nsid);
        assert_eq!(io.call(sqe, &[nsid as u8; 4096], 0).status, 0);
    }
    for nsid in [1, 2] {
        let found = io.call(Sqe::new(2).blocks(3, 1).nsid(nsid), &[], 4096).data;
        assert_eq!(found, [nsid as u8; 4096]);
    }
}
