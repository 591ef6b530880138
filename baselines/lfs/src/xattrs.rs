//! Extended attributes of a file: a list in its inode that goes on in a node.

use crate::format::node::{self, XATTR_INLINE, XATTR_OFFSET};
use crate::format::xattr::{self, IN_NODE, Xattr};
use crate::fs::{Core, File, damaged};
use crate::nodes::NodeBuf;
use crate::persist::Persist;
use std::rc::Rc;
use vfs::{Errno, Result, Timestamp, XattrFlags};

impl<P: Persist> Core<P> {
    /// The node with attributes of the inode in `buf`.
    pub(crate) async fn xattr_node(&self, buf: &NodeBuf, nid: u32) -> Result<Rc<NodeBuf>> {
        let found = self.node(nid).await;
        let found = found.map_err(|e| {
            if e == Errno::ENOENT {
                Errno::EUCLEAN
            } else {
                e
            }
        })?;
        let fits = found.ino == buf.ino && nid != buf.ino;
        damaged((fits && node::offset_of(&found.bytes()) == XATTR_OFFSET).then_some(found))
    }

    async fn xattrs(&self, file: &File) -> Result<Vec<Xattr>> {
        let buf = &file.private.buf;
        let (mut bytes, nid) = {
            let bytes = buf.bytes();
            (
                node::xattrs(&bytes).to_vec(),
                node::XATTR_NID.get(&bytes[..]),
            )
        };
        if nid != 0 {
            let more = self.xattr_node(buf, nid).await?;
            bytes.extend_from_slice(&more.bytes()[..IN_NODE]);
        }
        damaged(xattr::decode(&bytes))
    }

    async fn store_xattrs(&self, file: &File, list: &[Xattr]) -> Result<()> {
        let buf = &file.private.buf;
        let room = node::xattrs(&buf.bytes()).len();
        let most = room + IN_NODE - 4;
        let bytes = xattr::encode(list).filter(|bytes| bytes.len() <= most);
        let refused = || self.refuse_attributes(xattr::needed(list), most);
        let mut bytes = bytes.ok_or_else(refused)?;
        let nid = node::XATTR_NID.get(&buf.bytes()[..]);
        // Zeros end the list, in the node if there is no room for them in the inode.
        let in_node = bytes.len() + if bytes.is_empty() { 0 } else { 4 } > room;
        if !in_node && nid != 0 {
            self.xattr_node(buf, nid).await?;
            self.free_node(nid).await?;
            // Recovery adds nodes, and takes none away.
            self.need_whole(buf.nid);
            buf.edit(|inode| node::XATTR_NID.put(inode, 0));
            self.add_blocks(buf, -1);
        }
        if in_node {
            let more = match nid {
                0 => self.make_node(buf, XATTR_OFFSET).await?,
                nid => self.xattr_node(buf, nid).await?,
            };
            bytes.resize(room + IN_NODE, 0);
            more.edit(|node| node[..IN_NODE].copy_from_slice(&bytes[room..]));
            self.soil(&more);
            buf.edit(|inode| node::XATTR_NID.put(inode, more.nid));
        }
        bytes.resize(room, 0);
        buf.edit(|inode| node::xattrs_mut(inode).copy_from_slice(&bytes));
        self.store_inode(file);
        Ok(())
    }

    /// The value of an attribute.
    pub(crate) async fn xattr(&self, file: &File, name: &[u8]) -> Result<Vec<u8>> {
        let (space, name) = xattr::split(name).ok_or(Errno::EOPNOTSUPP)?;
        let list = self.xattrs(file).await?;
        let mut list = list.into_iter();
        let found = list.find(|xattr| xattr.space == space && xattr.name == name);
        found.map(|xattr| xattr.value).ok_or(Errno::ENODATA)
    }

    /// Sets an attribute, or removes it if there is no value.
    pub(crate) async fn change_xattr(
        &self,
        file: &File,
        name: &[u8],
        value: Option<&[u8]>,
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()> {
        let (space, name) = xattr::split(name).ok_or(Errno::EOPNOTSUPP)?;
        let mut list = self.xattrs(file).await?;
        let is_it = |xattr: &Xattr| xattr.space == space && xattr.name == name;
        let there = list.iter().any(is_it);
        match (flags, there) {
            (XattrFlags::Create, true) => return Err(Errno::EEXIST),
            (XattrFlags::Replace, false) => return Err(Errno::ENODATA),
            _ => {}
        }
        list.retain(|xattr| !is_it(xattr));
        if let Some(value) = value {
            list.push(Xattr {
                space,
                name: name.to_vec(),
                value: value.to_vec(),
            });
        }
        let before = file.attr.get();
        file.update(|attr| attr.ctime = now);
        let stored = self.store_xattrs(file, &list).await;
        if stored.is_err() {
            file.attr.set(before);
        }
        stored
    }

    /// The names of all attributes.
    pub(crate) async fn xattr_names(&self, file: &File) -> Result<Vec<Vec<u8>>> {
        let list = self.xattrs(file).await?;
        Ok(list.iter().filter_map(Xattr::full).collect())
    }
}

const _: () = assert!(XATTR_INLINE == 200);
