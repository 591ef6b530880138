//! The papers, and their files.

/// A file that comes with the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct File {
    /// As it is asked for.
    pub(super) name: &'static str,
    /// Where it is in the repository.
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

/// A paper that can be reproduced.
#[derive(Debug, PartialEq, Eq)]
pub struct Paper {
    /// Its short name.
    pub name: &'static str,
    pub(super) setup: File,
    pub(super) figures: &'static [File],
}

/// The file `NAME.toml` of a system.
macro_rules! file {
    ($system:literal, $name:literal) => {
        File {
            name: $name,
            path: concat!("systems/", $system, "/reproduce/", $name, ".toml"),
            text: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../systems/",
                $system,
                "/reproduce/",
                $name,
                ".toml"
            )),
        }
    };
}

/// All of them.
pub const PAPERS: &[Paper] = &[
    Paper {
        name: "bytefs",
        setup: file!("bytefs", "setup"),
        figures: &[
            file!("bytefs", "table2"),
            file!("bytefs", "fig1"),
            file!("bytefs", "fig6"),
            file!("bytefs", "fig7"),
            file!("bytefs", "fig8"),
            file!("bytefs", "fig9"),
            file!("bytefs", "fig10"),
            file!("bytefs", "fig11"),
            file!("bytefs", "fig12"),
            file!("bytefs", "fig13"),
            file!("bytefs", "fig14"),
            file!("bytefs", "recovery"),
            file!("bytefs", "components"),
        ],
    },
    Paper {
        name: "hyfim",
        setup: file!("hyfim", "setup"),
        figures: &[
            file!("hyfim", "fig1"),
            file!("hyfim", "fig4"),
            file!("hyfim", "fig5"),
            file!("hyfim", "fig6"),
            file!("hyfim", "fig7"),
            file!("hyfim", "costs"),
        ],
    },
    Paper {
        name: "persimmon",
        setup: file!("persimmon", "setup"),
        figures: &[
            file!("persimmon", "fig3.1"),
            file!("persimmon", "fig3.2"),
            file!("persimmon", "fig3.3"),
            file!("persimmon", "table4.1"),
            file!("persimmon", "fig4.1"),
            file!("persimmon", "table4.2"),
            file!("persimmon", "table4.3"),
            file!("persimmon", "table4.4"),
            file!("persimmon", "fig4.5"),
            file!("persimmon", "fig4.6"),
            file!("persimmon", "fig4.7"),
            file!("persimmon", "fig4.8"),
            file!("persimmon", "fig4.9"),
            file!("persimmon", "limit"),
        ],
    },
    Paper {
        name: "remapping",
        setup: file!("remap", "setup"),
        figures: &[
            file!("remap", "fig2"),
            file!("remap", "fig8"),
            file!("remap", "fig9"),
            file!("remap", "fig10"),
            file!("remap", "fig11"),
            file!("remap", "fig12"),
            file!("remap", "fig13"),
            file!("remap", "fig14"),
            file!("remap", "fig15"),
            file!("remap", "fig16"),
            file!("remap", "effects"),
            file!("remap", "overhead"),
        ],
    },
    Paper {
        name: "shimmer",
        setup: file!("shimmer", "setup"),
        figures: &[
            file!("shimmer", "fig5.1"),
            file!("shimmer", "fig6.6"),
            file!("shimmer", "fig7.1"),
            file!("shimmer", "fig7.2"),
            file!("shimmer", "fig7.3"),
            file!("shimmer", "fig7.4"),
            file!("shimmer", "fig7.5"),
            file!("shimmer", "fig7.6"),
            file!("shimmer", "table7.1"),
            file!("shimmer", "table7.2"),
            file!("shimmer", "levels"),
            file!("shimmer", "other"),
        ],
    },
];

impl Paper {
    /// The paper called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PAPERS.iter().find(|paper| paper.name == name)
    }
}
