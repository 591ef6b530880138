//! Block requests of a machine: decoding, execution on the drive, and status.

use crate::memory::{Bad, Memory};
use crate::wire::{DATA_MAX, Descriptor, NAME, Status, WRITE, ZEROS_MAX, u32_at, u64_at, want};
use engine::{Device, Fault};
use std::rc::Rc;

/// Bytes of a sector, the unit of positions and counts in requests.
const SECTOR: u64 = 512;
/// Bytes of a request's header: type, reserved field, first sector.
const HEAD: usize = 16;
/// Bytes of the range in a discard or write-zeroes request.
const RANGE: usize = 16;
/// Bytes charged for a request besides its data and descriptors: its task.
const COST: u64 = 4096;
/// Flag of a range: a write of zeros may deallocate it.
const UNMAP: u32 = 1;

/// Reason why a request failed.
enum Failed {
    /// The request is answered with this status.
    So(Status),
    /// The drive has lost its power; the request gets no answer.
    Lost,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Gone(_) => Self::Lost,
            _ => Self::So(Status::Failed),
        }
    }
}

impl From<Bad> for Failed {
    fn from(Bad: Bad) -> Self {
        Self::So(Status::Failed)
    }
}

/// A request decoded from its chain of descriptors.
pub(crate) struct Request {
    /// Index of the chain's first descriptor, which identifies the request in the used ring.
    pub(crate) head: u16,
    want: u32,
    sector: u64,
    /// Buffers that the device reads, after the header.
    out: Vec<Descriptor>,
    /// Buffers that the device writes, before the status.
    into: Vec<Descriptor>,
    /// Guest address of the status byte.
    status: u64,
}

impl Request {
    /// Decodes the request in `chain`. An invalid chain has no place for a status, so it cannot
    /// be answered.
    ///
    /// # Errors
    /// If buffers are out of order, are too long in total, or leave no room for header or status.
    pub(crate) fn parse(memory: &Memory, head: u16, chain: &[Descriptor]) -> Result<Self, Bad> {
        let first_written = chain.iter().position(|part| part.flags & WRITE != 0);
        let (out, into) = chain.split_at(first_written.unwrap_or(chain.len()));
        let (mut out, mut into) = (out.to_vec(), into.to_vec());
        let is_ordered = into.iter().all(|part| part.flags & WRITE != 0);
        let bytes = chain.iter().map(|part| u64::from(part.len)).sum::<u64>();
        if !is_ordered || bytes > DATA_MAX + 2 * SECTOR {
            return Err(Bad);
        }
        let mut start = [0; HEAD];
        take(memory, &mut out, &mut start)?;
        let last = into.iter_mut().rev().find(|part| part.len > 0).ok_or(Bad)?;
        last.len -= 1;
        Ok(Self {
            head,
            want: u32_at(&start, 0),
            sector: u64_at(&start, 8),
            status: last.address.checked_add(last.len.into()).ok_or(Bad)?,
            out,
            into,
        })
    }

    /// Bytes charged to the budget until the request is answered.
    pub(crate) fn holds(&self) -> u64 {
        let parts = [&self.out, &self.into].map(|parts| {
            let bytes = parts.iter().map(|part| u64::from(part.len)).sum::<u64>();
            bytes + (parts.len() * size_of::<Descriptor>()) as u64
        });
        COST + parts.iter().sum::<u64>()
    }

    /// Executes the request. Returns the bytes written to the machine's memory, status included,
    /// or `None` if the drive has lost its power. With `through`, changes are durable before the
    /// answer.
    pub(crate) async fn carry_out(
        &self,
        device: &Device,
        memory: &Rc<Memory>,
        through: bool,
    ) -> Option<u32> {
        let mut acted = self.act(device, memory).await;
        let changes = matches!(self.want, want::OUT | want::DISCARD | want::WRITE_ZEROES);
        if through && changes && acted.is_ok() {
            let flushed = device.flush().await;
            acted = flushed.map_err(Failed::from).and(acted);
        }
        let (status, written) = match acted {
            Ok(written) => (Status::Ok, written),
            Err(Failed::So(status)) => (status, 0),
            Err(Failed::Lost) => return None,
        };
        // If the status byte is outside shared memory, the machine gets no status.
        let _ = memory.write(self.status, &[status as u8]);
        Some(written + 1)
    }

    async fn act(&self, device: &Device, memory: &Rc<Memory>) -> Result<u32, Failed> {
        let len = |parts: &[Descriptor]| parts.iter().map(|part| u64::from(part.len)).sum::<u64>();
        let at = self
            .sector
            .checked_mul(SECTOR)
            .ok_or(Failed::So(Status::Failed))?;
        match self.want {
            want::IN => {
                let bytes = device.read(at, len(&self.into) as usize).await;
                self.give(memory, &bytes.map_err(Failed::from)?)
            }
            want::OUT => {
                let mut bytes = vec![0; len(&self.out) as usize];
                take(memory, &mut self.out.clone(), &mut bytes).map_err(Failed::from)?;
                let written = device.write(at, &bytes).await;
                written.map(|()| 0).map_err(Failed::from)
            }
            want::FLUSH => {
                let flushed = device.flush().await;
                flushed.map(|()| 0).map_err(Failed::from)
            }
            want::GET_ID => {
                let mut name = [0; NAME];
                name[..9].copy_from_slice(b"flashloom");
                let len = len(&self.into).min(NAME as u64);
                self.give(memory, &name[..len as usize])
            }
            want::DISCARD | want::WRITE_ZEROES => self.clear(device, memory).await,
            _ => Err(Failed::So(Status::Unknown)),
        }
    }

    /// Executes a discard or write-zeroes request of one range.
    async fn clear(&self, device: &Device, memory: &Rc<Memory>) -> Result<u32, Failed> {
        let mut range = [0; RANGE];
        take(memory, &mut self.out.clone(), &mut range).map_err(Failed::from)?;
        let (sector, count, flags) = (u64_at(&range, 0), u32_at(&range, 8), u32_at(&range, 12));
        let may_unmap = self.want == want::WRITE_ZEROES && flags == UNMAP;
        if count > ZEROS_MAX {
            return Err(Failed::So(Status::Failed));
        }
        if flags != 0 && !may_unmap {
            return Err(Failed::So(Status::Unknown));
        }
        let at = sector
            .checked_mul(SECTOR)
            .ok_or(Failed::So(Status::Failed))?;
        let len = u64::from(count) * SECTOR;
        let done = match (self.want, may_unmap) {
            (want::DISCARD, _) => device.discard(at, len).await,
            (_, true) => device.zero(at, len).await,
            (_, false) => device.write_zeros(at, len).await,
        };
        done.map(|()| 0).map_err(Failed::from)
    }

    /// Copies `bytes` into the machine's buffers; returns their number.
    fn give(&self, memory: &Memory, mut bytes: &[u8]) -> Result<u32, Failed> {
        let all = bytes.len() as u32;
        for part in &self.into {
            let (now, later) = bytes.split_at(bytes.len().min(part.len as usize));
            memory.write(part.address, now).map_err(Failed::from)?;
            bytes = later;
        }
        Ok(all)
    }
}

/// Fills `bytes` from the front of `parts`, and advances `parts` past them.
fn take(memory: &Memory, parts: &mut [Descriptor], mut bytes: &mut [u8]) -> Result<(), Bad> {
    for part in parts {
        let now = bytes.len().min(part.len as usize);
        let (first, rest) = bytes.split_at_mut(now);
        memory.read(part.address, first)?;
        part.address = part.address.checked_add(now as u64).ok_or(Bad)?;
        part.len -= now as u32;
        bytes = rest;
    }
    bytes.is_empty().then_some(()).ok_or(Bad)
}
