//! The power cut at events of a run that writes, deallocates, flushes and cleans.

use crate::support::{Left, Model, Rig, SECTORS, Shared, ftl_config, read, tiny, value, work};
use host::BlockPort;
use sim::{Cut, Kernel, Seed};
use ssd::DriveConfig;

/// Runs up to event `event` over what `left` holds; gives what the cut leaves.
fn cut(config: &DriveConfig, seed: Seed, event: u64, left: Left, model: &Shared) -> Option<Left> {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, left);
    let (running, model, on) = (rig.clone(), model.clone(), config.clone());
    kernel.sim().spawn_detached(async move {
        let ftl = running
            .mount(ftl_config(&on))
            .await
            .expect("what a cut left");
        for index in 0..3 {
            let rng = seed.child(index.into()).stream("work");
            let work = work(ftl.clone(), model.clone(), rng, (index, 3), 400);
            running.sim.spawn_detached(work);
        }
    });
    let mut rng = Seed(event).stream("memory");
    match kernel.run_to_cut(event, || rig.cut(&mut rng)) {
        Cut::Off(left) => Some(left),
        Cut::AtRest => None,
    }
}

/// Mounts what a cut left, and compares every sector; gives it as it is then.
fn judge(config: &DriveConfig, left: Left, model: &Shared, what: &str) -> Left {
    let kernel = Kernel::new();
    let rig = Rig::on(&kernel, config, left);
    let (on, model, what, again) = (config.clone(), model.clone(), what.to_owned(), rig.clone());
    let mounted = kernel.block_on(async move {
        let ftl = again.mount(ftl_config(&on)).await;
        let ftl = ftl.unwrap_or_else(|error| panic!("{what}: {error}"));
        ftl.check();
        let held = read(&ftl, 0, SECTORS).await.expect("it can be read");
        for (sector, payload) in (0..).zip(&held) {
            let held = value(payload).expect("a number over and over");
            let may = format!("{:?}", model.borrow());
            let fits = model.borrow_mut().survives(sector, held);
            assert!(
                fits,
                "{what}: sector {sector} is {held:#x}: {}",
                &may[..may.len().min(400)]
            );
        }
        ftl.flush().await.expect("there is nothing to do");
        ftl
    });
    drop(mounted);
    rig.cut(&mut Seed(1).stream("none"))
}

fn explore(config: &DriveConfig, kept: bool, seed: Seed, step: u64) -> u64 {
    let mut cuts = 0;
    for event in (0..).step_by(step as usize) {
        let model = Model::shared();
        let Some(left) = cut(config, seed, event, Left::new(config, kept), &model) else {
            break;
        };
        let left = judge(config, left, &model, &format!("event {event}"));
        // What has recovered is used again, and cut again.
        let later = 200 + event % 997;
        if event % 5 == 0
            && let Some(left) = cut(config, seed.child(event), later, left, &model)
        {
            judge(config, left, &model, &format!("event {event} and {later}"));
            cuts += 1;
        }
        cuts += 1;
    }
    cuts
}

#[test]
fn a_cut_keeps_what_was_promised_with_the_table_in_memory() {
    let cuts = explore(&tiny(), false, Seed(1), 31);
    assert!(cuts > 120, "{cuts} cuts");
}

#[test]
fn a_cut_keeps_what_was_promised_with_the_table_in_persistent_memory() {
    let cuts = explore(&tiny(), true, Seed(2), 31);
    assert!(cuts > 120, "{cuts} cuts");
}

#[test]
fn a_cut_keeps_what_was_promised_where_programs_fail() {
    let mut config = tiny();
    config.faults.program_failures = 5_000;
    for kept in [false, true] {
        let cuts = explore(&config, kept, Seed(3), 41);
        assert!(cuts > 50, "{cuts} cuts");
    }
}

/// Cuts one after the other, each of which tears the open lines, do not use up lines as
/// long as one is cleaned in between.
#[test]
fn many_cuts_in_a_row_leave_room_to_go_on() {
    let config = tiny();
    for kept in [false, true] {
        let model = Model::shared();
        let mut left = Left::new(&config, kept);
        for turn in 0..60 {
            let seed = Seed(7).child(turn);
            let next = cut(&config, seed, 1_500 + 37 * (turn % 23), left, &model);
            let next = next.expect("there is more to do");
            left = judge(&config, next, &model, &format!("turn {turn}"));
        }
    }
}
