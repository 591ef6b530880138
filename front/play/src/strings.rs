//! Strings of one call, copied out of the source's table.

use workload::files::{Call, Fd, FieldSink, Name, Names};

/// Strings of a call in the order of its declaration; no call has more than two. The buffers are
/// reused from call to call, to avoid allocation.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    first: Vec<u8>,
    second: Vec<u8>,
}

impl Strings {
    /// Copies the strings of `call` from `names`; missing ones become empty.
    pub(crate) fn take(&mut self, call: &Call, names: &Names) {
        let mut found = Found {
            names: [Name::ROOT; 2],
            count: 0,
        };
        call.put(&mut found);
        for (to, name) in [&mut self.first, &mut self.second]
            .into_iter()
            .zip(found.names)
        {
            to.clear();
            to.extend_from_slice(names.bytes(name));
        }
    }

    /// First string of the call; empty if it has none.
    pub(crate) fn first(&self) -> &[u8] {
        &self.first
    }

    /// Second string of the call; empty if it has fewer than two.
    pub(crate) fn second(&self) -> &[u8] {
        &self.second
    }

    /// String behind the call's target: the second one if the target is a path, else the first.
    pub(crate) fn after(&self, target_has_one: bool) -> &[u8] {
        if target_has_one {
            &self.second
        } else {
            &self.first
        }
    }
}

struct Found {
    names: [Name; 2],
    count: usize,
}

impl FieldSink for Found {
    fn fd(&mut self, _: &'static str, _: Fd) {}

    fn name(&mut self, _: &'static str, name: Name) {
        self.names[self.count] = name;
        self.count += 1;
    }

    fn number(&mut self, _: &'static str, _: u64) {}

    fn word(&mut self, _: &'static str, _: usize, _: &'static [&'static str]) {}

    fn bits(&mut self, _: &'static str, _: u32, _: &'static [&'static str]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::files::{RenameHow, Target};

    #[test]
    fn they_come_in_the_order_of_the_call() {
        let mut names = Names::default();
        let (from, to) = (names.intern(b"a"), names.intern(b"b/c"));
        let mut strings = Strings::default();
        strings.take(
            &Call::Rename {
                from,
                to,
                how: RenameHow::Replace,
            },
            &names,
        );
        assert_eq!(
            (strings.first(), strings.second()),
            (&b"a"[..], &b"b/c"[..])
        );
        strings.take(
            &Call::Link {
                of: Target::Open(Fd(3)),
                to,
            },
            &names,
        );
        assert_eq!(
            (strings.after(false), strings.second()),
            (&b"b/c"[..], &b""[..])
        );
        strings.take(&Call::Sync {}, &names);
        assert_eq!(strings.first(), b"");
    }
}
