//! Extended attributes: entries of the log, with the value in the entry if it fits, else in a page
//! of its own.

use crate::alloc::Class;
use crate::commit::Step;
use crate::entry::{Entry, VALUE_MAX, Value, is_inline};
use crate::format::{LINE_BYTES, PAGE_BYTES};
use crate::fs::{Node, NovaFs};
use crate::pieces::Run;
use host::Purpose;
use vfs::{Errno, Result, Timestamp, XattrFlags};

impl NovaFs {
    /// Value of an extended attribute, read from its page if need be.
    pub(crate) async fn xattr(&self, node: &Node, name: &[u8]) -> Result<Vec<u8>> {
        let value = node.private.state.borrow().xattr(name).cloned();
        match value.ok_or(Errno::ENODATA)? {
            Value::Inline(value) => Ok(value),
            Value::Page(page, len) => {
                let mut value = vec![0; len];
                let (at, who) = (page * PAGE_BYTES, self.who(Purpose::Attribute));
                self.load_bytes(at, &mut value, who).await?;
                Ok(value)
            }
        }
    }

    /// Sets an extended attribute.
    pub(crate) async fn add_xattr(
        &self,
        node: &Node,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()> {
        let _turn = self.turns(&[node]).await;
        let there = node.private.state.borrow().xattr(name).is_some();
        match (flags, there) {
            (XattrFlags::Create, true) => return Err(Errno::EEXIST),
            (XattrFlags::Replace, false) => return Err(Errno::ENODATA),
            _ => {}
        }
        if is_inline(name.len(), value.len()) {
            let value = Value::Inline(value.to_vec());
            return self.log_xattr(node, name, Some(value), now).await;
        }
        if value.len() > VALUE_MAX {
            return Err(self.refuse_value(value.len()));
        }
        let page = self.take(1, Class::Growth)?[0].start;
        let mut bytes = value.to_vec();
        bytes.resize(value.len().next_multiple_of(LINE_BYTES as usize), 0);
        let (at, who) = (page * PAGE_BYTES, self.who(Purpose::Attribute));
        self.store(at, &bytes, who).await?;
        let value = Value::Page(page, value.len());
        let done = self.log_xattr(node, name, Some(value), now).await;
        if done.is_err() && !self.failed.get() {
            self.give([Run {
                start: page,
                len: 1,
            }]);
        }
        done
    }

    /// Removes an extended attribute and frees its page.
    pub(crate) async fn drop_xattr(&self, node: &Node, name: &[u8], now: Timestamp) -> Result<()> {
        let _turn = self.turns(&[node]).await;
        let there = node.private.state.borrow().xattr(name).is_some();
        if !there {
            return Err(Errno::ENODATA);
        }
        self.log_xattr(node, name, None, now).await
    }

    async fn log_xattr(
        &self,
        node: &Node,
        name: &[u8],
        value: Option<Value>,
        ctime: Timestamp,
    ) -> Result<()> {
        let class = match value {
            Some(_) => Class::Growth,
            None => Class::Upkeep,
        };
        let name = name.into();
        let entry = Entry::Xattr { name, value, ctime };
        self.commit(vec![Step::new(node, vec![entry])], class)
            .await?;
        node.update(|attr| attr.ctime = ctime);
        Ok(())
    }

    /// The names of all extended attributes.
    pub(crate) fn xattr_names(node: &Node) -> Vec<Vec<u8>> {
        let state = node.private.state.borrow();
        state.xattrs().map(|(name, _)| name.to_vec()).collect()
    }
}
