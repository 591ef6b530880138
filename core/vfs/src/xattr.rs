//! Extended attributes, with the permission rules of Linux for each namespace.

use crate::access::{READ, STICKY, WRITE, ensure};
use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::types::{Access, Attr, FileKind, Ino, XattrFlags};
use crate::vfs::Vfs;

/// Longest name, and longest value, in bytes.
const NAME_MAX: usize = 255;
const VALUE_MAX: usize = 65_536;

impl<B: Body> Vfs<B> {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`, `EACCES`, `EOPNOTSUPP` for an unknown namespace, `ERANGE` for a
    /// name that is too long, `EIO`.
    pub async fn get_xattr(&self, who: &Access, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        check(who, &node.attr(), name, false)?;
        let _guard = node.lock.read().await;
        self.core.body.get_xattr(&node.inode, name).await
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As [`Vfs::get_xattr`]; `EEXIST`, `EPERM`, `E2BIG`, `ENOSPC`.
    pub async fn set_xattr(
        &self,
        who: &Access,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        ensure(value.len() <= VALUE_MAX, Errno::E2BIG)?;
        check(who, &node.attr(), name, true)?;
        let guard = node.lock.write().await;
        let (body, now) = (&self.core.body, self.core.now());
        body.set_xattr(&node.inode, name, value, flags, now).await?;
        self.core.settle_unlocked(&node, guard).await
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As [`Vfs::set_xattr`].
    pub async fn remove_xattr(&self, who: &Access, ino: Ino, name: &[u8]) -> Result<()> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        check(who, &node.attr(), name, true)?;
        let guard = node.lock.write().await;
        let (body, now) = (&self.core.body, self.core.now());
        body.remove_xattr(&node.inode, name, now).await?;
        self.core.settle_unlocked(&node, guard).await
    }

    /// The names of all extended attributes that the caller may see.
    ///
    /// # Errors
    /// `EIO`.
    pub async fn list_xattrs(&self, who: &Access, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        let _guard = node.lock.read().await;
        let mut names = self.core.body.list_xattrs(&node.inode).await?;
        names.retain(|name| who.is_root() || !name.starts_with(b"trusted."));
        Ok(names)
    }
}

fn check(who: &Access, attr: &Attr, name: &[u8], change: bool) -> Result<()> {
    let fits = !name.is_empty() && name.len() <= NAME_MAX;
    ensure(fits, Errno::ERANGE)?;
    let dot = name.iter().position(|&b| b == b'.');
    let (space, rest) = name.split_at(dot.ok_or(Errno::EOPNOTSUPP)?);
    ensure(rest.len() > 1, Errno::EINVAL)?;
    let refused = if change { Errno::EPERM } else { Errno::ENODATA };
    match space {
        b"user" => check_user(who, attr, refused, change),
        b"trusted" => ensure(who.is_root(), refused),
        b"security" => ensure(!change || who.is_root(), Errno::EPERM),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

fn check_user(who: &Access, attr: &Attr, refused: Errno, change: bool) -> Result<()> {
    let kind = matches!(attr.kind, FileKind::Regular | FileKind::Directory);
    ensure(kind, refused)?;
    let sticky = attr.kind == FileKind::Directory && attr.mode & STICKY != 0;
    ensure(!(change && sticky) || who.owns(attr), Errno::EPERM)?;
    who.check(attr, if change { WRITE } else { READ })
}
