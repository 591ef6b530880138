//! Choice of the cuts that are tried.

use sim::Seed;
use std::fmt;
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
    /// This cut alone, as a failure names it.
    One(Cut),
}

impl Points {
    /// The events, ascending, of a run that has `events`.
    #[must_use]
    pub fn choose(&self, events: u64, seed: Seed) -> Vec<u64> {
        match *self {
            Self::One(cut) => vec![cut.event],
            Self::Some(most) if most < events => sample(most, events, seed),
            Self::All | Self::Some(_) => (0..=events).collect(),
        }
    }

    /// Whether recovery from a cut before `event` is cut too, and before which of
    /// its `events`.
    #[must_use]
    pub fn recovery(&self, event: u64, events: u64, seed: Seed) -> Option<u64> {
        if let Self::One(cut) = self {
            return cut.recovery;
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
        let chosen = Points::Some(100).choose(10_000, Seed(1));
        assert_eq!(chosen.len(), 100);
        assert!(chosen.is_sorted_by(|a, b| a < b));
        let early = chosen.iter().filter(|&&event| event < 5_000).count();
        assert!((30..=70).contains(&early), "{early}");
        assert_eq!(Points::Some(100).choose(10_000, Seed(1)), chosen);
        assert_ne!(Points::Some(100).choose(10_000, Seed(2)), chosen);
    }

    #[test]
    fn a_short_run_is_tried_whole_and_so_is_its_end() {
        assert_eq!(Points::Some(9).choose(3, Seed(1)), [0, 1, 2, 3]);
        assert_eq!(Points::All.choose(2, Seed(1)), [0, 1, 2]);
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
