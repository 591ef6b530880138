//! Translation of directives to the kernel's write hints.

use super::Loss;
use super::fold::{Fold, lives};
use crate::directive::{Directive, Hint, Life, Stream, StreamId};

/// Map from lifetime classes to hints, for streams that declare no hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HintMap {
    /// Each class has the hint of its name: logs are short (2), tables that stay are extreme (5).
    #[default]
    ByName,
    /// The two hints that the dissertation shows, medium (3) for logs and extreme (5) for tables,
    /// with long (4) in between. It never uses short.
    Published,
}

impl HintMap {
    /// The hint for the class `life`.
    //= dissertation 5.2
    #[must_use]
    pub const fn hint(self, life: Life) -> Hint {
        match (self, life) {
            (Self::ByName, Life::Short) => Hint::Short,
            (Self::ByName, Life::Medium) | (Self::Published, Life::Short) => Hint::Medium,
            (Self::ByName, Life::Long) | (Self::Published, Life::Medium) => Hint::Long,
            (_, Life::Long | Life::Extreme) => Hint::Extreme,
        }
    }
}

/// The hint of each stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintPlan {
    hints: Vec<Hint>,
    lost: Vec<Loss>,
}

impl HintPlan {
    /// Chooses hints for `streams`: the declared hint; else that of the declared class by `map`;
    /// else that of a class by the expected lifetime, relative to the other such streams; else
    /// [`Hint::None`].
    //= dissertation 6.1.1
    #[must_use]
    pub fn new(streams: &[Stream], map: HintMap) -> Self {
        let classes = classes(streams);
        let hint = |at: usize| {
            let stream = &streams[at];
            let class = stream.life.or(classes[at]);
            let mapped = class.map_or(Hint::None, |life| map.hint(life));
            stream.hint.unwrap_or(mapped)
        };
        let hints: Vec<Hint> = (0..streams.len()).map(hint).collect();
        let lost = lost(streams, &hints);
        Self { hints, lost }
    }

    /// The hint for a file, the argument of `fcntl(F_SET_RW_HINT)`; `None` for a file that no rule
    /// names, which keeps its hint.
    #[must_use]
    pub fn hint(&self, directive: Option<Directive>) -> Option<Hint> {
        let StreamId(stream) = directive?.stream;
        self.hints.get(usize::from(stream)).copied()
    }

    /// Losses of the translation, apart from the durations of classes, which hints cannot express.
    #[must_use]
    pub fn lost(&self) -> Vec<Loss> {
        self.lost.clone()
    }
}

/// Classes of the streams that declare an expected lifetime but no class, by their order among
/// themselves; `None` for other streams.
pub(crate) fn classes(streams: &[Stream]) -> Vec<Option<Life>> {
    let said: Vec<usize> = (0..streams.len())
        .filter(|&at| streams[at].life.is_none() && streams[at].expect.is_some())
        .collect();
    let own: Vec<Stream> = said.iter().map(|&at| streams[at].clone()).collect();
    let mut classes = vec![None; streams.len()];
    for (at, life) in said.into_iter().zip(ranks(&own)) {
        classes[at] = Some(life);
    }
    classes
}

/// The class of each of `streams`, by their order among themselves.
pub(crate) fn ranks(streams: &[Stream]) -> Vec<Life> {
    let groups = streams.len().min(4);
    // Streams without groups get one target each.
    let plain = |stream: &Stream| Stream {
        grouping: crate::directive::Grouping::One,
        ..stream.clone()
    };
    let plain: Vec<Stream> = streams.iter().map(plain).collect();
    let fold = Fold::new(&plain, u32::try_from(groups).unwrap_or(4));
    let ladder: &[Life] = match groups {
        0 | 1 => &[Life::Medium],
        2 => &[Life::Short, Life::Extreme],
        3 => &[Life::Short, Life::Medium, Life::Extreme],
        _ => &Life::ALL,
    };
    fold.all()
        .map(|(first, _)| ladder[first as usize])
        .collect()
}

fn lost(streams: &[Stream], hints: &[Hint]) -> Vec<Loss> {
    let mut lost = Vec::new();
    for hint in Hint::ALL {
        let on = |&at: &usize| hints[at] == hint;
        let names = (0..streams.len()).filter(on);
        let names: Vec<String> = names.map(|at| streams[at].name.clone()).collect();
        if names.len() > 1 {
            lost.push(Loss::Class {
                class: hint.word(),
                streams: names,
            });
        }
    }
    let lives = lives(streams);
    for (at, stream) in streams.iter().enumerate() {
        let wrong = (0..streams.len()).find(|&other| {
            hints[at] > hints[other] && lives[at] < lives[other] && hints[other] > Hint::None
        });
        if let Some(other) = wrong {
            lost.push(Loss::Order {
                stream: stream.name.clone(),
                below: streams[other].name.clone(),
            });
        }
        if stream.grouping != crate::directive::Grouping::One {
            lost.push(Loss::Groups {
                stream: stream.name.clone(),
                targets: 1,
            });
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::Grouping;
    use crate::rules::{RuleSet, sets};
    use units::Ns;

    fn expecting(expect: u64) -> Stream {
        Stream {
            expect: Some(Ns(expect)),
            grouping: Grouping::One,
            ..Stream::new(expect.to_string())
        }
    }

    fn told(streams: &[Stream], map: HintMap) -> Vec<u8> {
        let plan = HintPlan::new(streams, map);
        let directive = |stream| Directive {
            stream: StreamId(stream),
            group: 0,
        };
        (0..streams.len() as u16)
            .map(|stream| plan.hint(Some(directive(stream))).unwrap() as u8)
            .collect()
    }

    //= dissertation 5.2
    #[test]
    fn hint_maps_give_the_published_values() {
        let text = sets::text("shimmer").unwrap();
        let rules = RuleSet::read("shimmer", text).unwrap();
        let (log, table) = (
            rules.stream("log").unwrap(),
            rules.stream("sstable").unwrap(),
        );
        let hint = |streams: &[Stream], map, stream: StreamId| {
            let at = usize::from(stream.0);
            told(streams, map)[at]
        };
        for map in [HintMap::ByName, HintMap::Published] {
            assert_eq!(hint(&rules.streams, map, log), 3, "the set says so itself");
            assert_eq!(hint(&rules.streams, map, table), 5);
        }
        let mut plain = rules.streams.clone();
        plain.iter_mut().for_each(|stream| stream.hint = None);
        assert_eq!(hint(&plain, HintMap::ByName, log), 2);
        assert_eq!(hint(&plain, HintMap::Published, log), 3);
        assert_eq!(hint(&plain, HintMap::Published, table), 5);
    }

    #[test]
    fn maps_keep_the_order_of_classes() {
        for map in [HintMap::ByName, HintMap::Published] {
            let hints = Life::ALL.map(|life| map.hint(life));
            assert!(hints.is_sorted());
            assert!(hints.iter().all(|hint| (2..=5).contains(&(*hint as u8))));
        }
    }

    //= dissertation 6.1.1
    #[test]
    fn streams_are_spread_over_four_classes_in_order_of_lifetime() {
        for count in 0..12_usize {
            let streams: Vec<Stream> = (0..count).map(|at| expecting(10 << (4 * at))).collect();
            let hints = told(&streams, HintMap::ByName);
            assert!(hints.is_sorted(), "{hints:?}");
            let mut distinct = hints.clone();
            distinct.dedup();
            assert_eq!(distinct.len(), count.min(4));
            if count > 1 {
                assert_eq!((hints[0], hints[count - 1]), (2, 5));
            }
            let lost = HintPlan::new(&streams, HintMap::ByName).lost();
            assert_eq!(lost.is_empty(), count <= 4);
        }
    }

    #[test]
    fn inverted_order_of_hints_is_a_loss() {
        let mut streams = [expecting(10), expecting(1_000)];
        streams[0].hint = Some(Hint::Extreme);
        streams[1].hint = Some(Hint::Short);
        let lost = HintPlan::new(&streams, HintMap::ByName).lost();
        let said: Vec<String> = lost.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            ["10 is told to live longer than 1000, which it does not"]
        );
        assert_eq!(HintPlan::new(&streams, HintMap::ByName).hint(None), None);
    }
}
