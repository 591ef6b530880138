//! Log pages, and events that their changes cause.

use super::events::Event;
use super::identify::{EVERY, SET_BLOCKS, SET_ZONES, SPARE_LOW};
use super::{Kind, Scope, Way};
use crate::backend::Backend;
use crate::command::admin::{Feature, GetLog};
use crate::entry::Entry;
use crate::layout::log::{endurance, error, firmware, sanitize, smart};
use crate::layout::{padded, wide};
use crate::namespace::Namespace;
use crate::status::Status;
use crate::subsystem::TRANSFER;
use crate::token::Answer;
use ssd::Health;
use std::collections::VecDeque;

/// Entries of the error log.
pub(super) const ERRORS: usize = 64;
/// Identifier of the SMART / Health page.
pub(super) const HEALTH: u64 = 0x02;
/// Identifier of the Changed Namespace List.
pub(super) const CHANGED_NAMESPACES: u64 = 0x04;
/// Identifier of the Changed Zone List.
const CHANGED_ZONES: u8 = 0xbf;
/// Identifiers of the pages that every subsystem supports.
const PAGES: [u8; 9] = [
    0x00,
    0x01,
    0x02,
    0x03,
    CHANGED_NAMESPACES as u8,
    0x05,
    0x09,
    0x12,
    0x81,
];
/// Identifiers of the FDP pages.
const FDP_PAGES: [u8; 4] = [0x20, 0x21, 0x22, 0x23];
/// Size in bytes of a page with one dword for each 8-bit identifier.
const TABLE_BYTES: usize = 1024;
/// Size in bytes of a namespace list, or of a zone list.
const LIST_BYTES: usize = 4096;
/// Reported temperature in kelvin: constantly 40 °C, since heat is not modelled.
const TEMPERATURE: u16 = 313;

/// Error log: the newest entries and the total count.
#[derive(Default)]
pub(crate) struct Errors {
    count: u64,
    /// Entries of the log, newest first.
    entries: VecDeque<[u8; error::BYTES]>,
}

impl Errors {
    /// Adds an entry for a failed command.
    //= nvme-2.1 5.1.12.1.2
    pub(super) fn note(&mut self, way: Way, queue: u16, entry: &Entry, status: Status) {
        self.count += 1;
        let mut bytes = [0; error::BYTES];
        error::COUNT.put(&mut bytes, self.count);
        error::SQID.put(&mut bytes, queue);
        error::CID.put(&mut bytes, entry.cid());
        error::STATUS.put(&mut bytes, status.field());
        // The location of the faulty field is not reported.
        error::PEL.put(&mut bytes, u16::MAX);
        if queue > 0 {
            error::LBA.put(&mut bytes, entry.address());
        }
        error::NSID.put(&mut bytes, entry.nsid());
        // TCP; PCIe has no transport type.
        error::TRTYPE.put(&mut bytes, if way == Way::Bus { 0 } else { 3 });
        self.entries.truncate(ERRORS - 1);
        self.entries.push_front(bytes);
    }

    fn page(&self) -> Vec<u8> {
        let mut page = self.entries.iter().flatten().copied().collect::<Vec<u8>>();
        page.resize(ERRORS * error::BYTES, 0);
        page
    }
}

/// Requested part of `page`; zeros beyond its end.
pub(super) fn part(page: &[u8], log: &GetLog) -> Result<Answer, Status> {
    if log.len > TRANSFER as u64 || !log.offset.is_multiple_of(4) || log.offset > page.len() as u64
    {
        return Err(Status::InvalidField);
    }
    let rest = &page[log.offset as usize..];
    let mut data = rest[..rest.len().min(log.len as usize)].to_vec();
    data.resize(log.len as usize, 0);
    Ok(Answer::data(data))
}

/// A table of dwords, zero for identifiers that are not listed.
pub(super) fn table(entries: impl Iterator<Item = (u8, u32)>) -> Vec<u8> {
    let mut page = vec![0; TABLE_BYTES];
    for (number, value) in entries {
        let at = usize::from(number) * 4;
        page[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    page
}

impl<B: Backend> Scope<B> {
    //= nvme-2.1 5.1.12
    pub(super) fn log(&self, log: GetLog) -> Result<Answer, Status> {
        let page = match log.page {
            // Every page is supported.
            0x00 => table(self.pages().map(|page| (page, 1))),
            0x01 => self.controller.errors.borrow().page(),
            page if u64::from(page) == HEALTH => self.health(log.nsid, log.retain_event)?,
            0x03 => firmware_page(),
            page if u64::from(page) == CHANGED_NAMESPACES => self.changed(log.retain_event),
            0x05 => self.effects(log.set)?,
            0x09 => self.group(log.identifier)?,
            0x12 => table(Feature::ALL.into_iter().map(feature_effects)),
            0x20 => self.fdp_configuration(log.identifier)?,
            0x21 => self.fdp_usage(log.identifier)?,
            0x22 => self.fdp_statistics(log.identifier)?,
            0x23 => self.fdp_event_page(log.identifier, log.specific & 1 == 1)?,
            0x81 => self.sanitize_page(),
            // Zone states change only by commands, so the list is empty.
            CHANGED_ZONES => self.changed_zones(log.nsid)?,
            _ => return Err(Status::InvalidLogPage),
        };
        part(&page, &log)
    }

    /// Health of one namespace, or of all.
    //= nvme-2.1 5.1.12.1.3
    fn health(&self, nsid: u32, retain: bool) -> Result<Vec<u8>, Status> {
        let mut page = vec![0; smart::BYTES];
        let p = &mut page;
        let namespaces: Vec<_> = match nsid {
            0 | EVERY => self.subsystem.namespaces.iter().collect(),
            _ => vec![self.subsystem.namespace(nsid)?],
        };
        let wear = Wear::of(&namespaces);
        smart::CRITICAL.put(p, wear.critical());
        smart::GROUP_CRITICAL.put(p, wear.critical() & 0b1001);
        smart::TEMPERATURE.put(p, TEMPERATURE);
        smart::SPARE.put(p, wear.spare);
        smart::SPARE_THRESHOLD.put(p, SPARE_LOW);
        smart::USED.put(p, wear.used);
        let sum = |of: fn(&Health) -> u64| wide(wear.healths.iter().map(of).sum());
        // In thousands of 512-byte sectors, rounded up.
        smart::READ.put(p, sum(|h| h.host_read_bytes.div_ceil(512_000)));
        smart::WRITTEN.put(p, sum(|h| h.host_write_bytes.div_ceil(512_000)));
        smart::READ_COMMANDS.put(p, sum(|h| h.read_commands));
        smart::WRITE_COMMANDS.put(p, sum(|h| h.write_commands));
        smart::POWER_CYCLES.put(p, sum(|h| h.power_cycles));
        smart::UNSAFE_SHUTDOWNS.put(p, sum(|h| h.unsafe_shutdowns));
        smart::MEDIA_ERRORS.put(p, sum(|h| h.media_errors));
        smart::ERRORS.put(p, wide(self.controller.errors.borrow().count));
        if !retain {
            let mut events = self.controller.events.borrow_mut();
            events.looked(Event::ReadOnly);
        }
        Ok(page)
    }

    /// Namespaces changed since the page was last read.
    //= nvme-2.1 5.1.12.1.5
    fn changed(&self, retain: bool) -> Vec<u8> {
        let mut events = self.controller.events.borrow_mut();
        let numbers = events.changed.iter().flat_map(|nsid| nsid.to_le_bytes());
        let mut page: Vec<u8> = numbers.collect();
        page.resize(LIST_BYTES, 0);
        if !retain {
            events.changed.clear();
            events.looked(Event::NamespaceChanged);
        }
        page
    }

    //= zns 4.1.4
    fn changed_zones(&self, nsid: u32) -> Result<Vec<u8>, Status> {
        let namespace = self.subsystem.namespace(nsid)?;
        let zones = namespace.shape().zones;
        zones
            .map(|_| vec![0; LIST_BYTES])
            .ok_or(Status::InvalidLogPage)
    }

    /// Endurance Group Information: each namespace is a group.
    //= nvme-2.1 5.1.12.1.10
    fn group(&self, group: u16) -> Result<Vec<u8>, Status> {
        let namespace = self.subsystem.namespace(group.into());
        let namespace = namespace.map_err(|_| Status::InvalidField)?;
        let wear = Wear::of(&[namespace]);
        let mut page = vec![0; endurance::BYTES];
        let p = &mut page;
        endurance::CRITICAL.put(p, wear.critical() & 0b1001);
        endurance::SPARE.put(p, wear.spare);
        endurance::SPARE_THRESHOLD.put(p, SPARE_LOW);
        endurance::USED.put(p, wear.used);
        let sum = |of: fn(&Health) -> u64| wide(wear.healths.iter().map(of).sum());
        // In billions of bytes, rounded up.
        endurance::READ.put(p, sum(|h| h.host_read_bytes.div_ceil(1_000_000_000)));
        endurance::WRITTEN.put(p, sum(|h| h.host_write_bytes.div_ceil(1_000_000_000)));
        endurance::MEDIA_WRITTEN.put(p, sum(|h| h.programmed_bytes.div_ceil(1_000_000_000)));
        endurance::READ_COMMANDS.put(p, sum(|h| h.read_commands));
        endurance::WRITE_COMMANDS.put(p, sum(|h| h.write_commands));
        endurance::MEDIA_ERRORS.put(p, sum(|h| h.media_errors));
        endurance::CAPACITY.put(p, wide(namespace.shape().capacity));
        Ok(page)
    }

    //= nvme-2.1 5.1.12.1.33
    fn sanitize_page(&self) -> Vec<u8> {
        let mut page = vec![0; sanitize::BYTES];
        let done = self.subsystem.sanitized.get();
        sanitize::PROGRESS.put(&mut page, u16::MAX);
        // The last sanitize completed, if there was one.
        sanitize::STATUS.put(&mut page, u16::from(done));
        sanitize::COMMAND.put(&mut page, if done { 2 } else { 0 });
        page
    }
}

/// Combined wear of namespaces.
struct Wear {
    healths: Vec<Health>,
    /// Available spare in percent, of the worst namespace.
    spare: u8,
    /// Percentage used of the rated cycles, of the worst namespace.
    used: u8,
    /// Whether any namespace is read-only.
    read_only: bool,
}

impl Wear {
    fn of<B: Backend>(namespaces: &[&Namespace<B>]) -> Self {
        let (mut healths, mut spare, mut used) = (Vec::new(), 100, 0);
        let mut read_only = false;
        for (number, namespace) in namespaces.iter().enumerate() {
            read_only |= namespace.backend().is_read_only();
            // Health shared by several namespaces counts once.
            if number > 0 && namespace.backend().shares_health() {
                continue;
            }
            let Some(health) = namespace.backend().health() else {
                continue;
            };
            let blocks = namespace.shape().spare_blocks;
            let left = blocks.saturating_sub(health.bad_blocks) * 100;
            spare = spare.min(left.checked_div(blocks).unwrap_or(100) as u8);
            used = used.max(health.percentage_used.min(255.0) as u8);
            healths.push(health);
        }
        Self {
            healths,
            spare,
            used,
            read_only,
        }
    }

    /// Critical warning. Bit 0: spare below the threshold. Bit 3: read-only.
    //= nvme-2.1 5.1.12.1.3
    fn critical(&self) -> u8 {
        u8::from(self.spare < SPARE_LOW) | u8::from(self.read_only) << 3
    }
}

//= nvme-2.1 5.1.12.1.4
fn firmware_page() -> Vec<u8> {
    let mut page = vec![0; firmware::BYTES];
    firmware::ACTIVE.put(&mut page, 1);
    firmware::SLOT.put(&mut page, padded(env!("CARGO_PKG_VERSION")));
    page
}

/// The command is supported.
const SUPPORTED: u32 = 1;
/// The command changes logical blocks.
const CHANGES_BLOCKS: u32 = 1 << 1;
/// The command changes namespace capabilities.
const CHANGES_NAMESPACE: u32 = 1 << 2;
/// No other command may run in the namespace.
const ALONE: u32 = 1 << 16;
/// No other command may run at all.
const ALL_ALONE: u32 = 2 << 16;

const ADMIN_EFFECTS: [(u8, u32); 11] = [
    (0x02, SUPPORTED),
    (0x06, SUPPORTED),
    (0x08, SUPPORTED),
    (0x09, SUPPORTED),
    (0x0a, SUPPORTED),
    (0x0c, SUPPORTED),
    (0x18, SUPPORTED),
    (0x19, SUPPORTED),
    (0x1a, SUPPORTED),
    (0x80, SUPPORTED | CHANGES_BLOCKS | CHANGES_NAMESPACE | ALONE),
    (0x84, SUPPORTED | CHANGES_BLOCKS | ALL_ALONE),
];

/// Effects of the PCIe queue commands.
const QUEUE_EFFECTS: [(u8, u32); 4] = [
    (0x00, SUPPORTED),
    (0x01, SUPPORTED),
    (0x04, SUPPORTED),
    (0x05, SUPPORTED),
];

const IO_EFFECTS: [(u8, u32); 8] = [
    (0x00, SUPPORTED),
    (0x01, SUPPORTED | CHANGES_BLOCKS),
    (0x02, SUPPORTED),
    (0x05, SUPPORTED),
    (0x08, SUPPORTED | CHANGES_BLOCKS),
    (0x09, SUPPORTED | CHANGES_BLOCKS),
    (0x0c, SUPPORTED),
    (0x19, SUPPORTED | CHANGES_BLOCKS),
];

/// Effect of Write Uncorrectable, which zoned namespaces lack.
const SPOIL_EFFECT: (u8, u32) = (0x04, SUPPORTED | CHANGES_BLOCKS);

const FDP_EFFECTS: [(u8, u32); 2] = [(0x12, SUPPORTED), (0x1d, SUPPORTED)];

const BYTE_EFFECTS: [(u8, u32); 4] = [
    (0x81, SUPPORTED | CHANGES_BLOCKS),
    (0x82, SUPPORTED),
    (0x84, SUPPORTED | CHANGES_BLOCKS),
    (0x88, SUPPORTED | CHANGES_BLOCKS),
];

const ZONE_EFFECTS: [(u8, u32); 3] = [
    (0x79, SUPPORTED | CHANGES_BLOCKS),
    (0x7a, SUPPORTED),
    (0x7d, SUPPORTED | CHANGES_BLOCKS),
];

/// Effects of Set Features: supported, and the scope.
//= nvme-2.1 5.1.12.1.18
fn feature_effects(feature: Feature) -> (u8, u32) {
    /// Scope bit: the feature applies to the controller.
    const CONTROLLER: u32 = 1 << 21;
    /// Scope bit: the feature applies to the endurance group.
    const GROUP: u32 = 1 << 23;
    let scope = match feature {
        Feature::Fdp | Feature::FdpEvents | Feature::EnduranceEvents => GROUP,
        _ => CONTROLLER,
    };
    (feature.id(), SUPPORTED | scope)
}

impl<B: Backend> Scope<B> {
    /// Identifiers of the supported pages.
    fn pages(&self) -> impl Iterator<Item = u8> {
        let placement = FDP_PAGES.into_iter().filter(|_| self.has_fdp());
        let zones = [CHANGED_ZONES].into_iter().filter(|_| self.has_zones());
        PAGES.into_iter().chain(placement).chain(zones)
    }

    /// Commands Supported and Effects: admin commands, then those of the command set.
    //= nvme-2.1 5.1.12.1.6
    fn effects(&self, set: u8) -> Result<Vec<u8>, Status> {
        if !matches!(set, SET_BLOCKS | SET_ZONES) {
            return Err(Status::InvalidField);
        }
        let zones = ZONE_EFFECTS
            .iter()
            .filter(|_| set == SET_ZONES && self.has_zones());
        let placement = FDP_EFFECTS.iter().filter(|_| self.has_fdp());
        let bytes = BYTE_EFFECTS.iter().filter(|_| self.has_bytes());
        let spoil = [&SPOIL_EFFECT].into_iter();
        let spoil = spoil.filter(|_| set == SET_BLOCKS && self.can_spoil());
        let io = IO_EFFECTS.iter().chain(placement).chain(bytes);
        let io = io.chain(zones).chain(spoil);
        let on_bus = self.controller.way == Way::Bus;
        let queues = QUEUE_EFFECTS.into_iter().filter(|_| on_bus);
        let mut page = table(ADMIN_EFFECTS.into_iter().chain(queues));
        page.extend(table(io.copied()));
        page.resize(LIST_BYTES, 0);
        Ok(page)
    }

    /// Reports the read-only event to every controller.
    //= nvme-2.1 5.1.2
    pub(super) fn tell_read_only(&self) {
        for controller in self.subsystem.controllers() {
            let mut events = controller.events.borrow_mut();
            let wanted = controller.features.borrow().events();
            events.happened(Event::ReadOnly, wanted);
        }
    }

    /// Reports a changed namespace to every other controller.
    pub(super) fn tell_changed(&self, nsid: u32) {
        for other in self.subsystem.controllers() {
            if other.id == self.controller.id || other.kind != Kind::Io {
                continue;
            }
            let mut events = other.events.borrow_mut();
            events.changed.insert(nsid);
            events.happened(Event::NamespaceChanged, other.features.borrow().events());
        }
    }
}
