//! Power cuts at every event of a run of writes and resets.

use super::{Mark, list, meta, on_media, raw, shape};
use nand::Payload;
use sim::{Cut, Kernel, Rng, Seed};
use ssd::{Cause, ChunkState, Chunks, Drive, DriveConfig, DriveMedia, Meta, Ppa};
use std::cell::RefCell;
use std::rc::Rc;
use units::Origin;

/// Contents that a chunk may have: acknowledged blocks, then blocks of the write under way; or
/// none, if a reset is under way.
#[derive(Clone, Debug, Default)]
struct Expected {
    acknowledged: Vec<u64>,
    under_way: Vec<u64>,
    resetting: bool,
}

type Model = Rc<RefCell<Vec<Expected>>>;

/// Chunks that the run works on, of both parallel units.
const CHUNKS: [u32; 4] = [0, 1, 26, 51];

async fn work(chunks: Chunks, model: Model, mut rng: Rng) {
    let geometry = chunks.geometry();
    for version in 1..60_u64 {
        let slot = rng.below(CHUNKS.len() as u64) as usize;
        let chunk = CHUNKS[slot];
        let info = chunks.info(chunk).unwrap();
        if info.state == ChunkState::Closed {
            model.borrow_mut()[slot].resetting = true;
            chunks.reset(&[info.start]).await.unwrap();
            model.borrow_mut()[slot] = Expected::default();
            continue;
        }
        let room = (geometry.blocks - info.write_pointer) / geometry.write_min;
        let units = 1 + rng.below(u64::from(room.min(4))) as u32;
        let at = list(
            &geometry,
            chunk,
            info.write_pointer,
            units * geometry.write_min,
        );
        let values: Vec<u64> = at.iter().map(|ppa| ppa.0 << 16 | version).collect();
        model.borrow_mut()[slot].under_way.clone_from(&values);
        write(&chunks, &at, &values).await;
        let expected = &mut model.borrow_mut()[slot];
        expected.under_way.clear();
        expected.acknowledged.extend(values);
    }
}

async fn write(chunks: &Chunks, at: &[Ppa], values: &[u64]) {
    let payload: Vec<Payload> = values.iter().map(|&v| Payload::Fill(v)).collect();
    let metas: Vec<Meta> = values.iter().map(|&v| meta(v)).collect();
    let mark = Mark {
        cause: Cause::Host,
        origin: Origin(0),
    };
    let marks = vec![mark; at.len()];
    chunks.write(at, &payload, &metas, &marks).await.unwrap();
}

/// Runs up to event `event`. Returns the media that a cut leaves, `None` if the run has ended, and
/// the contents that they may have.
fn cut(config: &DriveConfig, seed: Seed, event: u64) -> (Option<DriveMedia>, Vec<Expected>) {
    let kernel = Kernel::new();
    let media = DriveMedia::new(config, seed).unwrap();
    let drive = Drive::ready(&kernel.sim(), config, media, seed).unwrap();
    let model: Model = Rc::new(RefCell::new(vec![Expected::default(); CHUNKS.len()]));
    let chunks = drive.chunks().unwrap().clone();
    let running = work(chunks, Rc::clone(&model), seed.stream("work"));
    kernel.sim().spawn_detached(running);
    let left = match kernel.run_to_cut(event, || drive.at_power_cut()) {
        Cut::Off(media) => Some(media),
        Cut::AtRest => None,
    };
    let model = model.borrow().clone();
    (left, model)
}

/// Checks that the chunks have allowed contents and states after a cut.
fn judge(config: &DriveConfig, media: DriveMedia, expected: &[Expected], event: u64) {
    let geometry = shape(config);
    let (_, drive, _kernel) = on_media(config, media, |_, _| async {});
    for (slot, may) in expected.iter().enumerate() {
        let chunks = drive.chunks().unwrap();
        let info = chunks.info(CHUNKS[slot]).unwrap();
        let at = list(&geometry, CHUNKS[slot], 0, info.write_pointer);
        let held: Vec<u64> = at
            .iter()
            .map(|&ppa| match chunks.peek(ppa).unwrap() {
                ssd::RawBlock {
                    payload: Payload::Fill(value),
                    meta: beside,
                } if beside == meta(value) => value,
                other => panic!("event {event}: {other:?}"),
            })
            .collect();
        let all = [&may.acknowledged[..], &may.under_way[..]].concat();
        let kept = all.starts_with(&held) && held.len() >= may.acknowledged.len();
        let gone = may.resetting && held.is_empty();
        assert!(
            kept || gone,
            "event {event}, chunk {}: {held:?} of {may:?}",
            CHUNKS[slot]
        );
        let next = if held.is_empty() {
            ChunkState::Free
        } else {
            ChunkState::Open
        };
        let full = held.len() == geometry.blocks as usize;
        let goes_on = info.state == next && !full;
        assert!(
            goes_on || info.state == ChunkState::Closed,
            "event {event}: {info:?}"
        );
    }
    use_again(config, drive.at_power_cut());
}

/// Checks that every chunk can be filled, reset and written after a cut.
fn use_again(config: &DriveConfig, media: DriveMedia) {
    let geometry = shape(config);
    on_media(config, media, move |_, chunks| async move {
        for chunk in CHUNKS {
            let info = chunks.info(chunk).unwrap();
            let rest = list(
                &geometry,
                chunk,
                info.write_pointer,
                geometry.blocks - info.write_pointer,
            );
            if info.state != ChunkState::Closed {
                write(&chunks, &rest, &vec![1; rest.len()]).await;
            }
            chunks.reset(&[info.start]).await.unwrap();
            write(&chunks, &list(&geometry, chunk, 0, 4), &[2; 4]).await;
        }
    });
}

#[test]
fn cut_at_any_event_keeps_acknowledged_blocks_and_whole_units() {
    let config = raw();
    let mut cuts = 0;
    for seed in [Seed(1), Seed(2)] {
        for event in 0.. {
            let (media, expected) = cut(&config, seed, event);
            let Some(media) = media else { break };
            judge(&config, media, &expected, event);
            cuts += 1;
        }
    }
    assert!(cuts > 500, "{cuts} cuts");
}

#[test]
fn cut_during_power_on_changes_no_chunk() {
    let config = raw();
    let (media, _) = cut(&config, Seed(1), 200);
    let media = media.unwrap();
    let held = |media: DriveMedia| {
        let (_, drive, _kernel) = on_media(&config, media, |_, _| async {});
        (0..52)
            .map(|c| drive.chunks().unwrap().info(c))
            .collect::<Vec<_>>()
    };
    let kernel = Kernel::new();
    let (sim, again, on) = (kernel.sim(), media.clone(), config.clone());
    let drive = kernel.block_on(async move { Drive::power_on(&sim, &on, again, Seed(1)).await });
    assert!(kernel.sim().now() > units::Ns::ZERO, "looking takes time");
    assert_eq!(held(drive.unwrap().at_power_cut()), held(media));
}
