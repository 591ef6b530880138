//! Stacked bodies: functions that forward to the body below.

/// Implements functions of [`crate::Body`] by forwarding them to the body below, which has the same
/// inodes. Types in their signatures must be in scope.
///
/// `vfs::pass_body!([|own| &own.body] root, load, parent);`
#[macro_export]
macro_rules! pass_body {
    ($to:tt $($name:ident),+) => { $($crate::pass_body!(@$name $to);)+ };
    (@wants_duplicates $to:tt) => { $crate::pass_on!($to Body: fn wants_duplicates() -> bool); };
    (@is_dax $to:tt) => { $crate::pass_on!($to Body: fn is_dax() -> bool); };
    (@takes_write $to:tt) => {
        $crate::pass_on!($to Body: async fn takes_write(
            who: &Access, inode: &Inode<Self::Private>, offset: u64, len: u64
        ) -> Result<bool>);
    };
    (@max_size $to:tt) => { $crate::pass_on!($to Body: fn max_size() -> u64); };
    (@times $to:tt) => { $crate::pass_on!($to Body: fn times() -> TimeRange); };
    (@max_links $to:tt) => { $crate::pass_on!($to Body: fn max_links() -> u32); };
    (@is_read_only $to:tt) => { $crate::pass_on!($to Body: fn is_read_only() -> bool); };
    (@is_frozen $to:tt) => {
        $crate::pass_on!($to Body: fn is_frozen(inode: &Inode<Self::Private>) -> bool);
    };
    (@root $to:tt) => { $crate::pass_on!($to Body: fn root() -> Ino); };
    (@load $to:tt) => {
        $crate::pass_on!($to Body: async fn load(ino: Ino) -> Result<Inode<Self::Private>>);
    };
    (@evict $to:tt) => {
        $crate::pass_on!($to Body: async fn evict(inode: &Inode<Self::Private>) -> Result<()>);
    };
    (@lookup $to:tt) => {
        $crate::pass_on!($to Body: async fn lookup(
            dir: &Inode<Self::Private>, name: &[u8]
        ) -> Result<Option<Ino>>);
    };
    (@create_unnamed $to:tt) => {
        $crate::pass_on!($to Body: async fn create_unnamed(
            new: NewInode<'_>
        ) -> Result<Inode<Self::Private>>);
    };
    (@rmdir $to:tt) => {
        $crate::pass_on!($to Body: async fn rmdir(
            dir: &Inode<Self::Private>, name: &[u8], inode: &Inode<Self::Private>, now: Timestamp
        ) -> Result<()>);
    };
    (@readlink $to:tt) => {
        $crate::pass_on!($to Body: async fn readlink(
            inode: &Inode<Self::Private>
        ) -> Result<Vec<u8>>);
    };
    (@read_dir $to:tt) => {
        $crate::pass_on!($to Body: async fn read_dir(
            dir: &Inode<Self::Private>, cookie: u64, most: usize
        ) -> Result<Vec<DirEntry>>);
    };
    (@last_cookie $to:tt) => {
        $crate::pass_on!($to Body: async fn last_cookie(
            dir: &Inode<Self::Private>
        ) -> Result<u64>);
    };
    (@parent $to:tt) => {
        $crate::pass_on!($to Body: async fn parent(dir: &Inode<Self::Private>) -> Result<Ino>);
    };
    (@truncate $to:tt) => {
        $crate::pass_on!($to Body: async fn truncate(
            inode: &Inode<Self::Private>, old: u64
        ) -> Result<()>);
    };
    (@seal_end $to:tt) => {
        $crate::pass_on!($to Body: async fn seal_end(inode: &Inode<Self::Private>) -> Result<()>);
    };
    (@end_on_medium $to:tt) => {
        $crate::pass_on!($to Body: fn end_on_medium(inode: &Inode<Self::Private>) -> u64);
    };
    (@read_pages $to:tt) => {
        $crate::pass_on!($to Body: async fn read_pages(
            inode: &Inode<Self::Private>, first: u64, pages: &mut [Payload]
        ) -> Result<()>);
    };
    (@reserve $to:tt) => {
        $crate::pass_on!($to Body: async fn reserve(
            who: &Access, inode: &Inode<Self::Private>, pages: Range<u64>
        ) -> Result<()>);
    };
    (@write_pages $to:tt) => {
        $crate::pass_on!($to Body: async fn write_pages(
            inode: &Inode<Self::Private>, pages: &[DirtyPage]
        ) -> Result<()>);
    };
    (@read_direct $to:tt) => {
        $crate::pass_on!($to Body: async fn read_direct(
            inode: &Inode<Self::Private>, offset: u64, out: &mut [u8]
        ) -> Result<()>);
    };
    (@write_direct $to:tt) => {
        $crate::pass_on!($to Body: async fn write_direct(
            who: &Access, inode: &Inode<Self::Private>, offset: u64, bytes: &[u8]
        ) -> Result<u64>);
    };
    (@fallocate $to:tt) => {
        $crate::pass_on!($to Body: async fn fallocate(
            who: &Access, inode: &Inode<Self::Private>,
            mode: FallocateMode, range: Range<u64>, now: Timestamp
        ) -> Result<()>);
    };
    (@clones $to:tt) => { $crate::pass_on!($to Body: fn clones() -> bool); };
    (@seek $to:tt) => {
        $crate::pass_on!($to Body: async fn seek(
            inode: &Inode<Self::Private>, offset: u64, what: SeekWhat
        ) -> Result<Option<u64>>);
    };
    (@change $to:tt) => {
        $crate::pass_on!($to Body: fn change(inode: &Inode<Self::Private>) -> Change);
    };
    (@settle $to:tt) => {
        $crate::pass_on!($to Body: async fn settle(change: Change) -> Result<()>);
    };
    (@sync $to:tt) => {
        $crate::pass_on!($to Body: async fn sync(
            inode: &Inode<Self::Private>, data_only: bool
        ) -> Result<()>);
    };
    (@sync_all $to:tt) => { $crate::pass_on!($to Body: async fn sync_all() -> Result<()>); };
    (@unmount $to:tt) => { $crate::pass_on!($to Body: async fn unmount() -> Result<()>); };
    (@get_xattr $to:tt) => {
        $crate::pass_on!($to Body: async fn get_xattr(
            inode: &Inode<Self::Private>, name: &[u8]
        ) -> Result<Vec<u8>>);
    };
    (@list_xattrs $to:tt) => {
        $crate::pass_on!($to Body: async fn list_xattrs(
            inode: &Inode<Self::Private>
        ) -> Result<Vec<Vec<u8>>>);
    };
    (@stat $to:tt) => { $crate::pass_on!($to Body: fn stat() -> StatFs); };
    (@count_extents $to:tt) => {
        $crate::pass_on!($to Body: async fn count_extents() -> Result<Option<ExtentCounts>>);
    };
    (@tree_stats $to:tt) => { $crate::pass_on!($to Body: fn tree_stats() -> Option<TreeStats>); };
}
