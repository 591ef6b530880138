//! A discovery controller: lists the subsystem and its address.

use super::logs::{part, table};
use super::{Scope, Way};
use crate::backend::Backend;
use crate::command::admin::{Admin, Feature, GetLog};
use crate::layout::discovery::{BYTES, header, record};
use crate::layout::identify::controller as field;
use crate::layout::{ended, padded};
use crate::status::Status;
use crate::subsystem::DISCOVERY_NQN;
use crate::token::Answer;

/// Identifier of the discovery log page.
//= nvme-2.1 5.1.12.3.1
const PAGE: u8 = 0x70;

impl<B: Backend> Scope<B> {
    //= nvme-2.1 3.1.3.3
    pub(super) fn discover(&self, admin: &Admin) -> Result<Answer, Status> {
        match *admin {
            Admin::Identify(identify) if identify.cns == 0x01 => {
                let mut page = self.controller_head();
                field::CNTRLTYPE.put(&mut page, 2);
                field::LPA.put(&mut page, 1 << 2);
                field::SUBNQN.put(&mut page, ended(DISCOVERY_NQN));
                Ok(Answer::data(page))
            }
            Admin::GetLog(log) => match log.page {
                0x00 => part(&table([0x00, PAGE].into_iter().map(|page| (page, 1))), &log),
                PAGE => self.records(&log),
                _ => Err(Status::InvalidLogPage),
            },
            Admin::KeepAlive => Ok(Answer::default()),
            Admin::SetFeature(set) if is_of_discovery(set.feature) => self.set_feature(set, &[]),
            Admin::GetFeature(get) if is_of_discovery(get.feature) => self.get_feature(get),
            Admin::Abort(abort) => Ok(self.abort(abort)),
            Admin::SetFeature(_) | Admin::GetFeature(_) | Admin::Identify(_) => {
                Err(Status::InvalidField)
            }
            _ => Err(Status::InvalidOpcode),
        }
    }

    /// Entries for this discovery subsystem and for the one with namespaces, both at the address
    /// that the host connected to.
    //= nvme-2.1 5.1.12.3.1
    fn records(&self, log: &GetLog) -> Result<Answer, Status> {
        let mut page = vec![0; BYTES];
        header::GENERATION.put(&mut page, 1);
        header::RECORDS.put(&mut page, 2);
        // The current discovery subsystem, and the NVM subsystem.
        page.extend(self.record(3, DISCOVERY_NQN));
        page.extend(self.record(2, &self.subsystem.identity.nqn));
        part(&page, log)
    }

    fn record(&self, kind: u8, subsystem: &str) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        // A PCIe drive has no address to list.
        let Way::Address(portal) = self.controller.way else {
            return bytes;
        };
        let b = &mut bytes;
        // TCP over IPv4 or IPv6.
        record::TRANSPORT.put(b, 3);
        record::FAMILY.put(b, if portal.is_ipv4() { 1 } else { 2 });
        record::KIND.put(b, kind);
        // A secure channel is neither required nor supported.
        record::SECURITY.put(b, 0b10);
        record::PORT.put(b, 1);
        // Dynamic controllers.
        record::CONTROLLER.put(b, u16::MAX);
        record::ADMIN_ENTRIES.put(b, 32);
        record::SERVICE.put(b, padded(&portal.port().to_string()));
        record::SUBSYSTEM.put(b, ended(subsystem));
        record::ADDRESS.put(b, padded(&portal.ip().to_string()));
        bytes
    }
}

const fn is_of_discovery(feature: Feature) -> bool {
    matches!(feature, Feature::EventConfiguration | Feature::KeepAlive)
}
