//! Extended attributes: one item per hash of a name, with all attributes of that hash.
//= btrfs-format 4.4

use crate::format::inode::{Entry, attribute_key, entries, entry_span};
use crate::format::{kind, node};
use crate::fs::{Core, File};
use crate::persist::Persist;
use vfs::{Errno, Result, Timestamp, XattrFlags};

/// Namespaces in which the file system accepts attributes.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

fn ensure_known(name: &[u8]) -> Result<()> {
    let known = SPACES
        .iter()
        .any(|space| name.starts_with(space) && name.len() > space.len());
    known.then_some(()).ok_or(Errno::EOPNOTSUPP)
}

impl<S: Persist> Core<S> {
    /// The value of attribute `name`; `ENODATA` if the file has none, `EOPNOTSUPP` outside the
    /// known namespaces.
    pub(crate) async fn xattr(&self, file: &File, name: &[u8]) -> Result<Vec<u8>> {
        ensure_known(name)?;
        let (tree, key) = (&file.private.tree, attribute_key(file.private.number, name));
        let pick = |data: &[u8]| {
            let found = entries(data).find(|entry| entry.name == name);
            found.map(|entry| entry.value.to_vec())
        };
        let found = self.with(|| self.forest.read(tree, key, pick)).await?;
        found.flatten().ok_or(Errno::ENODATA)
    }

    /// Sets attribute `name`, or removes it if `value` is `None`.
    pub(crate) async fn change_xattr(
        &self,
        file: &File,
        name: &[u8],
        value: Option<&[u8]>,
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()> {
        ensure_known(name)?;
        self.ensure_changeable(&file.private.tree)?;
        let (tree, key) = (&file.private.tree, attribute_key(file.private.number, name));
        let held = self
            .with(|| self.forest.read(tree, key, <[u8]>::to_vec))
            .await?;
        let held = held.unwrap_or_default();
        let span = entry_span(&held, name);
        match (flags, &span) {
            (XattrFlags::Create, Some(_)) => return Err(Errno::EEXIST),
            (XattrFlags::Replace, None) => return Err(Errno::ENODATA),
            _ => {}
        }
        let mut bytes = held.clone();
        if let Some(span) = span {
            bytes.drain(span);
        }
        if let Some(value) = value {
            let entry = Entry::attribute(name, value);
            if bytes.len() + entry.len() > node::ITEM_MOST {
                return Err(self.refuse_attribute(entry.len(), node::ITEM_MOST - bytes.len()));
            }
            bytes.extend(entry.bytes(self.forest.transid.get()));
        }
        let changed = self.with(|| match (held.is_empty(), bytes.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => self.forest.insert(tree, key, &bytes),
            (false, true) => self.forest.remove(tree, key),
            (false, false) => self.forest.set(tree, key, &bytes),
        });
        self.noted(changed.await)?;
        file.update(|attr| attr.ctime = now);
        self.since.borrow_mut().attributed(file);
        self.store_inode(file).await
    }

    /// Names of all attributes of the file, in the order of their hashes.
    pub(crate) async fn xattr_names(&self, file: &File) -> Result<Vec<Vec<u8>>> {
        let (tree, number) = (&file.private.tree, file.private.number);
        let items = self.items_of(tree, number, kind::XATTR_ITEM, kind::XATTR_ITEM);
        let mut names = Vec::new();
        for (_, data) in items.await? {
            names.extend(entries(&data).map(|entry| entry.name.to_vec()));
        }
        Ok(names)
    }
}
