//! Options of a mount, in the words of `mount -o`.

use fuser::MountOption;
use std::str::FromStr;
use vfs::Atime;

/// How a file system is mounted. Later words of a list win over earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// `ro`: no program changes anything. That it was mounted is still written down.
    pub read_only: bool,
    /// `nosuid`, if not: set-id bits are obeyed.
    pub suid: bool,
    /// `nodev`, if not: devices can be used.
    pub dev: bool,
    /// `noexec`, if not: programs can be run.
    pub exec: bool,
    /// `noatime`, `relatime`, `strictatime`: when a read is noted.
    pub atime: Atime,
    /// `nodiratime`, if not: the reading of directories is noted as that of files.
    pub diratime: bool,
}

impl Default for MountOptions {
    /// What a mount without options is.
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

    /// When the file system is to note a read: never if nobody changes anything.
    #[must_use]
    pub const fn noted(&self) -> Atime {
        match self.read_only {
            true => Atime::Never,
            false => self.atime,
        }
    }

    /// What the kernel is told. Only root may have what gives rights.
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
    fn words_are_taken_in_their_order() {
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
    fn rights_are_for_root_to_give() {
        let options = MountOptions::default();
        assert_eq!(options.told(false), []);
        assert_eq!(options.told(true), [MountOption::Suid, MountOption::Dev]);
        let options: MountOptions = "ro,nosuid,nodev,noexec".parse().expect("known");
        assert_eq!(options.told(true), [MountOption::RO, MountOption::NoExec]);
    }
}
