//! Features: settings of a controller that the host reads and writes.

use super::{Scope, events};
use crate::backend::{Backend, Placements};
use crate::command::admin::{Feature, GetFeature, Select, SetFeature};
use crate::status::Status;
use crate::subsystem::QUEUES;
use crate::token::Answer;
use std::collections::BTreeMap;
use units::Ns;

/// Size in bytes of the Host Behavior Support data.
const BEHAVIOR_BYTES: usize = 512;
/// Size of a timestamp in bytes.
const TIME_BYTES: usize = 8;
/// Warning temperature in kelvin: 85 °C. Never reached, since heat is not modelled.
pub(super) const HOT: u16 = 358;

/// Feature values that the host has set.
#[derive(Default)]
pub(crate) struct Features {
    values: BTreeMap<Feature, u32>,
    behavior: Vec<u8>,
    /// Timestamp in ms set by the host, and the drive's time at that moment.
    time: Option<(u64, Ns)>,
}

/// Timestamp as the host reads it: the value that was set, or 0, plus the drive's time since.
//= nvme-2.1 5.1.25.1.7
fn time_at(now: Ns, set: Option<(u64, Ns)>) -> [u8; TIME_BYTES] {
    let (start, then) = set.unwrap_or_default();
    let mut time = (start + (now.0 - then.0) / 1_000_000).to_le_bytes();
    // Synch is 0: the clock never stops. Origin: set by the host, or by a reset.
    (time[6], time[7]) = (u8::from(set.is_some()) << 1, 0);
    time
}

/// Default value of a feature.
const fn default(feature: Feature) -> u32 {
    match feature {
        Feature::TemperatureThreshold => HOT as u32,
        Feature::WriteCache => 1,
        Feature::Queues => queues(QUEUES as u32 - 1, QUEUES as u32 - 1),
        Feature::Fdp => 1,
        _ => 0,
    }
}

const fn queues(submission: u32, completion: u32) -> u32 {
    completion << 16 | submission
}

impl Features {
    fn value(&self, feature: Feature) -> u32 {
        let set = self.values.get(&feature).copied();
        set.unwrap_or(default(feature))
    }

    /// Mask of enabled asynchronous events.
    pub(super) fn events(&self) -> u32 {
        self.value(Feature::EventConfiguration)
    }

    /// Whether the volatile write cache is enabled.
    pub(super) fn caches_writes(&self) -> bool {
        self.value(Feature::WriteCache) & 1 != 0
    }
}

impl<B: Backend> Scope<B> {
    //= nvme-2.1 5.1.25
    pub(super) fn set_feature(&self, set: SetFeature, data: &[u8]) -> Result<Answer, Status> {
        if set.save {
            return Err(Status::FeatureNotSaveable);
        }
        let mut features = self.controller.features.borrow_mut();
        let (mut value, mut answer) = (set.value, Answer::default());
        match set.feature {
            // Only one power state and one command set profile exist.
            Feature::PowerManagement | Feature::CommandSetProfile if value != 0 => {
                return Err(match set.feature {
                    Feature::PowerManagement => Status::InvalidField,
                    _ => Status::CommandSetCombination,
                });
            }
            Feature::WriteCache if !self.has_cache() => return Err(Status::InvalidField),
            //= nvme-2.1 5.1.25.2.1
            Feature::Queues => {
                let (asked, most) = ((value & 0xffff, value >> 16), u32::from(QUEUES) - 1);
                if asked.0 == 0xffff || asked.1 == 0xffff {
                    return Err(Status::InvalidField);
                }
                value = queues(asked.0.min(most), asked.1.min(most));
                answer.result = value.into();
            }
            Feature::EventConfiguration => value &= events::KNOWN,
            Feature::KeepAlive => {
                answer.keep_alive_ms = Some(self.controller.promised(value));
            }
            Feature::Timestamp => {
                let time = data.get(..TIME_BYTES).ok_or(Status::DataLengthInvalid)?;
                let mut set = [0; TIME_BYTES];
                set[..6].copy_from_slice(&time[..6]);
                features.time = Some((u64::from_le_bytes(set), self.clock()));
            }
            Feature::HostBehavior => {
                let data = data.get(..BEHAVIOR_BYTES);
                features.behavior = data.ok_or(Status::DataLengthInvalid)?.to_vec();
            }
            // Flexible data placement cannot be turned on or off.
            Feature::Fdp => {
                self.fdp_group(value as u16)?;
                if set.second != default(Feature::Fdp) {
                    return Err(Status::FeatureNotChangeable);
                }
                value = set.second;
            }
            // Recorded events are fixed, and the host identifier is set by Connect.
            Feature::FdpEvents | Feature::EnduranceEvents => {
                return Err(Status::FeatureNotChangeable);
            }
            Feature::HostIdentifier => return Err(Status::CommandSequence),
            _ => {}
        }
        features.values.insert(set.feature, value);
        Ok(answer)
    }

    //= nvme-2.1 5.1.11
    pub(super) fn get_feature(&self, get: GetFeature) -> Result<Answer, Status> {
        let features = self.controller.features.borrow();
        let feature = get.feature;
        match feature {
            Feature::WriteCache if !self.has_cache() => return Err(Status::InvalidField),
            Feature::Fdp => {
                self.fdp_group(get.value as u16)?;
            }
            Feature::FdpEvents => return self.fdp_events(get),
            _ => {}
        }
        if get.select == Select::Capabilities {
            // Bit 2: changeable.
            return Ok(Answer::result(u64::from(is_changeable(feature)) << 2));
        }
        let value = match get.select {
            // Connect also sets this value, and it survives a controller reset.
            Select::Current if feature == Feature::KeepAlive => self.controller.keep_alive_ms.get(),
            Select::Current => features.value(feature),
            _ => default(feature),
        };
        let mut answer = Answer::result(value.into());
        answer.data = match feature {
            Feature::HostIdentifier => self.controller.host_id.to_vec(),
            Feature::Timestamp => time_at(self.clock(), features.time).to_vec(),
            Feature::HostBehavior => {
                let mut behavior = features.behavior.clone();
                behavior.resize(BEHAVIOR_BYTES, 0);
                behavior
            }
            _ => Vec::new(),
        };
        Ok(answer)
    }

    /// Virtual time of the drive.
    fn clock(&self) -> Ns {
        let first = self.subsystem.namespaces.first();
        first.map_or(Ns::ZERO, |namespace| namespace.backend().now())
    }

    /// Whether any namespace has a volatile cache.
    pub(super) fn has_cache(&self) -> bool {
        let namespaces = self.subsystem.namespaces.iter();
        let mut caches = namespaces.map(|namespace| namespace.shape().volatile_cache);
        caches.any(|cache| cache)
    }

    /// Namespace identifier of an endurance group with placement handles; each namespace is a group
    /// of its own.
    pub(super) fn fdp_group(&self, group: u16) -> Result<u32, Status> {
        let nsid = u32::from(group);
        let namespace = self.subsystem.namespace(nsid);
        let namespace = namespace.map_err(|_| Status::InvalidField)?;
        let is_fdp = matches!(namespace.shape().placements, Placements::Fdp { .. });
        is_fdp.then_some(nsid).ok_or(Status::FdpDisabled)
    }
}

const fn is_changeable(feature: Feature) -> bool {
    !matches!(
        feature,
        Feature::Fdp | Feature::FdpEvents | Feature::EnduranceEvents | Feature::HostIdentifier
    )
}
