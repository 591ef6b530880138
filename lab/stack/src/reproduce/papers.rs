//! The table of papers, with their files.

use report::figure::{File, Files};
use report::paper_file;

/// A paper that can be reproduced.
#[derive(Debug, PartialEq, Eq)]
pub struct Paper {
    /// Short name, which selects the paper.
    pub name: &'static str,
    pub(super) setup: File,
    pub(super) figures: &'static [File],
    pub(super) regime: Option<&'static File>,
}

/// Every paper, in the order of reports.
pub const PAPERS: &[Paper] = &[
    Paper {
        name: "bytefs",
        setup: paper_file!("bytefs", "setup"),
        figures: &[
            paper_file!("bytefs", "table2"),
            paper_file!("bytefs", "fig1"),
            paper_file!("bytefs", "fig6"),
            paper_file!("bytefs", "fig7"),
            paper_file!("bytefs", "fig8"),
            paper_file!("bytefs", "fig9"),
            paper_file!("bytefs", "fig10"),
            paper_file!("bytefs", "fig11"),
            paper_file!("bytefs", "fig12"),
            paper_file!("bytefs", "fig13"),
            paper_file!("bytefs", "fig14"),
            paper_file!("bytefs", "recovery"),
            paper_file!("bytefs", "components"),
        ],
        regime: Some(&paper_file!("bytefs", "regime")),
    },
    Paper {
        name: "hyfim",
        setup: paper_file!("hyfim", "setup"),
        figures: &[
            paper_file!("hyfim", "fig1"),
            paper_file!("hyfim", "fig4"),
            paper_file!("hyfim", "fig5"),
            paper_file!("hyfim", "fig6"),
            paper_file!("hyfim", "fig7"),
            paper_file!("hyfim", "costs"),
        ],
        regime: None,
    },
    Paper {
        name: "persimmon",
        setup: paper_file!("persimmon", "setup"),
        figures: &[
            paper_file!("persimmon", "fig3.1"),
            paper_file!("persimmon", "fig3.2"),
            paper_file!("persimmon", "fig3.3"),
            paper_file!("persimmon", "table4.1"),
            paper_file!("persimmon", "fig4.1"),
            paper_file!("persimmon", "table4.2"),
            paper_file!("persimmon", "table4.3"),
            paper_file!("persimmon", "table4.4"),
            paper_file!("persimmon", "fig4.5"),
            paper_file!("persimmon", "fig4.6"),
            paper_file!("persimmon", "fig4.7"),
            paper_file!("persimmon", "fig4.8"),
            paper_file!("persimmon", "fig4.9"),
            paper_file!("persimmon", "limit"),
        ],
        regime: None,
    },
    Paper {
        name: "remapping",
        setup: paper_file!("remap", "setup"),
        figures: &[
            paper_file!("remap", "fig2"),
            paper_file!("remap", "fig8"),
            paper_file!("remap", "fig9"),
            paper_file!("remap", "fig10"),
            paper_file!("remap", "fig11"),
            paper_file!("remap", "fig12"),
            paper_file!("remap", "fig13"),
            paper_file!("remap", "fig14"),
            paper_file!("remap", "fig15"),
            paper_file!("remap", "fig16"),
            paper_file!("remap", "effects"),
            paper_file!("remap", "overhead"),
        ],
        regime: Some(&paper_file!("remap", "regime")),
    },
    Paper {
        name: "shimmer",
        setup: paper_file!("shimmer", "setup"),
        figures: &[
            paper_file!("shimmer", "fig5.1"),
            paper_file!("shimmer", "fig6.6"),
            paper_file!("shimmer", "fig7.1"),
            paper_file!("shimmer", "fig7.2"),
            paper_file!("shimmer", "fig7.3"),
            paper_file!("shimmer", "fig7.4"),
            paper_file!("shimmer", "fig7.5"),
            paper_file!("shimmer", "fig7.6"),
            paper_file!("shimmer", "table7.1"),
            paper_file!("shimmer", "table7.2"),
            paper_file!("shimmer", "levels"),
            paper_file!("shimmer", "other"),
        ],
        regime: None,
    },
];

impl Paper {
    /// The paper called `name`; `None` if it is unknown.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PAPERS.iter().find(|paper| paper.name == name)
    }

    pub(super) const fn files(&self) -> Files {
        Files {
            paper: self.name,
            figures: self.figures,
            regime: self.regime,
        }
    }
}
