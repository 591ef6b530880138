//! Comments for a reader of learned rules.

use super::kinds::weight;
use super::survive::{median, taken};
use super::{FileLife, Learned, Plan};
use crate::rules::{Notes, span};
use crate::scale::{self, STEPS};
use units::{Bytes, Ns};

/// Expected lifetime of the data of `own`, to two digits: the time after which half of the bytes
/// are dead; or if that was longer than the recording, the median with living files counted at
/// twice their age.
pub(super) fn expect(files: &[FileLife], own: &[usize]) -> Ns {
    let spans: Vec<_> = own
        .iter()
        .map(|&at| (files[at].span(), weight(&files[at])))
        .collect();
    let steps = median(&spans).unwrap_or_else(|| {
        let mut taken: Vec<u64> = spans.iter().map(|(span, _)| taken(*span)).collect();
        taken.sort_unstable();
        taken.get(taken.len() / 2).copied().unwrap_or(0)
    });
    Ns(scale::round(scale::exp2(steps)))
}

/// Comments on the rule file, its streams and its rules.
pub(super) fn notes(learned: &Learned, files: &[FileLife], plan: &Plan) -> Notes {
    let ratio = |per_mille: u64| format!("{}.{:02}", per_mille / 1000, per_mille % 1000 / 10);
    let wrote: u64 = files
        .iter()
        .fold(0, |sum, file| sum.saturating_add(file.written));
    let head = vec![
        format!(
            "Learned from {} files that wrote {}; {} of them are in no rule.",
            learned.files,
            Bytes(wrote),
            learned.unnamed
        ),
        format!(
            "Write amplification on models of drives that are barely larger than they were: {} by \
             these rules, {} without any.",
            ratio(learned.with.per_mille()),
            ratio(learned.without.per_mille())
        ),
        "The first rule that matches decides. Change what you know better.".to_owned(),
    ];
    Notes {
        head,
        streams: plan
            .of_stream
            .iter()
            .map(|own| of_stream(files, own))
            .collect(),
        rules: plan.of_rule.iter().map(|own| of_rule(files, own)).collect(),
    }
}

fn of_stream(files: &[FileLife], own: &[usize]) -> Vec<String> {
    let each = || own.iter().map(|&at| &files[at]);
    let wrote: u64 = each().fold(0, |sum, file| sum.saturating_add(file.written));
    let died = each().filter(|file| file.died).count();
    let in_place = each().filter(|file| file.in_place()).count();
    let syncs: u64 = each().map(|file| file.syncs).sum();
    let writes: u64 = each().map(|file| file.writes).sum();
    let mut sizes: Vec<u64> = each().map(|file| file.size).collect();
    sizes.sort_unstable();
    let size = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
    let mut lines = vec![format!(
        "{} files, {} written, {died} removed while it was recorded; half are above {}.",
        own.len(),
        Bytes(wrote),
        Bytes(size)
    )];
    let half = scale::log2(expect(files, own).0);
    let near = each()
        .filter(|file| file.span().steps.abs_diff(half) <= 2 * STEPS)
        .count();
    lines.push(format!(
        "{} in 100 files live within a factor of 4 of what is expected.",
        near * 100 / own.len().max(1)
    ));
    if in_place > 0 {
        lines.push(format!("{in_place} are written in place."));
    }
    if syncs > 0 {
        let every = writes.checked_div(syncs).unwrap_or(0).max(1);
        lines.push(format!("Made durable after every {every} writes."));
    }
    lines
}

fn of_rule(files: &[FileLife], own: &[usize]) -> Vec<String> {
    let spans: Vec<_> = own.iter().map(|&at| (files[at].span(), 1)).collect();
    let example = own
        .first()
        .map(|&at| String::from_utf8_lossy(&files[at].path).into_owned());
    let lives = match median(&spans) {
        Some(steps) => format!(
            "half are dead after {}",
            span(Ns(scale::round(scale::exp2(steps))))
        ),
        None => "most were alive at the end".to_owned(),
    };
    let example = example.unwrap_or_default();
    vec![format!("{} files, such as {example}; {lives}.", own.len())]
}
