//! Identify data structures.

use super::{Scope, VERSION, Way, events, features};
use crate::backend::{Backend, Placements};
use crate::command::admin::Identify;
use crate::layout::identify::{IDENTIFY_BYTES, controller, independent, namespace, set, zoned};
use crate::layout::{ended, padded, wide};
use crate::namespace::{FORMATS, Namespace};
use crate::status::Status;
use crate::subsystem::{ENTRIES, TRANSFER_POWER};
use crate::token::Answer;
use units::SECTOR;

/// Identifier of the NVM command set.
pub(super) const SET_BLOCKS: u8 = 0;
/// Identifier of the Zoned Namespace command set.
pub(super) const SET_ZONES: u8 = 2;
/// Namespace identifier that addresses all namespaces.
pub(super) const EVERY: u32 = u32::MAX;

/// Largest in-capsule data in bytes.
//= nvme-tcp 3
pub(crate) const INLINE_BYTES: usize = 8192;

/// Longest source range of Copy, in bytes.
pub(super) const COPY_RANGE_MAX: u64 = 1 << 20;
/// Most bytes that one Copy moves.
pub(super) const COPY_MAX: u64 = 4 << 20;
/// Most source ranges of one Copy.
pub(super) const COPY_RANGES: usize = 128;

/// Available spare threshold in percent. Our choice.
pub(super) const SPARE_LOW: u8 = 10;

type Page = Vec<u8>;

fn page() -> Page {
    vec![0; IDENTIFY_BYTES]
}

/// A list of encoded identifiers, cut at the end of the page.
fn list<const N: usize>(numbers: impl Iterator<Item = [u8; N]>) -> Page {
    let mut page = page();
    for (to, number) in page.chunks_exact_mut(N).zip(numbers) {
        to.copy_from_slice(&number);
    }
    page
}

impl<B: Backend> Scope<B> {
    //= nvme-2.1 5.1.13
    pub(super) fn identify(&self, identify: Identify) -> Result<Answer, Status> {
        let Identify { nsid, set, .. } = identify;
        let page = match identify.cns {
            0x00 => self.namespace_page(nsid)?,
            0x01 => self.controller_page(),
            0x02 | 0x10 => self.namespaces_after(nsid, |_| true)?,
            0x03 => self.descriptors(nsid)?,
            0x05 => self.set_namespace_page(nsid, set)?,
            0x06 => set_page(set)?,
            0x07 | 0x1a => self.namespaces_after(nsid, |own| own == set)?,
            0x08 => self.independent_page(nsid)?,
            0x11 => self.namespace_page(nsid)?,
            0x12 => {
                self.subsystem.namespace(nsid)?;
                self.controllers_from(identify.controller)
            }
            0x13 => self.controllers_from(identify.controller),
            0x19 => self.groups_after(identify.controller),
            //= nvme-2.1 5.1.13.2.19
            0x1c => list([(1_u64 << SET_BLOCKS | 1 << SET_ZONES).to_le_bytes()].into_iter()),
            _ => return Err(Status::InvalidField),
        };
        Ok(Answer::data(page))
    }

    //= nvme-2.1 5.1.13.2.1
    pub(super) fn controller_page(&self) -> Page {
        use controller as field;
        let (mut page, identity) = (self.controller_head(), &self.subsystem.identity);
        let p = &mut page;
        field::RAB.put(p, 6);
        // Several ports and controllers are possible.
        field::CMIC.put(p, 0b11);
        field::OAES.put(p, events::NOTICES);
        field::CTRATT.put(p, self.attributes());
        field::CNTRLTYPE.put(p, 1);
        field::OACS.put(p, 1 << 1 | u16::from(self.has_streams()) << 5);
        field::ACL.put(p, 3);
        // One firmware slot, read-only.
        field::FRMW.put(p, 0b11);
        // Per-namespace SMART page, command effects, log page offsets, supported pages.
        field::LPA.put(p, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 5);
        field::WCTEMP.put(p, features::HOT);
        field::CCTEMP.put(p, features::HOT + 10);
        let capacity = self.namespaces().map(|n| n.shape().capacity).sum();
        field::TNVMCAP.put(p, wide(capacity));
        // Block erase sanitize.
        field::SANICAP.put(p, 1 << 1);
        field::ENDGIDMAX.put(p, self.subsystem.namespaces.len() as u16);
        field::SQES.put(p, 0x66);
        field::CQES.put(p, 0x44);
        field::NN.put(p, self.subsystem.namespaces.len() as u32);
        field::MNAN.put(p, self.subsystem.namespaces.len() as u32);
        // Compare, Write Uncorrectable, deallocate, Write Zeroes, feature select, Verify, Copy.
        let spoils = u16::from(self.can_spoil()) << 1;
        let others = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 8;
        field::ONCS.put(p, spoils | others);
        // Flush accepts the broadcast namespace.
        field::VWC.put(p, 0b110 | u8::from(self.has_cache()));
        field::OCFS.put(p, 1);
        field::SUBNQN.put(p, ended(&identity.nqn));
        if self.controller.way == Way::Bus {
            field::VID.put(p, crate::pci::VENDOR);
            field::SSVID.put(p, crate::pci::VENDOR);
        } else {
            field::IOCCSZ.put(p, ((64 + INLINE_BYTES) / 16) as u32);
            field::IORCSZ.put(p, 1);
            field::MSDBD.put(p, 1);
            // Disconnect is supported.
            field::OFCS.put(p, 1);
        }
        // 25 W in units of 0.01 W: the limit of a 2.5-inch drive.
        field::MP.put(p, 2500);
        page
    }

    /// Fields that a discovery controller has too.
    pub(super) fn controller_head(&self) -> Page {
        use controller as field;
        let (mut page, identity) = (page(), &self.subsystem.identity);
        let p = &mut page;
        field::SN.put(p, padded(&identity.serial));
        field::MN.put(p, padded(&identity.model));
        field::FR.put(p, padded(env!("CARGO_PKG_VERSION")));
        field::MDTS.put(p, TRANSFER_POWER);
        field::CNTLID.put(p, self.controller.id);
        field::VER.put(p, VERSION);
        field::AERL.put(p, events::REQUESTS as u8 - 1);
        field::ELPE.put(p, super::logs::ERRORS as u8 - 1);
        // Keep-alive granularity of 100 ms.
        field::KAS.put(p, 1);
        field::MAXCMD.put(p, ENTRIES);
        // SGLs. In a capsule, an address may be an offset; in memory, an SGL may be longer than the
        // data.
        let segments = match self.controller.way {
            Way::Address(_) => 1 << 20,
            Way::Bus => 1 << 18,
        };
        field::SGLS.put(p, 1 | segments);
        page
    }

    /// 128-bit host identifiers, endurance groups, per-set LBA formats, flexible data placement.
    fn attributes(&self) -> u32 {
        1 | 1 << 4 | 1 << 15 | u32::from(self.has_fdp()) << 19
    }

    pub(super) fn has_fdp(&self) -> bool {
        let fdp = |n: &Namespace<B>| matches!(n.shape().placements, Placements::Fdp { .. });
        self.namespaces().any(fdp)
    }

    pub(super) fn has_zones(&self) -> bool {
        self.namespaces().any(|n| n.shape().zones.is_some())
    }

    /// Whether any namespace supports Write Uncorrectable.
    pub(super) fn can_spoil(&self) -> bool {
        self.namespaces().any(|n| n.backend().can_spoil())
    }

    pub(super) fn has_bytes(&self) -> bool {
        self.namespaces().any(|n| n.shape().bytes_too)
    }

    fn has_streams(&self) -> bool {
        let streams = |n: &Namespace<B>| matches!(n.shape().placements, Placements::Streams(_));
        self.namespaces().any(streams)
    }

    fn namespaces(&self) -> impl Iterator<Item = &Namespace<B>> {
        self.subsystem.namespaces.iter()
    }

    fn numbered(&self) -> impl Iterator<Item = (u32, &Namespace<B>)> {
        (1..).zip(&self.subsystem.namespaces)
    }

    //= nvme-nvm 4.1.5.1
    fn namespace_page(&self, nsid: u32) -> Result<Page, Status> {
        use namespace as field;
        let mut page = page();
        let p = &mut page;
        if nsid == EVERY {
            // Capabilities common to all namespaces.
            self.put_formats(p, |_| true);
            return Ok(page);
        }
        let Ok(namespace) = self.subsystem.namespace(nsid) else {
            // An inactive namespace is all zeros; an invalid one is an error.
            return if nsid == 0 {
                Err(Status::InvalidNamespace)
            } else {
                Ok(page)
            };
        };
        let (shape, block) = (namespace.shape(), namespace.block());
        field::NSZE.put(p, namespace.blocks());
        field::NCAP.put(p, shape.capacity / block);
        field::NUSE.put(p, shape.capacity / block);
        // Preferred write and deallocation granularities are given.
        field::NSFEAT.put(p, 1 << 4);
        field::FLBAS.put(p, namespace.format());
        // Shared between controllers.
        field::NMIC.put(p, 1);
        // Deallocated blocks read as zeros; Write Zeroes may deallocate.
        field::DLFEAT.put(p, 0b1001);
        field::NVMCAP.put(p, wide(shape.capacity));
        let granule = (u64::from(shape.granule) / block).max(1) as u16 - 1;
        field::NPWG.put(p, granule);
        field::NPDG.put(p, granule);
        field::NPDA.put(p, granule);
        field::MSSRL.put(p, (COPY_RANGE_MAX / block) as u16);
        field::MCL.put(p, (COPY_MAX / block) as u32);
        field::MSRC.put(p, COPY_RANGES as u8 - 1);
        field::ENDGID.put(p, nsid as u16);
        field::NGUID.put(p, shape.id);
        self.put_formats(p, |format| namespace.has_format(format));
        Ok(page)
    }

    fn put_formats(&self, page: &mut [u8], has: impl Fn(u8) -> bool) {
        use namespace as field;
        field::NLBAF.put(page, FORMATS.len() as u8 - 1);
        for (number, power) in (0_u8..).zip(FORMATS).filter(|(number, _)| has(*number)) {
            let at = usize::from(number) * field::LBAF_BYTES;
            field::LBAF.put(&mut page[at..], u32::from(power) << 16);
        }
    }

    /// Identifiers above `nsid` of namespaces with a matching command set.
    fn namespaces_after(&self, nsid: u32, has: impl Fn(u8) -> bool) -> Result<Page, Status> {
        //= nvme-2.1 5.1.13.2.2
        if nsid >= 0xffff_fffe {
            return Err(Status::InvalidNamespace);
        }
        let found = self.numbered().filter(|(number, _)| *number > nsid);
        let found = found.filter(|(_, namespace)| has(command_set(namespace)));
        Ok(list(found.map(|(number, _)| number.to_le_bytes())))
    }

    /// Identification descriptors of a namespace: NGUID, UUID and command set.
    //= nvme-2.1 5.1.13.2.3
    fn descriptors(&self, nsid: u32) -> Result<Page, Status> {
        let namespace = self.subsystem.namespace(nsid)?;
        let (mut page, mut at) = (page(), 0);
        let mut put = |kind: u8, value: &[u8]| {
            (page[at], page[at + 1]) = (kind, value.len() as u8);
            page[at + 4..at + 4 + value.len()].copy_from_slice(value);
            at += 4 + value.len();
        };
        put(2, &namespace.shape().id);
        put(3, &uuid(namespace.shape().id));
        put(4, &[command_set(namespace)]);
        Ok(page)
    }

    fn set_namespace_page(&self, nsid: u32, set: u8) -> Result<Page, Status> {
        let namespace = self.subsystem.namespace(nsid)?;
        if set != command_set(namespace) && set != SET_BLOCKS {
            return Err(Status::InvalidField);
        }
        match set {
            SET_ZONES => Ok(zoned_page(namespace)),
            _ => Ok(page()),
        }
    }

    //= nvme-2.1 5.1.13.2.8
    fn independent_page(&self, nsid: u32) -> Result<Page, Status> {
        self.subsystem.namespace(nsid)?;
        let mut page = page();
        independent::NMIC.put(&mut page, 1);
        independent::ENDGID.put(&mut page, nsid as u16);
        // Namespace ready.
        independent::NSTAT.put(&mut page, 1);
        Ok(page)
    }

    /// Controller list from identifier `first` on: count, then identifiers.
    //= nvme-2.1 4.6.1
    fn controllers_from(&self, first: u16) -> Page {
        let controllers = self.subsystem.controllers();
        let own = controllers
            .iter()
            .filter(|c| c.kind == self.controller.kind);
        counted(own.map(|c| c.id).filter(|&id| id >= first))
    }

    /// Endurance group list from identifier `first` on.
    fn groups_after(&self, first: u16) -> Page {
        let groups = 1..=self.subsystem.namespaces.len() as u16;
        counted(groups.filter(|&group| group >= first))
    }
}

/// A count followed by the identifiers.
fn counted(numbers: impl Iterator<Item = u16>) -> Page {
    let numbers: Vec<u16> = numbers.collect();
    let count = numbers.len() as u16;
    list([count].into_iter().chain(numbers).map(u16::to_le_bytes))
}

/// `id` with the version and variant bits of a vendor-defined UUID.
fn uuid(mut id: [u8; 16]) -> [u8; 16] {
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

/// Command set identifier of a namespace.
pub(super) fn command_set<B: Backend>(namespace: &Namespace<B>) -> u8 {
    match namespace.shape().zones {
        Some(_) => SET_ZONES,
        None => SET_BLOCKS,
    }
}

//= zns 4.1.5
fn zoned_page<B: Backend>(namespace: &Namespace<B>) -> Page {
    let mut page = page();
    let Some(limits) = namespace.shape().zones else {
        return page;
    };
    let p = &mut page;
    let blocks = |sectors: u64| sectors * SECTOR / namespace.block();
    // Zero-based maximum; all ones for no limit.
    let less_one = |most: u32| most.wrapping_sub(1);
    let has_area = limits.random_write_area > 0;
    // Reads may cross zone boundaries, though a drive may reject them.
    zoned::OZCS.put(p, 1 | u16::from(has_area) << 1);
    zoned::MAR.put(p, less_one(limits.max_active));
    zoned::MOR.put(p, less_one(limits.max_open));
    if has_area {
        zoned::NUMZRWA.put(p, less_one(limits.random_write_zones));
        zoned::ZRWAFG.put(p, blocks(limits.random_write_step) as u16);
        zoned::ZRWASZ.put(p, blocks(limits.random_write_area) as u16);
        // Explicit commit of random write areas is supported.
        zoned::ZRWACAP.put(p, 1);
    }
    let at = usize::from(namespace.format()) * crate::layout::identify::zoned::LBAFE_BYTES;
    zoned::ZSZE.put(&mut p[at..], blocks(limits.size));
    page
}

/// Identify Controller of a command set.
fn set_page(set: u8) -> Result<Page, Status> {
    let mut page = page();
    let p = &mut page;
    match set {
        SET_BLOCKS => {
            // No data move for Write Zeroes and Write Uncorrectable: limited only by the command's
            // block count.
            set::WZSL.put(p, 0);
            set::WUSL.put(p, 0);
            set::DMRL.put(p, 0);
            set::DMRSL.put(p, 0);
            set::DMSL.put(p, 0);
        }
        // Zone Append is limited like any transfer.
        SET_ZONES => p[0] = 0,
        _ => return Err(Status::InvalidField),
    }
    Ok(page)
}
