//! How an inode leads to the pages of a file: through addresses of its own, two direct
//! nodes, two indirect ones and a double indirect one, which are counted in this order.

use super::BLOCK;
use super::node::PER_NODE;

const NODE: u64 = PER_NODE as u64;

/// Pages that an inode with the fewest addresses leads to.
const PAGES_MAX: u64 = 873 + 2 * NODE + 2 * NODE * NODE + NODE * NODE * NODE;

/// Largest size of a file in bytes.
pub(crate) const SIZE_MAX: u64 = PAGES_MAX * BLOCK as u64;

/// A step from a node to one below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Which of the numbers in the node above.
    pub(crate) at: usize,
    /// The place in the file of the node that it leads to.
    pub(crate) offset: u32,
}

/// The way to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    steps: [Step; 3],
    depth: usize,
    /// Which of the addresses in the last node.
    pub(crate) at: usize,
}

impl Way {
    /// The steps from the inode on.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps[..self.depth]
    }
}

/// The way to page `page` of a file whose inode has so many addresses; none of a page
/// that no file has.
//= f2fs-layout 6
pub(crate) fn way(page: u64, addrs: usize) -> Option<Way> {
    let own = addrs as u64;
    let step = |at: u64, offset: u64| Step {
        at: at as usize,
        offset: offset as u32,
    };
    let none = step(0, 0);
    let found = |steps: [Step; 3], depth, at: u64| {
        Some(Way {
            steps,
            depth,
            at: at as usize,
        })
    };
    if page < own {
        return found([none; 3], 0, page);
    }
    let mut page = page - own;
    for direct in 0..2 {
        if page < NODE {
            return found([step(direct, 1 + direct), none, none], 1, page);
        }
        page -= NODE;
    }
    for indirect in 0..2 {
        let first = 3 + indirect * (NODE + 1);
        if page < NODE * NODE {
            let child = page / NODE;
            let steps = [
                step(2 + indirect, first),
                step(child, first + 1 + child),
                none,
            ];
            return found(steps, 2, page % NODE);
        }
        page -= NODE * NODE;
    }
    let first = 5 + 2 * NODE;
    let (outer, inner) = (page / (NODE * NODE), page / NODE % NODE);
    let middle = first + 1 + outer * (NODE + 1);
    let steps = [
        step(4, first),
        step(outer, middle),
        step(inner, middle + 1 + inner),
    ];
    if outer < NODE {
        found(steps, 3, page % NODE)
    } else {
        None
    }
}

/// The first page that the direct node at place `offset` leads to; none if no direct node is there.
pub(crate) fn first_page(offset: u32, addrs: usize) -> Option<u64> {
    let (own, offset) = (addrs as u64, u64::from(offset));
    let (ind1, ind2, dind) = (3, 4 + NODE, 5 + 2 * NODE);
    match offset {
        0 => Some(0),
        1 | 2 => Some(own + (offset - 1) * NODE),
        _ if offset == ind1 || offset == ind2 || offset == dind => None,
        _ if offset < ind2 => Some(own + 2 * NODE + (offset - ind1 - 1) * NODE),
        _ if offset < dind => Some(own + 2 * NODE + NODE * NODE + (offset - ind2 - 1) * NODE),
        _ => {
            let (outer, inner) = (
                (offset - dind - 1) / (NODE + 1),
                (offset - dind - 1) % (NODE + 1),
            );
            let inner = inner.checked_sub(1)?;
            let before = own + 2 * NODE + 2 * NODE * NODE;
            (outer < NODE).then_some(before + outer * NODE * NODE + inner * NODE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_pages_are_where_ways_lead() {
        let mut rng = sim::Seed(1).stream("ways");
        for addrs in [873, 923] {
            for _ in 0..50_000 {
                let less = rng.below(29);
                let page = rng.below(PAGES_MAX >> less);
                let way = way(page, addrs).unwrap();
                let offset = way.steps().last().map_or(0, |step| step.offset);
                assert_eq!(first_page(offset, addrs), Some(page - way.at as u64));
            }
            assert_eq!(way(PAGES_MAX + 50, addrs), None);
        }
        assert_eq!(first_page(3, 923), None);
    }

    #[test]
    fn the_places_of_nodes_are_those_of_the_format() {
        let last = |page| *way(page, 923).unwrap().steps().last().unwrap();
        assert_eq!(last(923).offset, 1);
        assert_eq!(last(923 + 1018).offset, 2);
        assert_eq!(last(923 + 2 * 1018).offset, 4);
        assert_eq!(last(923 + 2 * 1018 + 1018 * 1018).offset, 1023);
        let double = 923 + 2 * 1018 + 2 * 1018 * 1018;
        assert_eq!(way(double, 923).unwrap().steps()[0].offset, 2041);
        assert_eq!(last(double).offset, 2043);
    }
}
