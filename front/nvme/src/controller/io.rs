//! I/O commands on logical blocks.

use super::Scope;
use super::identify::{COPY_MAX, COPY_RANGE_MAX, COPY_RANGES, EVERY};
use super::zones::commit_zone;
use crate::backend::{Backend, Manner, Span};
use crate::command::io::{Blocks, COPY_RANGE, DATASET_RANGE, Io, Writing, dataset, sources};
use crate::namespace::Namespace;
use crate::status::Status;
use crate::subsystem::TRANSFER;
use crate::token::Answer;

/// Bytes read at a time for commands without transferred data.
const CHUNK: u64 = 1 << 20;

impl<B: Backend> Scope<B> {
    pub(super) async fn io(
        &self,
        nsid: u32,
        io: Io,
        data: &[u8],
        room: usize,
    ) -> Result<Answer, Status> {
        if io == Io::Flush && nsid == EVERY {
            self.flush_all().await?;
            return Ok(Answer::default());
        }
        let namespace = self.subsystem.namespace(nsid)?;
        let backend = namespace.backend();
        match io {
            //= nvme-2.1 7.2
            Io::Flush => backend.flush().await?,
            Io::Read(blocks) => return read(namespace, blocks, room).await,
            Io::Write(blocks, how) => {
                let span = moved(namespace, blocks, data.len())?;
                let how = self.manner(namespace, how)?;
                backend.write(span.at, data, how).await?;
            }
            Io::Compare(blocks) => compare(namespace, blocks, data).await?,
            //= nvme-nvm 3.2.8
            Io::Zeroes(blocks, how) => {
                let how = self.manner(namespace, how)?;
                backend.zero(namespace.span(blocks)?, how).await?;
            }
            //= nvme-nvm 3.2.7
            Io::Uncorrectable(blocks) => {
                backend.spoil(namespace.span(blocks)?).await?;
                if !self.controller.features.borrow().caches_writes() {
                    backend.flush().await?;
                }
            }
            Io::Verify(blocks) => verify(namespace, blocks).await?,
            Io::Dataset { ranges, deallocate } => {
                let data = first_of(data, ranges * DATASET_RANGE)?;
                discard(namespace, data, deallocate).await?;
            }
            Io::Copy { ranges, to, how } => {
                let data = first_of(data, ranges * COPY_RANGE)?;
                let how = self.manner(namespace, how)?;
                copy(namespace, data, to, how).await?;
            }
            Io::ManageZone { first, action } => {
                self.manage_zone(namespace, first, action).await?;
            }
            Io::CommitZone { last } => commit_zone(namespace, last).await?,
            Io::ReportZones(report) => return self.report_zones(namespace, report),
            Io::Append(blocks, how) => return self.append(namespace, blocks, how, data).await,
            Io::ReportUnits { len } => return self.report_units(namespace, len),
            Io::RenewUnits { handles } => self.renew_units(namespace, handles, data).await?,
            bytes => return self.bytes(namespace, bytes, data, room).await,
        }
        Ok(Answer::default())
    }

    /// Options of a write. Without a write cache every write is forced.
    pub(super) fn manner(&self, namespace: &Namespace<B>, how: Writing) -> Result<Manner, Status> {
        let manner = namespace.manner(how)?;
        let cached = self.controller.features.borrow().caches_writes();
        Ok(Manner {
            forced: manner.forced || !cached,
            ..manner
        })
    }

    /// Flushes all namespaces of the subsystem, one after the other.
    pub(super) async fn flush_all(&self) -> Result<(), Status> {
        for namespace in &self.subsystem.namespaces {
            namespace.backend().flush().await?;
        }
        Ok(())
    }
}

/// First `len` bytes of `data`: Linux sends more ranges than its count names.
pub(super) fn first_of(data: &[u8], len: usize) -> Result<&[u8], Status> {
    data.get(..len).ok_or(Status::DataLengthInvalid)
}

/// `data`, which must have exactly `len` bytes.
pub(super) fn exactly(data: &[u8], len: usize) -> Result<&[u8], Status> {
    let fits = data.len() == len;
    fits.then_some(data).ok_or(Status::DataLengthInvalid)
}

/// Byte range of `blocks`; `len` bytes, which must match, are transferred.
pub(super) fn moved<B: Backend>(
    namespace: &Namespace<B>,
    blocks: Blocks,
    len: usize,
) -> Result<Span, Status> {
    let span = namespace.span(blocks)?;
    if span.len > TRANSFER as u64 {
        return Err(Status::InvalidField);
    }
    let fits = span.len == len as u64;
    fits.then_some(span).ok_or(Status::DataLengthInvalid)
}

//= nvme-nvm 3.2.4
async fn read<B: Backend>(
    namespace: &Namespace<B>,
    blocks: Blocks,
    room: usize,
) -> Result<Answer, Status> {
    let span = moved(namespace, blocks, room)?;
    let mut bytes = vec![0; span.len as usize];
    namespace.backend().read(span.at, &mut bytes).await?;
    Ok(Answer::data(bytes))
}

//= nvme-nvm 3.2.1
async fn compare<B: Backend>(
    namespace: &Namespace<B>,
    blocks: Blocks,
    data: &[u8],
) -> Result<(), Status> {
    let span = moved(namespace, blocks, data.len())?;
    let mut bytes = vec![0; data.len()];
    namespace.backend().read(span.at, &mut bytes).await?;
    let same = bytes == data;
    same.then_some(()).ok_or(Status::CompareFailure)
}

/// Reads the blocks without returning data.
//= nvme-nvm 3.2.5
async fn verify<B: Backend>(namespace: &Namespace<B>, blocks: Blocks) -> Result<(), Status> {
    let span = namespace.span(blocks)?;
    let chunk = span.len.min(CHUNK);
    let _room = namespace.backend().room(chunk).await;
    let mut bytes = vec![0; chunk as usize];
    let mut at = span.at;
    while at < span.end() {
        let len = (span.end() - at).min(CHUNK);
        let part = &mut bytes[..len as usize];
        namespace.backend().verify(at, part).await?;
        at += len;
    }
    Ok(())
}

/// Deallocates ranges, after checking that all of them are on the drive.
//= nvme-nvm 3.2.3
async fn discard<B: Backend>(
    namespace: &Namespace<B>,
    data: &[u8],
    deallocate: bool,
) -> Result<(), Status> {
    let spans: Result<Vec<Span>, Status> =
        dataset(data).map(|blocks| namespace.span(blocks)).collect();
    let spans = spans?;
    // Other attributes are hints, which are ignored.
    for span in spans.into_iter().filter(|span| deallocate && span.len > 0) {
        namespace.backend().deallocate(span).await?;
    }
    Ok(())
}

//= nvme-nvm 3.2.2
async fn copy<B: Backend>(
    namespace: &Namespace<B>,
    data: &[u8],
    to: u64,
    how: Manner,
) -> Result<(), Status> {
    let spans: Result<Vec<Span>, Status> =
        sources(data).map(|blocks| namespace.span(blocks)).collect();
    let spans = spans?;
    let sum: u64 = spans.iter().map(|span| span.len).sum();
    let too_long = spans.iter().any(|span| span.len > COPY_RANGE_MAX);
    if too_long || sum > COPY_MAX || spans.len() > COPY_RANGES {
        return Err(Status::CommandSizeLimit);
    }
    let target = namespace.span(Blocks {
        first: to,
        count: sum / namespace.block(),
    })?;
    let _room = namespace.backend().room(sum).await;
    Ok(namespace.backend().copy(&spans, target.at, how).await?)
}
