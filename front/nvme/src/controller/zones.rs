//! Zone commands: management, report, append.

use super::Scope;
use super::io::moved;
use crate::backend::Backend;
use crate::command::io::{Blocks, Report, Writing};
use crate::layout::log::zone;
use crate::namespace::Namespace;
use crate::status::Status;
use crate::subsystem::TRANSFER;
use crate::token::Answer;
use ssd::{ZoneAction, ZoneInfo, ZoneKind, ZoneState};
use units::SECTOR;

/// Code of a zone state in zone descriptors.
//= zns 3.4.2
const fn state_code(state: ZoneState) -> u8 {
    match state {
        ZoneState::Empty => 0x1,
        ZoneState::ImplicitlyOpen => 0x2,
        ZoneState::ExplicitlyOpen => 0x3,
        ZoneState::Closed => 0x4,
        ZoneState::ReadOnly => 0xd,
        ZoneState::Full => 0xe,
        ZoneState::Offline => 0xf,
    }
}

impl<B: Backend> Scope<B> {
    //= zns 3.4.3
    pub(super) async fn manage_zone(
        &self,
        namespace: &Namespace<B>,
        first: Option<u64>,
        action: Option<ZoneAction>,
    ) -> Result<(), Status> {
        namespace.shape().zones.ok_or(Status::InvalidOpcode)?;
        let action = action.ok_or(Status::InvalidField)?;
        let zone = match first {
            Some(first) => Some(namespace.zone_at(first)?),
            None => None,
        };
        Ok(namespace.backend().manage(zone, action).await?)
    }

    /// Report of the zones from the zone of a block on, as many as fit.
    //= zns 3.4.2
    pub(super) fn report_zones(
        &self,
        namespace: &Namespace<B>,
        report: Option<Report>,
    ) -> Result<Answer, Status> {
        let zones = namespace.shape().zones.ok_or(Status::InvalidOpcode)?;
        let report = report.ok_or(Status::InvalidField)?;
        if report.first >= namespace.blocks() {
            return Err(Status::LbaOutOfRange);
        }
        if report.len > TRANSFER as u64 {
            return Err(Status::InvalidField);
        }
        let block = namespace.block();
        let first = (report.first * block / (zones.size * SECTOR)) as u32;
        let infos = (first..zones.zones).filter_map(|zone| namespace.backend().zone(zone));
        let wanted = infos
            .filter(|info| matches!(report.state, 0) || state_code(info.state) == report.state);
        let mut data = vec![0; report.len as usize];
        let room = data.len().saturating_sub(zone::BYTES) / zone::BYTES;
        let (mut told, mut count) = (0, 0_u64);
        for info in wanted {
            if told < room {
                told += 1;
                put(&mut data[told * zone::BYTES..], &info, block);
            } else if report.partial {
                break;
            }
            count += 1;
        }
        // The count is first, cut if the host's buffer is shorter.
        let head = count.to_le_bytes();
        let len = head.len().min(data.len());
        data[..len].copy_from_slice(&head[..len]);
        Ok(Answer::data(data))
    }

    //= zns 3.4.1
    pub(super) async fn append(
        &self,
        namespace: &Namespace<B>,
        blocks: Blocks,
        how: Writing,
        data: &[u8],
    ) -> Result<Answer, Status> {
        let zone = namespace.zone_at(blocks.first)?;
        moved(namespace, blocks, data.len())?;
        let how = self.manner(namespace, how)?;
        let at = namespace.backend().append(zone, data, how).await?;
        Ok(Answer::result(at / namespace.block()))
    }
}

/// Commits the random write area of a zone up to and including block `last`.
//= zns 3.4.3
pub(super) async fn commit_zone<B: Backend>(
    namespace: &Namespace<B>,
    last: u64,
) -> Result<(), Status> {
    namespace.shape().zones.ok_or(Status::InvalidOpcode)?;
    let span = namespace.span(Blocks {
        first: last,
        count: 1,
    })?;
    Ok(namespace.backend().commit_zone(span.end()).await?)
}

fn put(bytes: &mut [u8], info: &ZoneInfo, block: u64) {
    let blocks = |sectors: u64| sectors * SECTOR / block;
    // The specification defines only sequential-write-required zones; a conventional zone reports
    // the reserved type 0.
    zone::KIND.put(
        bytes,
        if info.kind == ZoneKind::Sequential {
            2
        } else {
            0
        },
    );
    zone::STATE.put(bytes, state_code(info.state) << 4);
    zone::ATTRIBUTES.put(bytes, u8::from(info.random_write_area) << 3);
    zone::CAPACITY.put(bytes, blocks(info.capacity));
    zone::START.put(bytes, blocks(info.start.0));
    let pointer = info.write_pointer.map(|pointer| blocks(pointer.0));
    zone::POINTER.put(bytes, pointer.unwrap_or(u64::MAX));
}
