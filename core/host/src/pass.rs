//! Delegation of port functions from a layer to the port below it.

/// Declares functions of a [`crate::BlockPort`] that delegate to the port below. The types
/// in their signatures must be in scope.
///
/// `host::pass_block!([|own| &own.disk] capacity, handles, trim);`
#[macro_export]
macro_rules! pass_block {
    ($to:tt $($name:ident),+) => { $($crate::pass_block!(@$name $to);)+ };
    (@capacity $to:tt) => { $crate::pass_on!($to BlockPort: fn capacity() -> Bytes); };
    (@handles $to:tt) => { $crate::pass_on!($to BlockPort: fn handles() -> u16); };
    (@read $to:tt) => {
        $crate::pass_on!($to BlockPort: async fn read(
            extent: Extent, sink: &mut impl Sink, who: Who
        ) -> Result<(), IoError>);
    };
    (@write $to:tt) => {
        $crate::pass_on!($to BlockPort: async fn write(
            extent: Extent, content: Content<'_>, placement: Placement, who: Who, fua: bool
        ) -> Result<(), IoError>);
    };
    (@trim $to:tt) => {
        $crate::pass_on!($to BlockPort: async fn trim(extent: Extent) -> Result<(), IoError>);
    };
    (@flush $to:tt) => {
        $crate::pass_on!($to BlockPort: async fn flush() -> Result<(), IoError>);
    };
    (@compute $to:tt) => { $crate::pass_on!($to BlockPort: fn compute(span: Ns) -> Computing); };
}

/// Declares functions of a [`crate::BytePort`] that delegate to the port below, like
/// [`pass_block`].
#[macro_export]
macro_rules! pass_bytes {
    ($to:tt $($name:ident),+) => { $($crate::pass_bytes!(@$name $to);)+ };
    (@has_transactions $to:tt) => {
        $crate::pass_on!($to BytePort: fn has_transactions() -> bool);
    };
    (@transaction_lines $to:tt) => {
        $crate::pass_on!($to BytePort: fn transaction_lines() -> u64);
    };
    (@load $to:tt) => {
        $crate::pass_on!($to BytePort: async fn load(
            at: u64, out: &mut [u8], who: Who
        ) -> Result<(), ByteError>);
    };
    (@commit $to:tt) => {
        $crate::pass_on!($to BytePort: async fn commit(tx: u32) -> Result<(), ByteError>);
    };
    (@recover $to:tt) => {
        $crate::pass_on!($to BytePort: async fn recover() -> Result<(), ByteError>);
    };
}

/// Declares functions of a [`crate::SwapPort`] that delegate to the port below, like
/// [`pass_block`].
#[macro_export]
macro_rules! pass_swaps {
    ($to:tt $($name:ident),+) => { $($crate::pass_swaps!(@$name $to);)+ };
    (@has_swaps $to:tt) => { $crate::pass_on!($to SwapPort: async fn has_swaps() -> bool); };
    (@most_changes $to:tt) => { $crate::pass_on!($to SwapPort: fn most_changes() -> usize); };
    (@stage $to:tt) => {
        $crate::pass_on!($to SwapPort: async fn stage(
            first: u64, all: &[Payload], who: Who
        ) -> Result<Option<u64>, IoError>);
    };
    (@unstage $to:tt) => { $crate::pass_on!($to SwapPort: fn unstage(number: u64)); };
    (@publish $to:tt) => {
        $crate::pass_on!($to SwapPort: async fn publish(
            staged: &[u64], changes: &[PageChange]
        ) -> Result<(), IoError>);
    };
}

/// Declares functions of a [`crate::ZonedPort`] that delegate to the port below, like
/// [`pass_block`].
#[macro_export]
macro_rules! pass_zoned {
    ($to:tt $($name:ident),+) => { $($crate::pass_zoned!(@$name $to);)+ };
    (@limits $to:tt) => { $crate::pass_on!($to ZonedPort: fn limits() -> ZoneLimits); };
    (@zone $to:tt) => { $crate::pass_on!($to ZonedPort: fn zone(zone: u32) -> Option<ZoneInfo>); };
    (@in_use $to:tt) => { $crate::pass_on!($to ZonedPort: fn in_use() -> ZoneUse); };
    (@refusals $to:tt) => { $crate::pass_on!($to ZonedPort: fn refusals() -> Refusals); };
    (@report $to:tt) => {
        $crate::pass_on!($to ZonedPort: async fn report(
            first: u32, count: u32
        ) -> Result<Vec<ZoneInfo>, ZoneStatus>);
    };
    (@read $to:tt) => {
        $crate::pass_on!($to ZonedPort: async fn read(
            extent: Extent, sink: &mut impl Sink, who: Who
        ) -> Result<(), ZoneStatus>);
    };
    (@copy $to:tt) => {
        $crate::pass_on!($to ZonedPort: async fn copy(
            sources: &[Extent], to: Lba
        ) -> Result<(), ZoneStatus>);
    };
    (@manage $to:tt) => {
        $crate::pass_on!($to ZonedPort: async fn manage(
            zone: u32, action: ZoneAction
        ) -> Result<(), ZoneStatus>);
    };
    (@commit $to:tt) => {
        $crate::pass_on!($to ZonedPort: async fn commit(end: Lba) -> Result<(), ZoneStatus>);
    };
    (@compute $to:tt) => { $crate::pass_on!($to ZonedPort: fn compute(span: Ns) -> Computing); };
}
