//! The one form in which every generator and every trace speaks.

use units::{Extent, Ns, Origin, Placement};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Reads the extent.
    Read,
    /// Writes the extent.
    Write,
    /// Deallocates the extent.
    Trim,
    /// Makes every completed write durable; the extent is empty.
    Flush,
}

/// One block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it is issued, from the first request of its workload. A closed
    /// loop ignores it.
    pub at: Ns,
    /// What it does.
    pub op: Op,
    /// Where, in 512-byte sectors.
    pub extent: Extent,
    /// The stream or placement handle that the host names; 0 is the default.
    pub placement: Placement,
    /// Who asked, as an index into the workload's [`Labels`].
    pub origin: Origin,
    /// Force unit access: complete only when durable.
    pub fua: bool,
}

/// Names of origins, in order of first appearance. Entry 0 is the unnamed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    names: Vec<String>,
}

impl Default for Labels {
    fn default() -> Self {
        Self {
            names: vec!["unnamed".to_owned()],
        }
    }
}

impl Labels {
    /// Most labels that are told apart; later ones share the last, `other`.
    pub const MAX: usize = 256;

    /// The origin called `name`, added if it is new.
    pub fn intern(&mut self, name: &str) -> Origin {
        let found = self.names.iter().position(|n| n == name);
        let index = found.unwrap_or_else(|| self.add(name));
        Origin(u16::try_from(index).expect("bounded by MAX"))
    }

    fn add(&mut self, name: &str) -> usize {
        if self.names.len() + 1 == Self::MAX {
            self.names.push("other".to_owned());
        } else if self.names.len() < Self::MAX {
            self.names.push(name.to_owned());
        }
        self.names.len() - 1
    }

    /// The name of `origin`.
    #[must_use]
    pub fn name(&self, origin: Origin) -> &str {
        self.names
            .get(usize::from(origin.0))
            .map_or("unnamed", String::as_str)
    }

    /// All names, by index.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}
