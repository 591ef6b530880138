//! Where pages lie, which are kept, and where they go back to.

use super::*;
use crate::config::{NodeConfig, PageSize};
use crate::tiering::{Moves, Tiering};
use units::{Bytes, MIB};

fn pages(limit: u64, demote: Demote) -> Pages {
    let config = Config {
        nodes: vec![
            NodeConfig { memory: Bytes(MIB) },
            NodeConfig {
                memory: Bytes(2 * MIB),
            },
        ],
        far: Bytes(8 * MIB),
        pinned: vec![(4_096 * 5, 4_096 * 6)],
        tiering: Tiering::Hinted(Moves {
            limit: Bytes(limit * 4_096),
            demote,
            ..Moves::default()
        }),
        page: PageSize::Small,
        ..Config::default()
    };
    Pages::new(&config, 4 * MIB).unwrap()
}

#[test]
fn pages_lie_on_the_device_in_order_at_first() {
    let pages = pages(10, Demote::DirtyLines);
    for page in 0..1_024 {
        assert_eq!(pages.first_line(page), far_line(page * 64));
        assert_eq!(pages.at_far(far_line(page * 64 + 63)), Some(page));
    }
    assert!(!pages.may_move(5) && pages.may_move(6));
}

#[test]
fn room_is_taken_at_the_devices_node_and_then_where_most_is_free() {
    let mut pages = pages(10_000, Demote::DirtyLines);
    let nodes: Vec<u64> = std::iter::from_fn(|| pages.take_frame())
        .map(|line| split(line).0)
        .collect();
    assert_eq!(nodes.len(), 768);
    assert!(nodes[..256].iter().all(|&node| node == 0));
    assert!(nodes[256..].iter().all(|&node| node == 1));
}

#[test]
fn a_page_that_is_referenced_stays_longer() {
    for demote in [Demote::DirtyLines, Demote::WholePage] {
        let mut pages = pages(4, demote);
        for page in 0..4 {
            let line = pages.take_frame().unwrap();
            pages.moved_in(page, line);
        }
        assert_eq!(pages.take_frame(), None, "the limit holds");
        pages.reference(0);
        assert_eq!(pages.victim(), Some(1));
        pages.mark_dirty(pages.first_line(1) + 9);
        let back = pages.send_back(1).unwrap();
        let expected = match demote {
            Demote::DirtyLines => (far_line(64), 1 << 9),
            // The lowest page that is free, which is that of page 0.
            Demote::WholePage => (far_line(0), u64::MAX),
        };
        assert_eq!((back.to, back.lines[0]), expected);
        assert_eq!(pages.at_far(back.to), Some(1));
        assert_eq!(pages.victim(), Some(2));
        assert!(pages.take_frame().is_some());
    }
}

#[test]
fn a_page_is_warm_when_it_is_accessed_between_two_samples() {
    let mut pages = pages(4, Demote::DirtyLines);
    let mut told = Vec::new();
    pages.sample(1_024, |page| told.push(page));
    assert_eq!(told.len(), 1_023, "pinned pages are left alone");
    assert_eq!(pages.reference(3), Sampled::Once);
    assert_eq!(pages.reference(3), Sampled::No);
    pages.sample(1_024, |_| {});
    assert_eq!(pages.reference(3), Sampled::Again);
}
