//! Extended attributes: behind the fields of the inode while they fit, then in one
//! block, which several inodes of an image may share.
//!
//! Invariant: a block that others refer to is never changed but in its count.

use crate::alloc::Want;
use crate::buffer::{BLOCK, Buffer};
use crate::format::inode as raw;
use crate::format::xattr::{self, Xattr};
use crate::fs::{ExtFs, Node, damaged};
use crate::inode::number;
use crate::persist::{Persist, Run};
use crate::tree::SECTORS;
use host::Purpose;
use std::rc::Rc;
use vfs::{Errno, Result, Timestamp, XattrFlags};

/// Blocks of metadata that a change of attributes touches: the old block, the new
/// one, a bitmap and a descriptor for each, and the inode.
pub(crate) const CREDITS: usize = 2 + 4 + 1;

/// Longest name behind its prefix, and longest value.
const NAME_MAX: usize = 255;
const VALUE_MAX: usize = 65536;

/// The attributes of an inode, by where they are.
struct Lists {
    inode: Vec<Xattr>,
    block: Vec<Xattr>,
}

impl<P: Persist> ExtFs<P> {
    async fn xattr_block(&self, node: &Node) -> Result<Option<Rc<Buffer>>> {
        let block = raw::xattr_block(&self.slot(node).0);
        if block == 0 {
            return Ok(None);
        }
        let run = Run {
            start: block,
            len: 1,
        };
        damaged(self.is_for_files(run).then_some(()))?;
        let buffer = self.persist.read(block, Purpose::Attribute).await?;
        if self.geometry.checksums && !buffer.checked.get() {
            let bytes = buffer.bytes();
            let sum = xattr::checksum(self.geometry.seed, block, &bytes);
            damaged((xattr::CHECKSUM.get(&bytes[..]) == sum).then_some(()))?;
            buffer.checked.set(true);
        }
        Ok(Some(buffer))
    }

    async fn lists(&self, node: &Node) -> Result<Lists> {
        let (slot, len) = self.slot(node);
        let slot = &slot[..len];
        let area = &slot[raw::OLD_SIZE + raw::extra(slot)..];
        let block = match self.xattr_block(node).await? {
            Some(buffer) => damaged(xattr::decode_block(&buffer.bytes()))?,
            None => Vec::new(),
        };
        Ok(Lists {
            inode: damaged(xattr::decode_inode(area))?,
            block,
        })
    }

    /// The value of an attribute.
    pub(crate) async fn xattr(&self, node: &Node, name: &[u8]) -> Result<Vec<u8>> {
        let (prefix, name) = xattr::split(name).ok_or(Errno::EOPNOTSUPP)?;
        let lists = self.lists(node).await?;
        let mut all = lists.inode.into_iter().chain(lists.block);
        let found = all.find(|x| x.prefix == prefix && x.name == name);
        let value = found.ok_or(Errno::ENODATA)?.value;
        if xattr::ACLS.contains(&prefix) {
            return damaged(xattr::acl_to_api(&value));
        }
        Ok(value)
    }

    /// The names of all attributes.
    pub(crate) async fn xattr_names(&self, node: &Node) -> Result<Vec<Vec<u8>>> {
        let lists = self.lists(node).await?;
        let all = lists.inode.iter().chain(&lists.block);
        Ok(all.filter_map(xattr::full_name).collect())
    }

    /// Sets an attribute, or removes it.
    pub(crate) async fn change_xattr(
        &self,
        node: &Node,
        name: &[u8],
        value: Option<&[u8]>,
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()> {
        let (prefix, name) = xattr::split(name).ok_or(Errno::EOPNOTSUPP)?;
        let acl = xattr::ACLS.contains(&prefix);
        let value = match value {
            Some(value) if acl => Some(xattr::acl_to_medium(value).ok_or(Errno::EINVAL)?),
            value => value.map(<[u8]>::to_vec),
        };
        let long = name.len() > NAME_MAX || value.as_ref().is_some_and(|v| v.len() > VALUE_MAX);
        if long {
            return Err(Errno::ERANGE);
        }
        let tx = self.persist.begin(CREDITS).await?;
        let new = value.map(|value| Xattr {
            prefix,
            name: name.to_vec(),
            value,
        });
        let changed = self.change_in(&tx, node, (prefix, name), new, flags).await;
        if changed.is_ok() {
            node.update(|attr| attr.ctime = now);
            self.store_inode(&tx, node);
        }
        self.finish(tx, changed).await
    }

    async fn change_in(
        &self,
        tx: &P::Tx,
        node: &Node,
        key: (u8, &[u8]),
        new: Option<Xattr>,
        flags: XattrFlags,
    ) -> Result<()> {
        let mut lists = self.lists(node).await?;
        let other = |x: &Xattr| (x.prefix, x.name.as_slice()) != key;
        let before = (lists.inode.len(), lists.block.len());
        lists.inode.retain(other);
        lists.block.retain(other);
        let existed = before != (lists.inode.len(), lists.block.len());
        match flags {
            XattrFlags::Create if existed => return Err(Errno::EEXIST),
            XattrFlags::Replace if !existed => return Err(Errno::ENODATA),
            _ => {}
        }
        let mut block_changed = before.1 != lists.block.len();
        if let Some(new) = new {
            let (slot, len) = self.slot(node);
            let room = len - raw::OLD_SIZE - raw::extra(&slot[..len]);
            lists.inode.push(new);
            if xattr::INODE_HEADER + xattr::needed(&lists.inode) > room {
                lists.block.extend(lists.inode.pop());
                block_changed = true;
            }
        }
        self.ensure_attributes_fit(&lists.block)?;
        if block_changed {
            self.store_xattr_block(tx, node, &lists.block).await?;
        }
        self.edit_inode(tx, node, |slot| {
            let from = raw::OLD_SIZE + raw::extra(slot);
            xattr::encode_inode(&mut slot[from..], &lists.inode);
        });
        Ok(())
    }

    fn write_xattr_block(&self, tx: &P::Tx, buffer: &Rc<Buffer>, bytes: &mut [u8; BLOCK]) {
        if self.geometry.checksums {
            let sum = xattr::checksum(self.geometry.seed, buffer.block, bytes);
            xattr::CHECKSUM.put(&mut bytes[..], sum);
        }
        self.write_changed(tx, buffer, 0, &bytes[..]);
    }

    async fn store_xattr_block(&self, tx: &P::Tx, node: &Node, list: &[Xattr]) -> Result<()> {
        if list.is_empty() {
            return self.drop_xattr_block(tx, node).await;
        }
        let mut bytes = xattr::encode_block(list);
        if let Some(buffer) = self.xattr_block(node).await?
            && xattr::REFERENCES.get(&buffer.bytes()[..]) == 1
        {
            self.write_xattr_block(tx, &buffer, &mut bytes);
            return Ok(());
        }
        let (group, _) = self.geometry.place_of(number(node));
        let want = Want {
            ino: 0,
            goal: self.geometry.group_start(group),
            len: 1,
            keep: 0,
        };
        let run = self.allocate(tx, want).await?;
        self.drop_xattr_block(tx, node).await?;
        let buffer = self.persist.create(tx, run.start, Purpose::Attribute);
        buffer.checked.set(true);
        self.write_xattr_block(tx, &buffer, &mut bytes);
        node.update(|attr| attr.sectors += SECTORS);
        self.edit_inode(tx, node, |slot| raw::set_xattr_block(slot, run.start));
        Ok(())
    }

    /// Drops the inode's reference to its block of attributes; frees the block with the last
    /// reference.
    pub(crate) async fn drop_xattr_block(&self, tx: &P::Tx, node: &Node) -> Result<()> {
        let Some(buffer) = self.xattr_block(node).await? else {
            return Ok(());
        };
        let references = xattr::REFERENCES.get(&buffer.bytes()[..]);
        if references > 1 {
            let mut bytes = *buffer.bytes();
            xattr::REFERENCES.put(&mut bytes[..], references - 1);
            self.write_xattr_block(tx, &buffer, &mut bytes);
        } else {
            let run = Run {
                start: buffer.block,
                len: 1,
            };
            self.release(tx, run, true).await?;
        }
        node.update(|attr| attr.sectors = attr.sectors.saturating_sub(SECTORS));
        self.edit_inode(tx, node, |slot| raw::set_xattr_block(slot, 0));
        Ok(())
    }
}
