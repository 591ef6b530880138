//! `reproduce`: what a paper claims beside what is measured here.

use super::experiment::Experiment;
use super::failure::Failure;
use super::memory;
use super::output::{self, Shown, note};
use clap::Args;
use machine::reproduce as memories;
use report::claim::Reproduction;
use report::table::{self, Side, listing};
use serde::Serialize;
use serde::de::DeserializeOwned;
use stack::reproduce::{Asked, Listed, PAPERS, Paper, prepare};
use std::num::NonZeroUsize;
use std::process::ExitCode;

/// Status where a claim that was measured does not hold.
const MISSED: u8 = 1;

/// Run the plans of a paper and set what they measure beside what it claims
///
/// Without a paper it lists what can be reproduced. A value holds that is within a
/// third of the paper's, and a trend that goes its way. Claims about what is not built
/// are listed with the reason. The status is 1 if a claim that was measured does not
/// hold.
#[derive(Args)]
pub(crate) struct Reproduce {
    /// The paper, or one figure of it: bytefs, bytefs/fig6
    #[arg(value_name = "PAPER[/FIGURE]")]
    what: Option<String>,
    /// How large: small, or paper for the sizes of the paper, which take hours
    #[arg(long, default_value = "small")]
    scale: String,
    /// Seed of everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs at a time [default: one a core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    shown: Shown,
}

/// The document of the list.
#[derive(Serialize)]
struct List {
    papers: Vec<PaperEntry>,
}

/// A paper and its figures.
#[derive(Serialize)]
struct PaperEntry {
    name: &'static str,
    title: String,
    figures: Vec<FigureEntry>,
}

/// A figure.
#[derive(Serialize)]
struct FigureEntry {
    name: String,
    title: String,
    source: String,
    claims: usize,
}

impl Reproduce {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let Some(what) = &self.what else {
            return Ok(output::emit(&self.list()?));
        };
        let (paper, figure) = what
            .split_once('/')
            .map_or((&**what, None), |(p, f)| (p, Some(f)));
        if paper == memories::PAPER {
            return self.memory(what, figure);
        }
        let prepared = prepare(self.asked(what)?)?;
        let plans = prepared.plans.clone();
        let (runs, paper) = (plans.len(), what);
        note(&format!("flashloom: {paper} takes {runs} runs"));
        let experiment = Experiment::of(plans)?;
        let reproduction = prepared.claims(experiment.sweep(super::threads(self.threads))?);
        Ok(self.show(&reproduction))
    }

    /// The paper whose systems are memory.
    fn memory(&self, what: &str, figure: Option<&str>) -> Result<ExitCode, Failure> {
        let prepared = memories::prepare(figure, &self.scale, self.seed)?;
        let runs = prepared.setups.len();
        note(&format!("flashloom: {what} takes {runs} runs"));
        let runs = memory::sweep(&prepared.setups, super::threads(self.threads))?;
        Ok(self.show(&prepared.claims(runs)))
    }

    fn show<R: Serialize + DeserializeOwned>(&self, reproduction: &Reproduction<R>) -> ExitCode {
        let text = match self.shown.json {
            true => report::to_json(reproduction),
            false => table::claims(reproduction, Shown::style()),
        };
        let shown = output::emit(&text);
        match reproduction.claims.iter().any(|c| c.holds == Some(false)) {
            true => ExitCode::from(MISSED),
            false => shown,
        }
    }

    fn asked(&self, what: &str) -> Result<Asked, Failure> {
        let (name, figure) = match what.split_once('/') {
            Some((name, figure)) => (name, Some(figure.to_owned())),
            None => (what, None),
        };
        let names = || {
            let names = PAPERS.iter().map(|paper| paper.name);
            names
                .chain([memories::PAPER])
                .collect::<Vec<_>>()
                .join(", ")
        };
        let paper = Paper::named(name).ok_or_else(|| {
            Failure::new(format!("expected a paper ({}), found {name:?}", names()))
        })?;
        let scales = paper.scales()?;
        let factor = scales.get(&self.scale).copied().ok_or_else(|| {
            let known = scales.keys().cloned().collect::<Vec<_>>().join(", ");
            let found = &self.scale;
            Failure::new(format!("--scale: expected one of {known}, found {found:?}"))
        })?;
        Ok(Asked {
            paper,
            figure,
            scale: self.scale.clone(),
            factor,
            seed: self.seed,
        })
    }

    fn list(&self) -> super::Answer {
        let mut papers = Vec::new();
        for paper in PAPERS {
            let entry = |listed: Listed| FigureEntry {
                name: listed.name,
                title: listed.title,
                source: listed.source,
                claims: listed.claims,
            };
            papers.push(PaperEntry {
                name: paper.name,
                title: paper.title()?,
                figures: paper.list()?.into_iter().map(entry).collect(),
            });
        }
        let figures = memories::list()?.into_iter().map(|listed| FigureEntry {
            name: listed.name,
            title: listed.title,
            source: listed.source,
            claims: listed.claims,
        });
        papers.push(PaperEntry {
            name: memories::PAPER,
            title: memories::title()?,
            figures: figures.collect(),
        });
        let list = List { papers };
        self.shown.answer("flashloom.papers/1", &list, |style| {
            let rows = list.papers.iter().flat_map(|paper| {
                let whole = [paper.name, "", "", &paper.title]
                    .map(str::to_owned)
                    .to_vec();
                let figures = paper.figures.iter().map(|f| {
                    let (name, source, title) = (f.name.clone(), f.source.clone(), f.title.clone());
                    vec![name, f.claims.to_string(), source, title]
                });
                std::iter::once(whole).chain(figures)
            });
            let columns = [
                ("what", Side::Left),
                ("claims", Side::Right),
                ("in the paper", Side::Left),
                ("title", Side::Left),
            ];
            listing(&columns, &rows.collect::<Vec<_>>(), style)
                + "\nReproduce one: flashloom reproduce bytefs/fig6\n"
        })
    }
}
