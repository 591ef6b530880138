//! Options of a mount, in the words of `mount -o`.

use fuser::MountOption;
use std::str::FromStr;
use vfs::Atime;

/// Options of a mount. Later words of a list override earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// `ro`: no program can change anything. The mount itself is still recorded on the drive.
    pub read_only: bool,
    /// False by `nosuid`: set-id bits are ignored.
    pub suid: bool,
    /// False by `nodev`: device files cannot be opened.
    pub dev: bool,
    /// False by `noexec`: programs cannot be run.
    pub exec: bool,
    /// Policy of access times: `noatime`, `relatime` or `strictatime`.
    pub atime: Atime,
    /// False by `nodiratime`: reads of directories do not update access times.
    pub diratime: bool,
}

impl Default for MountOptions {
    /// The options of a mount without `-o`.
    fn default() -> Self {
        Self {
            read_only: false,
            suid: true,
            dev: true,
            exec: true,
            atime: Atime::Relative,
            diratime: true,
        }
    }
}

impl FromStr for MountOptions {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for word in list.split(',').filter(|word| !word.is_empty()) {
            options.take(word)?;
        }
        Ok(options)
    }
}

impl MountOptions {
    fn take(&mut self, word: &str) -> Result<(), String> {
        match word {
            "defaults" => {}
            "ro" | "rw" => self.read_only = word == "ro",
            "suid" | "nosuid" => self.suid = word == "suid",
            "dev" | "nodev" => self.dev = word == "dev",
            "exec" | "noexec" => self.exec = word == "exec",
            "noatime" => self.atime = Atime::Never,
            "atime" | "relatime" => self.atime = Atime::Relative,
            "strictatime" => self.atime = Atime::Always,
            "diratime" | "nodiratime" => self.diratime = word == "diratime",
            _ => {
                return Err(format!(
                    "{word}: expected ro, rw, [no]suid, [no]dev, [no]exec, noatime, relatime, \
                     strictatime or [no]diratime"
                ));
            }
        }
        Ok(())
    }

    /// Policy of access times for the file system: none are updated if it is read-only.
    #[must_use]
    pub const fn noted(&self) -> Atime {
        match self.read_only {
            true => Atime::Never,
            false => self.atime,
        }
    }

    /// Options for the kernel. `suid` and `dev` are passed on for root only.
    pub(crate) fn told(&self, root: bool) -> Vec<MountOption> {
        let mut told = Vec::new();
        told.extend(self.read_only.then_some(MountOption::RO));
        told.extend((!self.exec).then_some(MountOption::NoExec));
        told.extend((root && self.suid).then_some(MountOption::Suid));
        told.extend((root && self.dev).then_some(MountOption::Dev));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_option_overrides_an_earlier_one() {
        let options: MountOptions = "ro,nosuid,noatime,suid,strictatime".parse().expect("known");
        assert!(options.read_only && options.suid && options.dev && options.exec);
        assert_eq!(options.atime, Atime::Always);
        assert_eq!(options.noted(), Atime::Never);
        assert_eq!("rw,".parse(), Ok(MountOptions::default()));
        let options: MountOptions = "ro,nodev,defaults".parse().expect("known");
        assert!(options.read_only && !options.dev, "it undoes nothing");
        assert!("rw,data=ordered".parse::<MountOptions>().is_err());
    }

    #[test]
    fn suid_and_dev_are_passed_on_for_root_only() {
        let options = MountOptions::default();
        assert_eq!(options.told(false), []);
        assert_eq!(options.told(true), [MountOption::Suid, MountOption::Dev]);
        let options: MountOptions = "ro,nosuid,nodev,noexec".parse().expect("known");
        assert_eq!(options.told(true), [MountOption::RO, MountOption::NoExec]);
    }
}
