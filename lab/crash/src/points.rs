//! Choice of the cuts that are tried.

use sim::Seed;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// Recovery is cut as well at one point in four.
const RECOVERY_IN: u64 = 4;

/// One cut: before which event of the run, and, if recovery is cut as well,
/// before which of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// Event of the run, from 0.
    pub event: u64,
    /// Event of the recovery, from 0.
    pub recovery: Option<u64>,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.recovery {
            None => write!(f, "{}", self.event),
            Some(recovery) => write!(f, "{}:{recovery}", self.event),
        }
    }
}

impl FromStr for Cut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            let wrong = || {
                format!("expected EVENT or EVENT:EVENT-OF-RECOVERY, such as 1234:5, got {text:?}")
            };
            part.parse::<u64>().map_err(|_| wrong())
        };
        let (event, recovery) = match text.split_once(':') {
            None => (text, None),
            Some((event, recovery)) => (event, Some(number(recovery)?)),
        };
        Ok(Self {
            event: number(event)?,
            recovery,
        })
    }
}

/// Events of a run before which the power is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Points {
    /// Every event, and the end of the run.
    All,
    /// This number of events, chosen by the seed; all if the run has no more.
    Some(u64),
    /// The events after which the subject has made more durable ([`crate::Subject::marks`]), and
    /// the end of the run. No recovery is cut.
    Marks,
    /// The start, every event so many after the one before, and the end of the run. No recovery is
    /// cut.
    Every(NonZeroU64),
    /// This cut alone, as a failure names it.
    One(Cut),
}

impl Points {
    /// The events, ascending, of a run that has `events`, and made more durable before `marks`.
    #[must_use]
    pub fn choose(&self, events: u64, marks: Vec<u64>, seed: Seed) -> Vec<u64> {
        let ended = |mut chosen: Vec<u64>| {
            if chosen.last() != Some(&events) {
                chosen.push(events);
            }
            chosen
        };
        match *self {
            Self::One(cut) => vec![cut.event],
            Self::Marks => ended(marks),
            Self::Every(every) => {
                let every = usize::try_from(every.get()).unwrap_or(usize::MAX);
                ended((0..=events).step_by(every).collect())
            }
            Self::Some(most) if most < events => sample(most, events, seed),
            Self::All | Self::Some(_) => (0..=events).collect(),
        }
    }

    /// Whether recovery from a cut before `event` is cut too, and before which of
    /// its `events`.
    #[must_use]
    pub fn recovery(&self, event: u64, events: u64, seed: Seed) -> Option<u64> {
        match self {
            Self::One(cut) => return cut.recovery,
            Self::Marks | Self::Every(_) => return None,
            Self::All | Self::Some(_) => {}
        }
        let mut rng = seed.stream(&format!("recovery {event}"));
        (events > 0 && rng.below(RECOVERY_IN) == 0).then(|| rng.below(events))
    }
}

/// `most` of the numbers 0 to `events`, each set of them as likely: for each slot
/// in turn, the number is taken with the chance that is left for it.
fn sample(most: u64, events: u64, seed: Seed) -> Vec<u64> {
    let mut rng = seed.stream("points");
    let mut chosen = Vec::new();
    let (mut wanted, mut left) = (most, events + 1);
    for event in 0..=events {
        if rng.below(left) < wanted {
            chosen.push(event);
            wanted -= 1;
        }
        left -= 1;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_distinct_ascending_and_spread() {
        let chosen = Points::Some(100).choose(10_000, Vec::new(), Seed(1));
        assert_eq!(chosen.len(), 100);
        assert!(chosen.is_sorted_by(|a, b| a < b));
        let early = chosen.iter().filter(|&&event| event < 5_000).count();
        assert!((30..=70).contains(&early), "{early}");
        assert_eq!(
            Points::Some(100).choose(10_000, Vec::new(), Seed(1)),
            chosen
        );
        assert_ne!(
            Points::Some(100).choose(10_000, Vec::new(), Seed(2)),
            chosen
        );
    }

    #[test]
    fn a_short_run_is_tried_whole_and_so_is_its_end() {
        assert_eq!(Points::Some(9).choose(3, Vec::new(), Seed(1)), [0, 1, 2, 3]);
        assert_eq!(Points::All.choose(2, Vec::new(), Seed(1)), [0, 1, 2]);
    }

    #[test]
    fn marks_and_steps_end_with_the_run() {
        assert_eq!(Points::Marks.choose(9, vec![2, 5], Seed(1)), [2, 5, 9]);
        assert_eq!(Points::Marks.choose(5, vec![2, 5], Seed(1)), [2, 5]);
        let three = NonZeroU64::new(3).expect("not zero");
        assert_eq!(
            Points::Every(three).choose(7, vec![], Seed(1)),
            [0, 3, 6, 7]
        );
        assert_eq!(Points::Marks.recovery(2, 50, Seed(3)), None);
    }

    #[test]
    fn a_cut_is_written_as_it_is_read() {
        for text in ["7", "7:3"] {
            assert_eq!(text.parse::<Cut>().unwrap().to_string(), text);
        }
        let error = "7:x".parse::<Cut>().unwrap_err();
        assert!(error.contains("EVENT:EVENT-OF-RECOVERY"), "{error}");
    }

    #[test]
    fn one_recovery_in_four_is_cut() {
        let cut = |event| Points::All.recovery(event, 50, Seed(3));
        let cuts: Vec<_> = (0..400).filter_map(cut).collect();
        assert!((70..=130).contains(&cuts.len()), "{}", cuts.len());
        assert!(cuts.iter().all(|&event| event < 50));
        assert_eq!(Points::All.recovery(1, 0, Seed(3)), None);
    }
}
