//! Rows of real and measured values, and their errors by drive and kind.
//!
//! Invariant: errors are averaged within a drive and kind first, then over the kinds of a drive,
//! then over drives, so that no drive with many rows speaks for the rest. Fitted rows are counted
//! apart.

use super::jobs::Text;
use super::measure::Measured;
use super::rows::{Document, Experiment};
use serde::Serialize;
use std::collections::BTreeMap;

/// A published value beside the model's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the drive.
    pub drive: String,
    /// Kind of the experiment.
    pub kind: String,
    /// The quantity, and the direction of its requests if the source names one.
    pub what: String,
    /// Unit of the values.
    pub unit: String,
    /// The published value in this unit.
    pub real: f64,
    /// The model's value; `None` if it was not run.
    pub measured: Option<f64>,
    /// Relative difference in percent; `None` if it was not run.
    pub error: Option<f64>,
    /// Source of the published value.
    pub source: String,
    /// Whether the value set a constant of the preset.
    pub fitted: bool,
    /// The jobs in short.
    pub job: String,
    /// Reason why the value was not measured; empty if it was.
    pub reason: String,
}

/// The rows of `experiment`, which gave `outcome`.
#[must_use]
pub fn rows(
    document: &Document,
    experiment: &Experiment,
    outcome: &Result<Measured, String>,
) -> Vec<Row> {
    let config = super::drives::drive(document, experiment);
    let direction = |of| {
        let (config, factor) = config.as_ref().ok()?;
        let text = Text {
            document,
            experiment,
            config,
            factor: *factor,
        };
        text.direction(of)
    };
    // A smaller drive has its share of the life of the whole.
    let share_of = |what: &str| match (&config, what) {
        (Ok((_, factor)), "tbw") => *factor,
        _ => 1.0,
    };
    let row = |value: &super::rows::Value| {
        let measured = outcome.as_ref().map_err(Clone::clone);
        let measured = measured.and_then(|measured| {
            let found = measured.value(&value.what, &value.unit, direction(value.of));
            let found = found.ok_or_else(|| "the run had no such request".to_owned())?;
            Ok(found / share_of(&value.what))
        });
        let of = value.of.map_or_else(String::new, |of| format!("{of:?} "));
        Row {
            drive: document.drive.clone(),
            kind: experiment.kind.clone(),
            what: format!("{}{}", of.to_lowercase(), value.what),
            unit: value.unit.clone(),
            real: value.real,
            error: measured
                .as_ref()
                .ok()
                .map(|m| (m / value.real - 1.0) * 100.0),
            reason: measured.as_ref().err().cloned().unwrap_or_default(),
            measured: measured.ok(),
            source: experiment.source.clone(),
            fitted: value.fitted,
            job: brief(experiment),
        }
    };
    experiment.values.iter().map(row).collect()
}

/// The jobs or the command of an experiment in one line.
fn brief(experiment: &Experiment) -> String {
    if let Some(zone) = &experiment.zone {
        let action = format!("{:?}", zone.action).to_lowercase();
        return format!("{action} after {} blocks", zone.blocks);
    }
    let words = [
        "rw",
        "bs",
        "iodepth",
        "numjobs",
        "rate_iops",
        "rate",
        "flow",
    ];
    let jobs = experiment.job.all().iter().map(|job| {
        let found = words.iter().filter_map(|&name| {
            let word = job.get(name)?.to_string();
            Some(match name {
                "rw" | "bs" => word,
                _ => format!("{name}={word}"),
            })
        });
        found.collect::<Vec<_>>().join(" ")
    });
    jobs.collect::<Vec<_>>().join(" beside ")
}

/// Median and 90th percentile of absolute errors, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Median of the absolute errors.
    pub median: f64,
    /// 90th percentile of the absolute errors.
    pub p90: f64,
}

impl Spread {
    /// The spread of `errors`; `None` if there are none.
    #[must_use]
    pub fn of(mut errors: Vec<f64>) -> Option<Self> {
        errors.sort_by(f64::total_cmp);
        let last = errors.len().checked_sub(1)?;
        let middle = |at: usize| errors[at.min(last)];
        let median = (middle(last / 2) + middle(last.div_ceil(2))) / 2.0;
        let nine = (errors.len() * 9).div_ceil(10) - 1;
        Some(Self {
            median,
            p90: middle(nine),
        })
    }
}

/// Errors of one kind of experiment on one drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Name of the drive.
    pub drive: String,
    /// Kind of the experiments.
    pub kind: String,
    /// Values measured, those that set no constant.
    pub values: usize,
    /// Their errors; `None` without values.
    pub errors: Option<Spread>,
    /// Values measured that set a constant.
    pub fitted: usize,
    /// Values that were not measured, by reason.
    pub left: BTreeMap<String, usize>,
}

/// Errors over all drives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Groups by drive and kind, in the order of the rows.
    pub groups: Vec<Group>,
    /// Drives with a measured value.
    pub drives: usize,
    /// Values measured, those that set no constant.
    pub values: usize,
    /// Spread over drives of the mean absolute error within a drive and kind, averaged over kinds.
    pub total: Option<Spread>,
    /// Values measured that set a constant.
    pub fitted: usize,
    /// Values that were not measured.
    pub left: usize,
}

impl Summary {
    /// The errors of `rows`.
    #[must_use]
    pub fn of(rows: &[Row]) -> Self {
        let mut groups: Vec<(Group, Vec<f64>)> = Vec::new();
        for row in rows {
            let known = groups
                .iter()
                .position(|(group, _)| group.drive == row.drive && group.kind == row.kind);
            let at = known.unwrap_or_else(|| {
                let group = Group {
                    drive: row.drive.clone(),
                    kind: row.kind.clone(),
                    values: 0,
                    errors: None,
                    fitted: 0,
                    left: BTreeMap::new(),
                };
                groups.push((group, Vec::new()));
                groups.len() - 1
            });
            let (group, errors) = &mut groups[at];
            match row.error {
                None => *group.left.entry(row.reason.clone()).or_default() += 1,
                Some(_) if row.fitted => group.fitted += 1,
                Some(error) => errors.push(error.abs()),
            }
        }
        let mut of_drives: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (group, errors) in &mut groups {
            group.values = errors.len();
            group.errors = Spread::of(errors.clone());
            if !errors.is_empty() {
                let mean = errors.iter().sum::<f64>() / errors.len() as f64;
                of_drives.entry(group.drive.clone()).or_default().push(mean);
            }
        }
        let means = of_drives.values();
        let means = means.map(|kinds| kinds.iter().sum::<f64>() / kinds.len() as f64);
        let groups: Vec<Group> = groups.into_iter().map(|(group, _)| group).collect();
        Self {
            drives: of_drives.len(),
            values: groups.iter().map(|group| group.values).sum(),
            total: Spread::of(means.collect()),
            fitted: groups.iter().map(|group| group.fitted).sum(),
            left: groups.iter().flat_map(|g| g.left.values()).sum(),
            groups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(drive: &str, kind: &str, error: Option<f64>) -> Row {
        Row {
            drive: drive.to_owned(),
            kind: kind.to_owned(),
            what: String::new(),
            unit: String::new(),
            real: 1.0,
            measured: error,
            error,
            source: String::new(),
            fitted: false,
            job: String::new(),
            reason: error.map_or_else(|| "why".to_owned(), |_| String::new()),
        }
    }

    #[test]
    fn total_gives_each_kind_and_each_drive_the_same_weight() {
        let mut rows = vec![row("a", "x", Some(-10.0)); 30];
        rows.push(row("a", "y", Some(30.0)));
        rows.push(row("b", "x", Some(60.0)));
        rows.push(row("b", "x", None));
        rows.push(Row {
            fitted: true,
            ..row("b", "x", Some(0.0))
        });
        let summary = Summary::of(&rows);
        let total = summary.total.unwrap();
        assert_eq!((total.median, total.p90), (40.0, 60.0));
        assert_eq!((summary.values, summary.fitted, summary.left), (32, 1, 1));
        assert_eq!((summary.drives, summary.groups.len()), (2, 3));
        assert_eq!(summary.groups[0].errors.unwrap().median, 10.0);
    }
}
