//! Names of stacks: HOST@DRIVE, with switches after plus signs.
//!
//! Invariant: a name that parses can be built.

use crate::error::StackError;
use crate::hosts::{self, HOSTS};
use crate::layer;
use parakeet::rules::sets;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use units::did_you_mean;

/// A stack that a user can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Name of the stack.
    pub name: &'static str,
    /// Description in one line.
    pub help: &'static str,
}

/// All stacks, in the order of listings.
pub const STACKS: &[Stack] = &[
    Stack {
        name: "raw@block",
        help: "block requests, on a conventional drive; placement is ignored",
    },
    Stack {
        name: "raw+remap@block",
        help: "block requests over a layer that remaps addresses so that writes become sequential",
    },
    Stack {
        name: "raw@streams",
        help: "block requests with their streams, on a multi-stream drive",
    },
    Stack {
        name: "raw@fdp",
        help: "block requests with their placement handles, on an FDP drive",
    },
    Stack {
        name: "raw@zns",
        help: "block requests, on a zoned drive whose zones are writable to their end",
    },
    Stack {
        name: "ext4@block",
        help: "files on ext4 with its journal, on a conventional drive",
    },
    Stack {
        name: "ext4+remap@block",
        help: "files on ext4, over a layer that remaps addresses so that writes become sequential",
    },
    Stack {
        name: "ext4@streams",
        help: "files on ext4, with a stream for each lifetime hint of the program",
    },
    Stack {
        name: "ext4@fdp",
        help: "files on ext4, with a placement handle for each lifetime hint of the program",
    },
    Stack {
        name: "f2fs@block",
        help: "files on F2FS, the log-structured file system, on a conventional drive",
    },
    Stack {
        name: "f2fs+remap@block",
        help: "files on F2FS, over a layer that remaps addresses so that writes become sequential",
    },
    Stack {
        name: "f2fs@streams",
        help: "files on F2FS, with a stream for each of its logs",
    },
    Stack {
        name: "f2fs@fdp",
        help: "files on F2FS, with a placement handle for each of its logs",
    },
    Stack {
        name: "f2fs@zns",
        help: "files on F2FS, each section a zone; its tables in conventional zones",
    },
    Stack {
        name: "btrfs@block",
        help: "files on Btrfs, the copy-on-write file system, on a conventional drive",
    },
    Stack {
        name: "btrfs+remap@block",
        help: "files on Btrfs, over a layer that remaps addresses so that writes become sequential",
    },
    Stack {
        name: "btrfs@streams",
        help: "files on Btrfs, with a stream for each lifetime hint of the program",
    },
    Stack {
        name: "btrfs@fdp",
        help: "files on Btrfs, with a placement handle for each lifetime hint of the program",
    },
    Stack {
        name: "btrfs@byte",
        help: "files on Btrfs through the block interface, on a byte-addressable drive with a page \
            cache",
    },
    Stack {
        name: "btrfs-nocow@block",
        help: "files on Btrfs with nodatacow: contents overwritten in place, without checksums",
    },
    Stack {
        name: "persimmon@zns",
        help: "files on Persimmon: F2FS whose tables and checkpoints are appended to zones too",
    },
    Stack {
        name: "zonefs@zns",
        help: "each zone as a file of zonefs, seq/0 and so on; for the workload streams",
    },
    Stack {
        name: "shimmer@zns",
        help: "files that match placement rules in zones, by Shimmer; other files on ext4 in \
            conventional zones",
    },
    Stack {
        name: "zenfs@zns",
        help: "files that match placement rules in zones, by ZenFS' lifetime matching, without \
            relocation",
    },
    Stack {
        name: "shimmer@fdp",
        help: "files on ext4, with a placement handle for each stream of the placement rules",
    },
    Stack {
        name: "raw@ocssd",
        help: "block requests, on an open-channel drive with the mapping in the host",
    },
    Stack {
        name: "ext4@ocssd",
        help: "files on ext4, on an open-channel drive with the mapping in the host",
    },
    Stack {
        name: "f2fs@ocssd",
        help: "files on F2FS, on an open-channel drive with the mapping in the host",
    },
    Stack {
        name: "btrfs@ocssd",
        help: "files on Btrfs, on an open-channel drive with the mapping in the host",
    },
    Stack {
        name: "btrfs-nocow@ocssd",
        help: "files on Btrfs with nodatacow, on an open-channel drive with the mapping in the \
            host",
    },
    Stack {
        name: "hyfim@ocssd",
        help: "files on HyFiM: Btrfs that syncs by remapping, with the mapping in persistent \
            memory",
    },
    Stack {
        name: "raw@byte",
        help: "block requests, on a byte-addressable drive with a page cache",
    },
    Stack {
        name: "ext4@byte",
        help: "files on ext4 through the block interface, on a byte-addressable drive with a page \
            cache",
    },
    Stack {
        name: "f2fs@byte",
        help: "files on F2FS through the block interface, on a byte-addressable drive with a page \
            cache",
    },
    Stack {
        name: "bytefs@byte",
        help: "files on ByteFS by cache lines and blocks, on a drive with a write log and \
            transactions",
    },
    Stack {
        name: "bytefs+strict@byte",
        help: "ByteFS whose calls wait for the commit of their changes",
    },
    Stack {
        name: "bytefs+divided@byte",
        help: "ByteFS on a drive whose DRAM is divided into log and page cache as in SkyByte",
    },
    Stack {
        name: "bytefs-log@byte",
        help: "ByteFS with file contents by blocks only",
    },
    Stack {
        name: "bytefs-dual@byte",
        help: "ByteFS with only metadata by cache lines, over an undo journal, without a write log",
    },
    Stack {
        name: "nova@byte",
        help: "files on NOVA, in place by cache lines, on a byte-addressable drive with a page \
            cache",
    },
    Stack {
        name: "pmfs@byte",
        help: "files on PMFS, in place by cache lines over an undo journal, on a byte-addressable \
            drive",
    },
];

/// The parsed name of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StackName {
    /// The host, which issues the requests.
    pub host: String,
    /// The preset of the drive.
    pub drive: String,
    /// Switches of the host, in the order of the name.
    pub switches: Vec<String>,
}

impl StackName {
    /// Whether placement rules of a caller apply: the host places files, and no switch sets other
    /// rules.
    #[must_use]
    pub fn takes_rules(&self) -> bool {
        let has = |name: &str| self.switches.iter().any(|switch| switch == name);
        match self.host.as_str() {
            "shimmer" | "zenfs" => !self.switches.iter().any(|s| sets::text(s).is_some()),
            _ => has("hints"),
        }
    }
}

impl FromStr for StackName {
    type Err = StackError;

    fn from_str(text: &str) -> Result<Self, StackError> {
        let form = || StackError::Form(text.to_owned());
        let (left, drive) = text.split_once('@').ok_or_else(form)?;
        let mut words = left.split('+');
        let host = words.next().unwrap_or_default();
        let switches: Vec<&str> = words.collect();
        if host.is_empty() || drive.is_empty() || switches.contains(&"") {
            return Err(form());
        }
        if let Some(reason) = refusal(host, drive, &switches) {
            return Err(StackError::Stack {
                stack: text.to_owned(),
                reason,
            });
        }
        Ok(Self {
            host: host.to_owned(),
            drive: drive.to_owned(),
            switches: switches.into_iter().map(str::to_owned).collect(),
        })
    }
}

impl TryFrom<String> for StackName {
    type Error = StackError;

    fn try_from(text: String) -> Result<Self, StackError> {
        text.parse()
    }
}

impl From<StackName> for String {
    fn from(name: StackName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for StackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        for switch in &self.switches {
            write!(f, "+{switch}")?;
        }
        write!(f, "@{}", self.drive)
    }
}

/// Drives that `host` can run on.
fn drives_of(host: &str) -> Vec<&'static str> {
    let on = |s: &Stack| s.name.split_once('@').filter(|(h, _)| *h == host);
    STACKS
        .iter()
        .filter_map(on)
        .map(|(_, drive)| drive)
        .collect()
}

/// The generic drive with the same interface as a named one.
pub(crate) fn kind_of(drive: &str) -> &str {
    match drive {
        "bytefs-emulator" => "byte",
        "zn540" | "zn540-1tb" => "zns",
        "hyfim-ocssd" => "ocssd",
        "skybyte" | "skybyte-channel" | "6600-ion" | "7450-max" | "7450-pro" | "p5520"
        | "pe8110" | "pm9a3" | "wd-960" | "cm7-r" | "970-pro" | "980-pro" => "block",
        other => other,
    }
}

/// The reason why this stack cannot be run; `None` if it can.
fn refusal(host: &str, drive: &str, switches: &[&str]) -> Option<String> {
    let drive = kind_of(drive);
    let built = drives_of("raw");
    if !built.contains(&drive) {
        let hint = did_you_mean(drive, built.iter().copied());
        let drives = built.join(", ");
        return Some(format!(
            "expected a drive ({drives}) after the @, found {drive:?}{hint}"
        ));
    }
    let Some((_, known)) = HOSTS.iter().find(|(name, _)| *name == host) else {
        let built: Vec<&str> = HOSTS.iter().map(|(name, _)| *name).collect();
        let hint = did_you_mean(host, built.iter().copied());
        let built = built.join(", ");
        return Some(format!(
            "expected a host ({built}) before the @, found {host:?}{hint}"
        ));
    };
    let drives = drives_of(host);
    if !drives.contains(&drive) {
        let drives = drives.join(", ");
        return Some(format!(
            "{host} does not run on the drive {drive}: it needs one of {drives}"
        ));
    }
    let of_layer = |switch: &str| layer::SWITCHES.iter().any(|(name, _)| *name == switch);
    if let Some(switch) = switches.iter().find(|switch| of_layer(switch)) {
        let makes_sense = layer::HOSTS.contains(&host) && layer::DRIVES.contains(&drive);
        if !makes_sense {
            let (hosts, drives) = (layer::HOSTS.join(", "), layer::DRIVES.join(", "));
            return Some(format!(
                "+{switch} is not available here: the layer needs a host that writes blocks in \
                 place ({hosts}) on one of the drives {drives}"
            ));
        }
    }
    if let Some(reason) = hosts::refused_memory(host, drive, switches) {
        return Some(reason);
    }
    let is_known = |switch: &&str| of_layer(switch) || known.iter().any(|(name, _)| name == switch);
    let switch = switches.iter().find(|switch| !is_known(switch))?;
    let layers = layer::HOSTS.contains(&host) && layer::DRIVES.contains(&drive);
    let layers = layer::SWITCHES.iter().filter(|_| layers);
    let names: Vec<&str> = known.iter().chain(layers).map(|(name, _)| *name).collect();
    Some(match names.is_empty() {
        true => format!("{host} has no switches: remove +{switch}"),
        false => format!(
            "expected one of the switches +{}, found +{switch}",
            names.join(", +")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stack_of_the_table_parses_and_prints_back() {
        for stack in STACKS {
            let name: StackName = stack.name.parse().unwrap();
            assert_eq!(name.to_string(), stack.name);
        }
    }

    #[test]
    fn invalid_stack_is_rejected_with_its_reason() {
        let says = |text: &str| text.parse::<StackName>().unwrap_err().to_string();
        assert!(says("block").contains("HOST@DRIVE"));
        assert!(says("raw+@block").contains("HOST@DRIVE"));
        assert!(says("zenfs@fdp").contains("does not run on the drive fdp: it needs one of zns"));
        assert!("shimmer+wiredtiger+half@zns".parse::<StackName>().is_ok());
        assert!(says("shimmer+oracle@zns").contains("+rocksdb, "));
        assert!(says("persimmon@block").contains("does not run on the drive block"));
        assert!("ext4+discard+remap-lean@fdp".parse::<StackName>().is_ok());
        assert!("raw+remap-tree@block".parse::<StackName>().is_ok());
        assert!(says("ext4+remap@byte").contains("+remap is not available here"));
        assert!(says("f2fs+remap@zns").contains("+remap is not available here"));
        assert!(says("raw+remapped@block").contains("+remap-tree"));
        assert!(says("ext4@zns").contains("does not run on the drive zns"));
        assert!("ext4@skybyte".parse::<StackName>().is_ok());
        assert!("ext4+discard@hyfim-ocssd".parse::<StackName>().is_ok());
        assert!("f2fs+lfs@zn540".parse::<StackName>().is_ok());
        assert!("f2fs+lfs@bytefs-emulator".parse::<StackName>().is_ok());
        assert!("ext4+discard@fdp".parse::<StackName>().is_ok());
        for stack in [
            "btrfs+pmbuffer",
            "btrfs-nocow+pmbuffer+optane",
            "hyfim+pmbuffer",
        ] {
            assert!(format!("{stack}@ocssd").parse::<StackName>().is_ok());
        }
        assert!(says("btrfs+pmbuffer@block").contains(
            "+pmbuffer is not available on the drive \
            block"
        ));
        assert!(says("btrfs+optane@ocssd").contains("+optane needs the switch +pmbuffer"));
        assert!(says("ext4+pmbuffer@ocssd").contains("expected one of the switches"));
        assert!(says("hyfim@block").contains("does not run on the drive block"));
        assert!(
            "hyfim+discard+dup+nosums@ocssd"
                .parse::<StackName>()
                .is_ok()
        );
        assert!(says("hyfim+hints@ocssd").contains("+hints"));
        assert!("btrfs-nocow+discard@block".parse::<StackName>().is_ok());
        assert!("raw@zn540".parse::<StackName>().is_ok());
        assert!("raw@ocssd".parse::<StackName>().is_ok());
        assert!(says("raw@tape").contains("\"tape\""));
        assert!(says("xfs@block").contains("\"xfs\""));
        assert!(says("raw+fast@block").contains("+fast"));
    }
}
