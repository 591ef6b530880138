//! The device under a host that moves pages away.

use crate::support::small;
use memsys::{
    Far, FarEvent, Line, Machine, NodeConfig, Op, Program, ReadReply, Tag, TakeAll, Tiering,
    TimeOnly,
};
use sim::{Kernel, Seed};
use skybyte::{CxlSsd, Design, DeviceMedia, Prefetch, Profile, Replacement, host};
use ssd::Precondition;
use units::{Bytes, MIB, Ns};

/// One thread that reads ten lines of each page, and never comes back.
struct Passing {
    pages: u64,
    next: u64,
}

impl Program for Passing {
    fn threads(&self) -> u32 {
        1
    }

    fn footprint(&self) -> Bytes {
        Bytes(self.pages * 4096)
    }

    fn next(&mut self, _: u32, ops: &mut Vec<Op>) -> bool {
        let page = self.next * 4096;
        if self.next == self.pages {
            return false;
        }
        self.next += 1;
        ops.extend((0..10).map(|line| Op::Load {
            at: page + line * 64,
            size: 8,
            after: 1,
        }));
        true
    }
}

#[test]
fn the_threshold_falls_where_most_accesses_are_to_pages_that_leave() {
    //= skybyte 3.3
    let mut config = small("skybyte-full", Profile::Default);
    config.drive.flash.keep_contents = false;
    config.cache.prefetch = Prefetch::None;
    config.hints.enabled = false;
    config.promotion.epoch = 500;
    let mut computer = host::computer(
        Profile::Default,
        Design::named("skybyte-full").expect("it is in the table"),
    );
    let Tiering::Hinted(moves) = &mut computer.tiering else {
        panic!("the design moves pages");
    };
    moves.limit = Bytes(64 * 4096);
    let memory = Bytes(8 * MIB);
    computer.nodes = vec![NodeConfig { memory }];
    (computer.cores, computer.far) = (1, config.drive.capacity);

    let kernel = Kernel::new();
    let media = DeviceMedia::new(&config, Precondition::Full, Seed(1)).unwrap();
    let device = CxlSsd::ready(&kernel.sim(), &config, media, Seed(1)).unwrap();
    let program = Passing {
        pages: 1_000,
        next: 0,
    };
    let made = Machine::new(&computer, &kernel, device, program, TimeOnly, TakeAll);
    let mut machine = made.unwrap();
    let metrics = machine.run().unwrap();
    assert!(metrics.counts.promotions > 500, "{:?}", metrics.counts);
    // Nine of ten accesses are counted, and at a threshold of 5 six of them lead to a
    // move, which is between the two shares.
    let front = machine.far().metrics();
    assert_eq!(front.hot_threshold, 5, "{:?}", front.front);
}

#[test]
fn page_copy_blocks_on_flash_where_a_read_gets_a_delay_hint() {
    //= skybyte 3.3
    let config = small("skybyte-full", Profile::Default);
    let kernel = Kernel::new();
    let media = DeviceMedia::new(&config, Precondition::Full, Seed(1)).unwrap();
    let mut device = CxlSsd::ready(&kernel.sim(), &config, media, Seed(1)).unwrap();
    let now = kernel.sim().now();
    let told = device.read(now, Line(0), Tag(0));
    assert!(matches!(told, ReadReply::Delay(_)), "{told:?}");
    for (page, tag) in [(0, Tag(1)), (8, Tag(2))] {
        // Whether its page is on its way or not.
        let reply = device.copy_read(now, Line(page * 64), tag);
        assert_eq!(reply, ReadReply::Waits);
    }
    kernel.run_until(now + Ns::us(100));
    let mut came = Vec::new();
    while let Some(event) = device.event() {
        if let FarEvent::Data(tag, ..) = event {
            came.push(tag);
        }
    }
    came.sort();
    assert_eq!(came, [Tag(1), Tag(2)]);
}

#[test]
fn a_page_that_is_copied_is_not_in_use() {
    let mut config = small("base-cssd", Profile::Default);
    config.cache.prefetch = Prefetch::None;
    config.cache.replacement = Replacement::Lru;
    config.dram.bytes = Bytes(4 * 4096);
    let kernel = Kernel::new();
    let media = DeviceMedia::new(&config, Precondition::Full, Seed(1)).unwrap();
    let mut device = CxlSsd::ready(&kernel.sim(), &config, media, Seed(1)).unwrap();
    let mut read = |page: u64, copies: bool| {
        let (now, line) = (kernel.sim().now(), Line(page * 64));
        let reply = match copies {
            true => device.copy_read(now, line, Tag(0)),
            false => device.read(now, line, Tag(0)),
        };
        kernel.run_until(now + Ns::us(100));
        while let Some(event) = device.event() {
            assert!(matches!(event, FarEvent::Data(..)));
        }
        (reply, device.metrics().front)
    };
    for page in 0..4 {
        assert_eq!(read(page, false).0, ReadReply::Waits);
    }
    let before = read(3, false).1;
    let (copied, after) = read(0, true);
    assert!(matches!(copied, ReadReply::Data(..)));
    assert_eq!(
        (before.reads, before.cache_hits),
        (after.reads, after.cache_hits)
    );
    // The fifth takes the place of the one that leaves.
    assert_eq!(read(4, false).0, ReadReply::Waits);
    assert!(matches!(read(1, false).0, ReadReply::Data(..)));
    assert_eq!(read(0, false).0, ReadReply::Waits);
}
