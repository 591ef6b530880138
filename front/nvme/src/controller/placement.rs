//! Data placement: streams and placement handles (FDP).

use super::Scope;
use super::identify::EVERY;
use super::io::first_of;
use crate::backend::{Backend, Placements};
use crate::command::admin::{Directive, GetFeature};
use crate::command::io::{PLACEMENT, placements};
use crate::layout::log::{event, placements as config, statistics, unit};
use crate::layout::wide;
use crate::namespace::{Namespace, group_bits, known_placement, placement_id};
use crate::status::Status;
use crate::subsystem::TRANSFER;
use crate::token::Answer;
use ssd::{FdpEvent, FdpEventKind};

/// Directive types in Directive Send and Receive commands.
//= nvme-2.1 8.1.8
const IDENTIFY: u8 = 0;
const STREAMS: u8 = 1;
const DATA_PLACEMENT: u8 = 2;
/// Size in bytes of the Identify directive's data.
const IDENTIFY_BYTES: usize = 4096;

/// Placement handles of a namespace with flexible data placement.
struct Handles {
    groups: u16,
    handles: u16,
    isolated: bool,
    unit: u64,
}

impl Handles {
    fn of<B: Backend>(namespace: &Namespace<B>) -> Result<Self, Status> {
        match namespace.shape().placements {
            Placements::Fdp {
                groups,
                handles,
                isolated,
                unit,
            } => Ok(Self {
                groups,
                handles,
                isolated,
                unit,
            }),
            _ => Err(Status::FdpDisabled),
        }
    }

    fn count(&self) -> u16 {
        self.groups * self.handles
    }

    fn id(&self, placement: u16) -> u16 {
        placement_id(placement, self.groups, self.handles)
    }
}

impl<B: Backend> Scope<B> {
    //= nvme-2.1 5.1.6
    pub(super) fn directive_receive(&self, directive: Directive) -> Result<Answer, Status> {
        let namespace = self.subsystem.namespace(directive.nsid)?;
        let len = directive.len.min(TRANSFER as u64) as usize;
        let mut data = match (directive.kind, directive.operation) {
            (IDENTIFY, 1) => directives(namespace),
            //= nvme-2.1 8.1.8.3
            (STREAMS, 1) => stream_parameters(namespace)?,
            (STREAMS, 2) => {
                let streams = namespace.streams.borrow();
                let count = [streams.len() as u16].into_iter();
                let words = count.chain(streams.keys().copied());
                words.flat_map(u16::to_le_bytes).collect()
            }
            // Writes open streams; up to all supported ones may be allocated.
            (STREAMS, 3) => {
                let open = streams(namespace)?.min(directive.value as u16);
                return Ok(Answer::result(open.into()));
            }
            _ => return Err(Status::InvalidField),
        };
        data.resize(len, 0);
        Ok(Answer::data(data))
    }

    //= nvme-2.1 5.1.7
    pub(super) fn directive_send(&self, directive: Directive) -> Result<Answer, Status> {
        let namespaces = match directive.nsid {
            EVERY => self.subsystem.namespaces.iter().collect(),
            nsid => vec![self.subsystem.namespace(nsid)?],
        };
        let word = directive.value;
        for namespace in namespaces {
            match (directive.kind, directive.operation) {
                // Supported directives are always enabled.
                (IDENTIFY, 1) if word & 1 == 1 => {
                    let kind = (word >> 8) as u8;
                    let (wanted, all) = (1_u32 << (kind & 31), enabled(namespace));
                    if wanted & all == 0 {
                        return Err(Status::InvalidField);
                    }
                }
                (STREAMS, 1) => {
                    streams(namespace)?;
                    namespace.streams.borrow_mut().remove(&directive.specific);
                }
                (STREAMS, 2) => {
                    streams(namespace)?;
                    namespace.streams.borrow_mut().clear();
                }
                _ => return Err(Status::InvalidField),
            }
        }
        Ok(Answer::default())
    }

    /// Reports the reclaim unit of each handle.
    //= nvme-2.1 7.3
    pub(super) fn report_units(
        &self,
        namespace: &Namespace<B>,
        len: u64,
    ) -> Result<Answer, Status> {
        let handles = Handles::of(namespace)?;
        if len > TRANSFER as u64 {
            return Err(Status::InvalidField);
        }
        let mut data = vec![0; unit::HEADER_BYTES];
        unit::COUNT.put(&mut data, handles.count());
        for placement in 0..handles.count() {
            let mut bytes = [0; unit::BYTES];
            unit::PLACEMENT.put(&mut bytes, handles.id(placement));
            unit::HANDLE.put(&mut bytes, placement % handles.handles);
            let left = namespace.backend().writable_in_unit(placement);
            let left = left.unwrap_or(handles.unit);
            unit::WRITABLE.put(&mut bytes, left / namespace.block());
            data.extend(bytes);
        }
        data.resize(len as usize, 0);
        Ok(Answer::data(data))
    }

    //= nvme-2.1 7.4
    pub(super) async fn renew_units(
        &self,
        namespace: &Namespace<B>,
        count: usize,
        data: &[u8],
    ) -> Result<(), Status> {
        let handles = Handles::of(namespace)?;
        let data = first_of(data, count * PLACEMENT)?;
        let known = |id| known_placement(id, handles.groups, handles.handles);
        let found: Option<Vec<u16>> = placements(data).map(known).collect();
        let found = found.ok_or(Status::InvalidPlacementHandles)?;
        for placement in found {
            namespace.backend().renew_unit(placement).await?;
        }
        Ok(())
    }

    fn fdp_namespace(&self, group: u16) -> Result<(&Namespace<B>, Handles), Status> {
        let nsid = self.fdp_group(group)?;
        let namespace = self.subsystem.namespace(nsid)?;
        Ok((namespace, Handles::of(namespace)?))
    }

    /// The only FDP configuration.
    //= nvme-2.1 5.1.12.1.28
    pub(super) fn fdp_configuration(&self, group: u16) -> Result<Vec<u8>, Status> {
        let (_, handles) = self.fdp_namespace(group)?;
        let count = usize::from(handles.handles);
        let size = config::HANDLES_AT + count * config::HANDLE_BYTES;
        let mut page = vec![0; size.next_multiple_of(8)];
        let p = &mut page;
        let whole = p.len();
        config::SIZE.put(p, whole as u32);
        config::CONFIG_SIZE.put(p, (whole - 16) as u16);
        // Valid; number of bits of the reclaim group identifier.
        config::ATTRIBUTES.put(p, 1 << 7 | group_bits(handles.groups) as u8);
        config::GROUPS.put(p, handles.groups.into());
        config::HANDLES.put(p, handles.handles);
        config::MOST_PLACEMENTS.put(p, handles.count() - 1);
        config::NAMESPACES.put(p, 1);
        config::UNIT.put(p, handles.unit);
        let kind = if handles.isolated { 2 } else { 1 };
        for handle in 0..count {
            p[config::HANDLES_AT + handle * config::HANDLE_BYTES] = kind;
        }
        Ok(page)
    }

    /// Usage page: every handle is host specified.
    //= nvme-2.1 5.1.12.1.29
    pub(super) fn fdp_usage(&self, group: u16) -> Result<Vec<u8>, Status> {
        let (_, handles) = self.fdp_namespace(group)?;
        let mut page = vec![0; 8 + 8 * usize::from(handles.handles)];
        page[..2].copy_from_slice(&handles.handles.to_le_bytes());
        page[8..].iter_mut().step_by(8).for_each(|kind| *kind = 1);
        Ok(page)
    }

    //= nvme-2.1 5.1.12.1.30
    pub(super) fn fdp_statistics(&self, group: u16) -> Result<Vec<u8>, Status> {
        let (namespace, _) = self.fdp_namespace(group)?;
        let log = namespace.backend().fdp().ok_or(Status::InvalidField)?;
        let mut page = vec![0; statistics::BYTES];
        statistics::HOST_WRITTEN.put(&mut page, wide(log.host_bytes_written.0));
        statistics::MEDIA_WRITTEN.put(&mut page, wide(log.media_bytes_written.0));
        statistics::MEDIA_ERASED.put(&mut page, wide(log.media_bytes_erased.0));
        Ok(page)
    }

    /// Page of FDP events, caused by the host or else by the controller.
    //= nvme-2.1 5.1.12.1.31
    pub(super) fn fdp_event_page(&self, group: u16, of_host: bool) -> Result<Vec<u8>, Status> {
        let (namespace, handles) = self.fdp_namespace(group)?;
        let log = namespace.backend().fdp().ok_or(Status::InvalidField)?;
        let events = if of_host { log.host } else { log.controller };
        let mut page = vec![0; event::BYTES];
        page[..4].copy_from_slice(&(events.events.len() as u32).to_le_bytes());
        let block = namespace.block();
        for happened in &events.events {
            page.extend(entry(happened, &handles, group, block));
        }
        Ok(page)
    }

    /// Events recorded for a handle: always all.
    //= nvme-2.1 5.1.25.1.21
    pub(super) fn fdp_events(&self, get: GetFeature) -> Result<Answer, Status> {
        let namespace = self.subsystem.namespace(get.nsid)?;
        Handles::of(namespace)?;
        let kinds = [
            FdpEventKind::NotFullyWritten,
            FdpEventKind::InvalidPlacement,
            FdpEventKind::MediaReallocated,
            FdpEventKind::ImplicitlyModified,
        ];
        let data = kinds.iter().flat_map(|kind| [kind.code(), 1]).collect();
        Ok(Answer {
            result: kinds.len() as u64,
            data,
            ..Answer::default()
        })
    }
}

/// Encodes an FDP event.
fn entry(happened: &FdpEvent, handles: &Handles, group: u16, block: u64) -> [u8; event::BYTES] {
    let mut bytes = [0; event::BYTES];
    event::KIND.put(&mut bytes, happened.kind.code());
    // Placement identifier, namespace and location are valid.
    event::FLAGS.put(&mut bytes, 0b111);
    let known = happened.placement.0 < handles.count();
    let id = known.then(|| handles.id(happened.placement.0));
    event::PLACEMENT.put(&mut bytes, id.unwrap_or(happened.placement.0));
    event::TIME.put(&mut bytes, happened.at.0 / 1_000_000);
    event::NSID.put(&mut bytes, group.into());
    if let Some(page) = happened.page {
        // One LBA of the relocated data is given.
        event::SPECIFIC_FLAGS.put(&mut bytes, 1);
        event::LBA.put(&mut bytes, u64::from(page) * 4096 / block);
    }
    let moved = u64::from(happened.moved_pages) * 4096 / block;
    event::MOVED_BLOCKS.put(&mut bytes, moved.min(u16::MAX.into()) as u16);
    event::GROUP.put(&mut bytes, happened.group as u16);
    event::HANDLE.put(&mut bytes, happened.handle as u16);
    bytes
}

/// Bit mask of the directives that a namespace supports.
fn enabled<B: Backend>(namespace: &Namespace<B>) -> u32 {
    1 << IDENTIFY
        | match namespace.shape().placements {
            Placements::None => 0,
            Placements::Streams(_) => 1 << STREAMS,
            Placements::Fdp { .. } => 1 << DATA_PLACEMENT,
        }
}

/// Supported and enabled directives, which are equal.
fn directives<B: Backend>(namespace: &Namespace<B>) -> Vec<u8> {
    let mut data = vec![0; IDENTIFY_BYTES];
    let bits = enabled(namespace).to_le_bytes();
    data[..4].copy_from_slice(&bits);
    data[32..36].copy_from_slice(&bits);
    data
}

fn streams<B: Backend>(namespace: &Namespace<B>) -> Result<u16, Status> {
    match namespace.shape().placements {
        Placements::Streams(most) => Ok(most),
        _ => Err(Status::InvalidField),
    }
}

//= nvme-2.1 8.1.8.3
fn stream_parameters<B: Backend>(namespace: &Namespace<B>) -> Result<Vec<u8>, Status> {
    let most = streams(namespace)?;
    let open = namespace.streams.borrow().len() as u16;
    let mut data = vec![0; 32];
    // Per subsystem: maximum, available and open streams. Per namespace: sizes, allocated and open
    // streams.
    for (at, value) in [
        (0, most),
        (2, most - open),
        (4, open),
        (22, most),
        (24, open),
    ] {
        data[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    data[16..20].copy_from_slice(&1_u32.to_le_bytes());
    data[20..22].copy_from_slice(&1_u16.to_le_bytes());
    Ok(data)
}
