//! Threads on cores: scheduling, the costs of switches, and the effects of delay hints.

use crate::timing::{FOOTPRINT, config, load, run, run_on, store};
use memsys::model::Listed;
use memsys::{
    Cause, Far, FarEvent, Line, LineData, Machine, Metrics, Op, Place, Policy, ReadReply, Tag,
    TakeAll, Tick, Values,
};
use sim::{Kernel, Sim};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use units::{MIB, Ns};

#[test]
fn threads_go_on_together_after_they_met() {
    let quick = vec![Op::Meet, Op::Compute(400), Op::Meet];
    let slow = vec![Op::Compute(400_000), Op::Meet, Op::Compute(400), Op::Meet];
    let metrics = run(&config(2, Place::Local), vec![quick, slow]);
    assert_eq!(metrics.time, Ns(25_000 + 25));
    assert_eq!(metrics.counts.switches, 0, "each had a core of its own");
}

#[test]
fn more_threads_than_cores_share_them_by_slices() {
    for policy in [Policy::Cfs, Policy::Random, Policy::RoundRobin] {
        let mut shared = config(2, Place::Local);
        shared.os.policy = policy;
        let thread = |n: u64| {
            let step = |m: u64| [Op::Compute(400), load(n * MIB + m % 64 * 64, 0)];
            (0..8_000).flat_map(step).collect::<Vec<_>>()
        };
        // Six threads of 200 µs on two cores, by slices of 100 µs.
        let metrics = run(&shared, (0..6).map(thread).collect());
        let counts = &metrics.counts;
        assert!((8..=14).contains(&counts.preemptions), "{counts:?}");
        let spent = metrics.spent_on(Cause::Switch);
        assert_eq!(spent, Tick::of(Ns::us(2)).times(counts.switches));
    }
}

/// A device that reads pages from flash: it answers with a delay hint first, and with data once
/// the page is there.
#[derive(Default)]
struct Pages {
    ready: BTreeMap<u64, Ns>,
}

struct Hinting {
    sim: Sim,
    state: Rc<RefCell<Pages>>,
    events: Rc<RefCell<VecDeque<FarEvent>>>,
    flash: Ns,
    hints: bool,
    /// A page of which it gives no hint.
    silent: u64,
    /// Whether pages are evicted before the requesting thread returns.
    forgets: bool,
}

impl Hinting {
    fn new(sim: &Sim, flash: Ns, hints: bool) -> Self {
        Self {
            sim: sim.clone(),
            state: Rc::default(),
            events: Rc::default(),
            flash,
            hints,
            silent: u64::MAX,
            forgets: false,
        }
    }

    fn wait(&self, ready: Ns, tag: Tag) -> ReadReply {
        let (sim, events) = (self.sim.clone(), Rc::clone(&self.events));
        self.sim.spawn_detached(async move {
            sim.sleep_until(ready).await;
            events
                .borrow_mut()
                .push_back(FarEvent::Data(tag, ready, None));
        });
        ReadReply::Waits
    }
}

impl Far for Hinting {
    fn read(&mut self, now: Ns, line: Line, tag: Tag) -> ReadReply {
        let ready = now + self.flash;
        let ready = *self
            .state
            .borrow_mut()
            .ready
            .entry(line.0 / 64)
            .or_insert(ready);
        if ready <= now && !self.forgets {
            return ReadReply::Data(now + Ns(100), None);
        }
        if self.hints && line.0 / 64 != self.silent {
            return ReadReply::Delay(now + Ns(50));
        }
        self.wait(ready, tag)
    }

    fn read_to_wait(&mut self, now: Ns, _: Line, tag: Tag) -> ReadReply {
        self.wait(now + self.flash, tag)
    }

    fn write(&mut self, now: Ns, _: Line, _: LineData) -> Option<Ns> {
        Some(now + Ns(40))
    }

    fn event(&mut self) -> Option<FarEvent> {
        self.events.borrow_mut().pop_front()
    }

    fn dropped(&mut self, _: Ns, _: u64) -> u64 {
        0
    }
}

/// Threads that each load from pages of their own, one after the other.
fn far_pages(threads: u64, pages: u64) -> Vec<Vec<Op>> {
    let thread = |number: u64| {
        let one = |n: u64| [load((number * pages + n) * 4_096, 1), Op::Compute(400)];
        (0..pages).flat_map(one).collect()
    };
    (0..threads).map(thread).collect()
}

fn hinted(threads: u64, pages: u64, flash: Ns, hints: bool) -> Metrics {
    let kernel = Kernel::new();
    let far = Hinting::new(&kernel.sim(), flash, hints);
    run_on(
        &config(1, Place::Far),
        &kernel,
        far,
        far_pages(threads, pages),
    )
}

#[test]
fn other_threads_run_while_one_waits_for_flash() {
    //= skybyte 3.1
    let flash = Ns::us(30);
    let waiting = hinted(1, 240, flash, false);
    let switching = hinted(12, 20, flash, true);
    // 240 reads of flash in a row, or about one switch each with flash in parallel.
    assert!(waiting.time > Ns(240 * 30_000));
    assert!(switching.time < Ns(240 * 30_000 / 6), "{}", switching.time);
    assert_eq!(
        switching.flash.count, 0,
        "what raised an exception is no access"
    );
    assert!(switching.counts.long_delays >= 240);
    assert_eq!(switching.counts.hints, switching.counts.long_delays);
    // Each of them was asked in vain, for the link and the 50 ns until its hint.
    let vain = switching.in_vain;
    assert_eq!(vain.count, switching.counts.hints);
    let each = vain.device.0 as f64 / Tick::of(Ns(vain.count)).0 as f64;
    assert!((50.0..51.0).contains(&each), "{each}");
    let bears = (vain.outside + vain.device).0 as f64 / Tick::PER_NS as f64;
    let bears = bears / switching.device.count as f64;
    let whole = switching.amat() + bears;
    assert!((switching.amat_with_vain() - whole).abs() < 1e-6 * whole && bears > 80.0);
    assert_eq!(waiting.in_vain.count, 0);
    let spent = switching.spent_on(Cause::Switch);
    assert_eq!(spent, Tick::of(Ns::us(2)).times(switching.counts.switches));
}

#[test]
fn a_thread_alone_comes_back_until_its_data_are_there() {
    let metrics = hinted(1, 10, Ns::us(7), true);
    // After 2 µs each, the third or fourth return finds the page.
    assert!(
        (30..=40).contains(&metrics.counts.long_delays),
        "{:?}",
        metrics.counts
    );
    assert_eq!(
        metrics.counts.repeated_delays,
        metrics.counts.long_delays - 10
    );
}

#[test]
fn thread_that_never_finds_its_page_finally_waits_for_it() {
    let config = config(1, Place::Far);
    let kernel = Kernel::new();
    let mut far = Hinting::new(&kernel.sim(), Ns::us(7), true);
    far.forgets = true;
    let metrics = run_on(&config, &kernel, far, far_pages(2, 10));
    // One exception of each page, and a thousand in a row; then it comes after 7 µs.
    assert_eq!(metrics.counts.long_delays, 2 * 10 * 1_001);
    assert_eq!(metrics.counts.repeated_delays, 2 * 10 * 1_000);
    assert_eq!(metrics.flash.count, 2 * 10);
}

#[test]
fn delayed_operation_squashes_younger_ones() {
    // The load that takes long is followed by others of its page: one exception.
    let ops: Vec<Op> = (0..8).map(|n| load(n * 64, 0)).collect();
    let kernel = Kernel::new();
    let far = Hinting::new(&kernel.sim(), Ns(1_500), true);
    let metrics = run_on(&config(1, Place::Far), &kernel, far, vec![ops]);
    assert_eq!(metrics.counts.long_delays, 1);
    assert_eq!((metrics.counts.loads, metrics.counts.squashed), (8, 8));
    assert_eq!(metrics.instructions, 8);
}

#[test]
fn hint_for_a_retired_store_raises_no_exception() {
    let kernel = Kernel::new();
    let far = Hinting::new(&kernel.sim(), Ns::us(20), true);
    let ops = vec![store(0), Op::Compute(40_000)];
    let metrics = run_on(&config(1, Place::Far), &kernel, far, vec![ops]);
    assert_eq!(metrics.counts.long_delays, 0);
    assert!(
        metrics.time >= Ns::us(20),
        "the buffer asked until it had the line"
    );
}

/// Notes which thread loads after which.
#[derive(Default)]
struct Order {
    threads: Vec<u32>,
}

impl Values for Order {
    const KEPT: bool = true;

    fn stored(&mut self, _: u32, _: u64, _: &[u8]) {}

    fn loaded(&mut self, thread: u32, _: u64, _: &[u8]) {
        if self.threads.last() != Some(&thread) {
            self.threads.push(thread);
        }
    }
}

/// The order in which the threads of one core have loaded.
fn order(policy: Policy, flash: Ns, threads: Vec<Vec<Op>>) -> Vec<u32> {
    let mut config = config(1, Place::Far);
    config.os.policy = policy;
    let kernel = Kernel::new();
    let far = Hinting::new(&kernel.sim(), flash, true);
    let program = Listed::new(threads, FOOTPRINT);
    let made = Machine::new(&config, &kernel, far, program, Order::default(), TakeAll);
    let mut machine = made.unwrap();
    machine.run().unwrap();
    machine.values().threads.clone()
}

/// So many microseconds of work with a load in each half of one, of a page of its own.
fn work(number: u64, micros: u64) -> Vec<Op> {
    let step = [Op::Compute(8_000), load(number * MIB, 0)];
    (0..2 * micros).flat_map(|_| step).collect()
}

#[test]
fn policy_chooses_the_next_thread() {
    //= skybyte 3.1
    // One that is away for flash again and again, and two that never are but at first.
    let light = (0..12).flat_map(|page| [load(page * 4_096, 1), Op::Compute(8_000)]);
    let threads = || vec![light.clone().collect(), work(20, 600), work(21, 600)];
    let of = |policy| order(policy, Ns::us(20), threads());
    let (cfs, turns) = (of(Policy::Cfs), of(Policy::RoundRobin));
    let light_goes_first = |order: &[u32]| {
        // After one of the others, though the third has waited longer.
        let threes = order.windows(3).filter(|three| three[1] == 0);
        threes.filter(|three| three[0] == three[2]).count()
    };
    assert_eq!(light_goes_first(&turns), 0, "{turns:?}");
    let by_turns = turns.windows(4).filter(|four| four[0] == four[3]);
    assert!(by_turns.count() > turns.len() / 2, "{turns:?}");
    assert!(cfs.len() > turns.len() / 2, "{cfs:?}");
    let last = |order: &[u32]| order.iter().rposition(|&thread| thread == 0).unwrap();
    assert!(last(&cfs) < last(&turns), "{cfs:?} {turns:?}");
    let drawn = of(Policy::Random);
    assert!(drawn != cfs && drawn != turns && drawn == of(Policy::Random));
}

#[test]
fn a_thread_that_yields_at_once_pays_for_its_switches() {
    //= skybyte 3.1
    let kernel = Kernel::new();
    let far = Hinting::new(&kernel.sim(), Ns::ms(2), true);
    let page = 20 * MIB / 4_096;
    far.state.borrow_mut().ready.insert(page, Ns::ZERO);
    let threads = vec![vec![load(0, 0)], work(20, 1_000)];
    let metrics = run_on(&config(1, Place::Far), &kernel, far, threads);
    // It comes back in half of the time that its page takes, and the other works in the rest.
    let most = 2_000_000 / 2 / 2_000 + 60;
    assert!(
        metrics.counts.repeated_delays < most,
        "{:?}",
        metrics.counts
    );
}

#[test]
fn a_thread_that_slept_has_saved_up_no_time() {
    //= skybyte 3.1
    let sleeper = [vec![Op::Meet], work(20, 1_000)].concat();
    let waker = [work(21, 1_500), vec![Op::Meet], work(21, 1_000)].concat();
    let order = order(Policy::Cfs, Ns(1), vec![sleeper, waker]);
    // After they met they take turns.
    let turns = order.iter().filter(|&&thread| thread == 0).count();
    assert!(turns >= 8, "{order:?}");
}

#[test]
fn a_line_that_comes_is_one_miss_however_often_it_was_asked_for() {
    // Two loads of each of three lines of a page, in a row.
    let page = |page: u64| (0..6).map(move |n| load(page * 4_096 + n / 2 * 64 + n % 2 * 8, 0));
    let ops: Vec<Op> = (0..20).flat_map(page).collect();
    for hints in [false, true] {
        let kernel = Kernel::new();
        let far = Hinting::new(&kernel.sim(), Ns::us(7), hints);
        let metrics = run_on(&config(1, Place::Far), &kernel, far, vec![ops.clone()]);
        assert_eq!(metrics.caches.llc_misses, 60, "{:?}", metrics.counts);
    }
}

#[test]
fn the_register_of_a_squashed_miss_is_free_for_the_next_thread() {
    //= skybyte 3.1
    let time = |frees| {
        let kernel = Kernel::new();
        let mut far = Hinting::new(&kernel.sim(), Ns::us(30), true);
        far.silent = 1;
        far.state.borrow_mut().ready.insert(2, Ns::ZERO);
        let mut config = config(1, Place::Far);
        config.l1.misses = 1;
        config.os.free_on_squash = frees;
        // The second load takes the register once there is a hint for the first.
        let squashed = vec![load(0, 0), load(4_096, 0)];
        let next = vec![load(2 * 4_096, 1), Op::Compute(16 * 60_000)];
        run_on(&config, &kernel, far, vec![squashed, next]).time
    };
    let (freed, kept) = (time(true), time(false));
    assert!(freed + Ns::us(25) < kept, "{freed} {kept}");
}

#[test]
fn what_was_prepared_is_not_measured_though_an_exception_comes_late() {
    let measured = |number: u64| (0..50).map(move |n| load(number * MIB + n * 64, 0));
    let thread = |number: u64| {
        // Nothing of it has come when the core comes to the end of the preparation.
        let prepared =
            (0..9).flat_map(move |page| [load(number * MIB + page * 4_096, 0), Op::Compute(10)]);
        let begin = [Op::Begin, Op::Meet];
        prepared.chain(begin).chain(measured(number)).collect()
    };
    for (cores, hints) in [(1, false), (1, true), (2, true), (4, true)] {
        let kernel = Kernel::new();
        let far = Hinting::new(&kernel.sim(), Ns::us(7), hints);
        let config = config(cores, Place::Far);
        let metrics = run_on(&config, &kernel, far, (0..4).map(thread).collect());
        let counted = (metrics.instructions, metrics.counts.loads);
        assert_eq!(counted, (200, 200), "{cores} cores, hints: {hints}");
        // Nor is how long it took: all that is measured is at hand.
        let latencies = metrics.latencies();
        assert_eq!(latencies.count(), metrics.device.count);
        assert!(latencies.longest() < Tick::of(Ns::us(1)));
    }
}

#[test]
fn a_retired_store_takes_the_register_of_a_squashed_miss() {
    //= skybyte 3.1
    let flash = Ns::us(200);
    let kernel = Kernel::new();
    let mut far = Hinting::new(&kernel.sim(), flash, true);
    far.silent = 1;
    for (page, ready) in [(4, Ns::ZERO), (0, Ns::us(3))] {
        far.state.borrow_mut().ready.insert(page, ready);
    }
    let mut config = config(1, Place::Far);
    config.l1.misses = 1;
    // The first load has the register until the store has retired, the second until its hint
    // is there, and the third when the second is squashed.
    let ops = vec![
        load(4 * 4_096, 0),
        store(7 * 4_096),
        load(0, 0),
        load(4_096, 0),
    ];
    let metrics = run_on(&config, &kernel, far, vec![ops]);
    assert!(metrics.counts.long_delays > 0 && metrics.counts.squashed > 0);
    // The store waits for flash beside the third load and not after it.
    assert!(metrics.time < flash + Ns::us(20), "{}", metrics.time);
}

#[test]
fn squash_wakes_an_operation_that_waits_for_an_mshr_of_the_last_cache() {
    //= skybyte 3.1
    let flash = Ns::us(200);
    let kernel = Kernel::new();
    let mut far = Hinting::new(&kernel.sim(), flash, true);
    far.silent = 1;
    for (page, ready) in [(4, Ns::ZERO), (2, Ns::ZERO), (0, Ns::us(3))] {
        far.state.borrow_mut().ready.insert(page, ready);
    }
    let mut config = config(2, Place::Far);
    (config.llc.misses, config.l1.cycles) = (1, 40);
    // The hint arrives long before the older loads have retired, which take 10 ns each.
    let older = vec![load(4 * 4_096, 1); 100];
    let squashed = [older, vec![load(0, 0), load(4_096, 0)]].concat();
    // It asks while the last load of the other has the register, and then works as long as
    // that takes.
    let other = vec![
        Op::Compute(16 * 800),
        load(2 * 4_096, 1),
        Op::Compute(16 * 180_000),
    ];
    let metrics = run_on(&config, &kernel, far, vec![squashed, other]);
    assert!(metrics.counts.squashed > 0);
    assert!(metrics.time < flash + Ns::us(20), "{}", metrics.time);
}
