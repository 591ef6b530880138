//! `reproduce`: the claims of papers beside the values measured here.

use super::Answer;
use super::experiment::{Experiment, command};
use super::failure::Failure;
use super::kept::{Found, Kept, Outcome, Wanted};
use super::output::{self, Shown};
use clap::Args;
use machine::reproduce as memories;
use machine::{Setup, Sweep, Witness};
use report::claim::{Claim, Document, Reproduction, document};
use report::figure::{Judged, Listed};
use report::papers::{Made, Papers};
use report::table::{self, Side, listing};
use serde::Serialize;
use stack::reproduce::{Asked, PAPERS, Paper, prepare};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Exit status if a measured claim does not hold.
const MISSED: u8 = 1;

/// Run the papers' experiments and judge each measured claim
///
/// With a paper or figure, run it and print its claims. Without one, run the experiments of all
/// papers and write report.md, report.html and report.json to a directory. The directory also keeps
/// each finished run, so that an interrupted reproduction resumes. A figure takes seconds to minutes
/// (bytefs/fig6: about five minutes on two cores), all papers take one to two hours.
///
/// Verdicts, by the kind of claim:
///
/// - A ratio, such as 1.31 times the throughput, holds if the measured ratio is within a third of
///   it, on the same side of 1, and its logarithm is between half and twice the logarithm of the
///   claimed ratio: from 1.145 to 1.716.
///
/// - Similarity holds if the measured ratio is within a tenth of 1, or of the number that the paper
///   gives.
///
/// - A trend, such as "faster", holds if the measured ratio is within the bounds that the plan
///   of the figure gives, such as "above 1, at most 2".
///
/// - An absolute value, such as 5.5 s, holds within a third, and a count, such as 512 extents, only
///   if it is equal.
///
/// A claim is of another regime if the experiment differs from the paper's by more than a factor
/// of two in a number that the figure declares. Headline counts cover the primary set-up of each
/// figure. Claims about parts that are not built, or whose runs fail, are listed with the reason.
/// The exit status is 1 if a measured claim does not hold.
#[derive(Args)]
pub(crate) struct Reproduce {
    /// Paper or figure, such as bytefs or bytefs/fig6 [default: all papers]
    #[arg(value_name = "PAPER[/FIGURE]")]
    what: Option<String>,
    /// List papers and figures
    #[arg(long, conflicts_with_all = ["what", "scale", "seed", "jobs", "out", "earlier", "judge", "seeds"])]
    list: bool,
    /// Scale: small, or paper for the papers' sizes (takes hours)
    #[arg(long, default_value = "small")]
    scale: String,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Parallel runs [default: one per core]
    #[arg(long, value_name = "N", value_parser = super::some)]
    jobs: Option<NonZeroUsize>,
    /// Directory of the report and of finished runs, which a later command reuses [default:
    /// reproduction for all papers; none for one paper or figure]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Reuse finished runs of earlier builds as well; the report says how many
    #[arg(long)]
    earlier: bool,
    /// Number of consecutive seeds to run, from --seed on. Each claim then shows the range of its
    /// values, and no verdict if the seeds disagree
    #[arg(long, value_name = "N", default_value = "1", value_parser = super::some)]
    seeds: NonZeroUsize,
    /// Run no experiment: judge the values of this earlier report.json by the current plans. Claims
    /// without a value count as not measured
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["jobs", "earlier", "seeds"])]
    judge: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

/// Default folder of the report on all papers.
const FOLDER: &str = "reproduction";

/// JSON document of `reproduce --list`.
#[derive(Serialize)]
struct List {
    papers: Vec<PaperEntry>,
}

/// Paper and its figures.
#[derive(Serialize)]
struct PaperEntry {
    name: &'static str,
    title: String,
    figures: Vec<Listed>,
}

/// Names of all papers.
fn names() -> impl Iterator<Item = &'static str> {
    PAPERS
        .iter()
        .map(|paper| paper.name)
        .chain([memories::PAPER])
}

/// [`MISSED`] if one of the measured `claims` did not hold, else `shown`, the status of the output.
fn status<'a>(claims: impl IntoIterator<Item = &'a Claim>, shown: ExitCode) -> ExitCode {
    match claims.into_iter().any(|claim| claim.holds == Some(false)) {
        true => ExitCode::from(MISSED),
        false => shown,
    }
}

/// The claims of a paper with the values of an `earlier` report, and the names of its runs.
fn judged(prepared: &Prepared, earlier: &Papers) -> (Reproduction<Document>, Runs) {
    let none = prepared.again(&Judged::default());
    let Some(old) = earlier.papers.iter().find(|old| old.paper == none.paper) else {
        let (names, kept) = (Vec::new(), 0);
        return (none, Runs { names, kept });
    };
    let values = Judged {
        lines: old.regimes.clone(),
        claims: old.claims.clone(),
    };
    let (names, kept) = (old.runs.clone(), 0);
    (prepared.again(&values), Runs { names, kept })
}

/// Runs of a paper by name, and the number reused from earlier.
struct Runs {
    names: Vec<String>,
    kept: usize,
}

/// Paper ready to be measured, on storage stacks or memory designs.
enum Prepared {
    Stacks(Box<stack::reproduce::Prepared>, Experiment),
    Memory(Box<memories::Prepared>),
}

impl Prepared {
    fn wanted(&self) -> Vec<Wanted> {
        match self {
            Self::Stacks(_, experiment) => {
                let plans = experiment.plans.iter();
                let wanted = |plan| Wanted {
                    name: experiment.name(plan),
                    told: experiment.told(plan),
                };
                plans.map(wanted).collect()
            }
            Self::Memory(prepared) => {
                let setups = prepared.setups.iter();
                let wanted = |setup: &Setup| Wanted {
                    name: format!("{} {}", setup.design.name, setup.workload.name()),
                    told: format!("{setup:?}"),
                };
                setups.map(wanted).collect()
            }
        }
    }

    /// Outcomes of all runs: those that are `found`, and the missing ones, made on up to `threads`
    /// threads and stored in `kept`.
    fn outcomes(
        &self,
        (wanted, found): (&[Wanted], Found),
        kept: &Kept,
        threads: usize,
    ) -> Vec<Outcome> {
        let missing = found.missing();
        match self {
            Self::Stacks(_, experiment) => {
                let make = |turn: usize| {
                    let run = experiment.run(missing[turn]);
                    (turn, run.map(|run| document(&run)))
                };
                kept.complete(wanted, found, threads, &make)
            }
            Self::Memory(prepared) => {
                let setups = missing.iter().map(|&index| prepared.setups[index].clone());
                let setups: Vec<Setup> = setups.collect();
                let sweep = Sweep::new(setups);
                let make = |turn| {
                    let made = sweep.run(turn, Witness::NOBODY);
                    let (which, outcome) = made.expect("a turn for each setup");
                    let outcome = outcome.map(|outcome| document(&outcome));
                    (which, outcome.map_err(|error| error.to_string()))
                };
                kept.complete(wanted, found, threads, &make)
            }
        }
    }

    fn claims(&self, outcomes: Vec<Outcome>) -> Reproduction<Document> {
        match self {
            Self::Stacks(prepared, _) => prepared.claims(outcomes),
            Self::Memory(prepared) => prepared.claims(outcomes),
        }
    }

    fn again(&self, earlier: &Judged) -> Reproduction<Document> {
        match self {
            Self::Stacks(prepared, _) => prepared.again(earlier),
            Self::Memory(prepared) => prepared.again(earlier),
        }
    }
}

/// Source of the values that claims are judged by.
enum Values {
    /// Runs of this process, some reused from the directory.
    Runs(Kept, Instant),
    /// Values of an earlier report.
    Report(Box<Papers>),
}

impl Reproduce {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        match &self.what {
            _ if self.list => Ok(output::emit(&self.list()?)),
            Some(what) => self.one(what),
            None => self.all(),
        }
    }

    fn one(&self, what: &str) -> Result<ExitCode, Failure> {
        let prepared = self.seeds(what)?;
        let values = self.values(self.out.as_deref())?;
        let (paper, runs) = self.over_seeds(&prepared, &values);
        if let Some(folder) = &self.out {
            let papers = vec![(paper.clone(), runs)];
            self.write(folder, &self.report(papers, &values))?;
        }
        let text = match self.shown.json {
            true => report::to_json(&paper),
            false => table::claims(&paper, Shown::style()),
        };
        Ok(status(&paper.claims, output::emit(&text)))
    }

    fn all(&self) -> Result<ExitCode, Failure> {
        let folder = self.out.as_deref().unwrap_or(Path::new(FOLDER));
        // All plans are read before the first run: a fault in one must not cost hours.
        let prepared = names().map(|name| self.seeds(name));
        let prepared = prepared.collect::<Result<Vec<Vec<Prepared>>, Failure>>()?;
        let values = self.values(Some(folder))?;
        let papers = prepared.iter();
        let papers = papers
            .map(|seeds| self.over_seeds(seeds, &values))
            .collect();
        let papers = self.report(papers, &values);
        let told = self.write(folder, &papers)?;
        let text = match self.shown.json {
            true => report::to_json(&papers),
            false => table::papers(&papers, Shown::style()) + &told,
        };
        Ok(status(papers.claims(), output::emit(&text)))
    }

    /// The source of the claims' values; runs are stored in `folder`.
    fn values(&self, folder: Option<&Path>) -> Result<Values, Failure> {
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder)?;
        }
        let Some(path) = &self.judge else {
            let kept = Kept::new(folder, self.earlier)?;
            return Ok(Values::Runs(kept, Instant::now()));
        };
        let name = path.display();
        let at = |problem: &dyn std::fmt::Display| Failure::new(format!("{name}: {problem}"));
        let text = std::fs::read_to_string(path).map_err(|e| at(&e))?;
        let papers: Papers = report::parse(&text).map_err(|e| at(&e))?;
        if (papers.scale.as_str(), papers.seed) != (self.scale.as_str(), self.seed) {
            let (scale, seed) = (&papers.scale, papers.seed);
            let asked = format!("scale {}, seed {}", self.scale, self.seed);
            return Err(at(&format!(
                "expected {asked}, found scale {scale}, seed {seed}"
            )));
        }
        Ok(Values::Report(Box::new(papers)))
    }

    /// The report of `papers` with these `values`.
    fn report(&self, papers: Vec<(Reproduction<Document>, Runs)>, values: &Values) -> Papers {
        let made = match values {
            Values::Runs(kept, start) => Some(Made {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                program: kept.program().to_owned(),
                wall_time_s: start.elapsed().as_secs_f64(),
                runs: papers.iter().map(|(_, runs)| runs.names.len()).sum(),
                kept: papers.iter().map(|(_, runs)| runs.kept).sum(),
                judged_later: false,
            }),
            Values::Report(earlier) => earlier.made.clone().map(|made| Made {
                judged_later: true,
                ..made
            }),
        };
        let papers = papers.into_iter();
        let papers = papers.map(|(paper, runs)| paper.with_runs(runs.names));
        Papers {
            made,
            ..Papers::new(&self.scale, self.seed, papers.collect())
        }
    }

    /// Writes the report into `folder`, and returns a sentence with the paths.
    fn write(&self, folder: &Path, papers: &Papers) -> Answer {
        let file = |end: &str| folder.join(format!("report.{end}"));
        let (document, text, page) = (file("json"), file("md"), file("html"));
        report::file::write(&document, &report::to_json(papers))?;
        report::file::write(&text, &papers.markdown())?;
        report::file::write(&page, &report::page::papers(papers, &command()))?;
        let (text, document, page) = (text.display(), document.display(), page.display());
        Ok(format!(
            "\nEach claim is in {text} and {page}, and in {document}\n"
        ))
    }

    /// The requested paper or figure, prepared once for each seed.
    fn seeds(&self, what: &str) -> Result<Vec<Prepared>, Failure> {
        let seeds = (self.seed..).take(self.seeds.get());
        seeds.map(|seed| self.prepared(what, seed)).collect()
    }

    /// The claims of a paper over `seeds`, and its runs.
    fn over_seeds(&self, seeds: &[Prepared], values: &Values) -> (Reproduction<Document>, Runs) {
        let all = seeds.iter().map(|prepared| self.measure(prepared, values));
        let (mut papers, runs): (Vec<_>, Vec<Runs>) = all.unzip();
        let others = papers.split_off(1);
        let first = papers.pop().expect("there is one seed at least");
        let runs = Runs {
            kept: runs.iter().map(|runs| runs.kept).sum(),
            names: runs.into_iter().flat_map(|runs| runs.names).collect(),
        };
        (first.over_seeds(others), runs)
    }

    fn prepared(&self, what: &str, seed: u64) -> Result<Prepared, Failure> {
        let figure = what.split_once('/').map(|(_, figure)| figure);
        if what.split('/').next() == Some(memories::PAPER) {
            let prepared = memories::prepare(figure, &self.scale, seed)?;
            return Ok(Prepared::Memory(Box::new(prepared)));
        }
        let prepared = prepare(self.asked(what, seed)?)?;
        let experiment = Experiment::of(prepared.plans.clone())?;
        Ok(Prepared::Stacks(Box::new(prepared), experiment))
    }

    /// The claims of a paper for one seed, and its runs.
    fn measure(&self, prepared: &Prepared, values: &Values) -> (Reproduction<Document>, Runs) {
        let kept = match values {
            Values::Runs(kept, _) => kept,
            Values::Report(earlier) => return judged(prepared, earlier),
        };
        let wanted = prepared.wanted();
        let found = kept.found(&wanted);
        let (names, earlier) = (found.digests.clone(), found.by_others);
        let before = wanted.len() - found.missing().len();
        let outcomes = prepared.outcomes((&wanted, found), kept, super::jobs(self.jobs));
        let mut paper = prepared.claims(outcomes);
        if earlier > 0 {
            let all = wanted.len();
            let note = format!("An earlier build made {earlier} of its {all} runs.");
            paper.notes.push(note);
        }
        let runs = Runs {
            names,
            kept: before,
        };
        (paper, runs)
    }

    fn asked(&self, what: &str, seed: u64) -> Result<Asked, Failure> {
        let (name, figure) = match what.split_once('/') {
            Some((name, figure)) => (name, Some(figure.to_owned())),
            None => (what, None),
        };
        let paper = Paper::named(name).ok_or_else(|| {
            let known = names().collect::<Vec<_>>().join(", ");
            Failure::new(format!("expected a paper ({known}), found {name:?}"))
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
            seed,
        })
    }

    fn list(&self) -> Answer {
        let mut papers = Vec::new();
        for paper in PAPERS {
            papers.push(PaperEntry {
                name: paper.name,
                title: paper.title()?,
                figures: paper.list()?,
            });
        }
        papers.push(PaperEntry {
            name: memories::PAPER,
            title: memories::title()?,
            figures: memories::list()?,
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
