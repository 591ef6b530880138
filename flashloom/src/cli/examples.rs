//! Two examples for the help of each command, in one table.
//!
//! Invariant: every command has a row, and every example parses. The integration tests run the
//! examples in the order of the table, each in the folder that the earlier ones have left.

use clap::Command;

/// A command by its words, and its examples without the program's name.
pub(crate) const EXAMPLES: &[(&str, [&str; 2])] = &[
    (
        "compare",
        [
            "compare",
            "compare hotcold:ops=20000 --stacks raw@block,raw@fdp --size 256MiB",
        ],
    ),
    (
        "run",
        [
            "run raw@fdp --workload hotcold:ops=20000 --size 256MiB",
            "run f2fs@zns --workload varmail:ops=2000 --size 1GiB --report run.html",
        ],
    ),
    (
        "play",
        [
            "play varmail:ops=500 --on play --setup-only",
            "play varmail:ops=500 --on play --no-setup",
        ],
    ),
    ("why", ["why", "why 1 --json"]),
    ("history", ["history", "history --stack raw@fdp -n 5"]),
    ("diff", ["diff 1 latest", "diff 1 2 --json"]),
    ("stacks", ["stacks", "stacks --json"]),
    ("drives", ["drives", "drives fdp"]),
    ("workloads", ["workloads", "workloads hotcold"]),
    (
        "drive create",
        [
            "drive create d.flash --size 64MiB",
            "drive create z.flash --preset zns --size 1GiB",
        ],
    ),
    (
        "drive info",
        ["drive info d.flash", "drive info d.flash --json"],
    ),
    (
        "drive smart",
        ["drive smart d.flash", "drive smart d.flash --json"],
    ),
    (
        "drive zones",
        ["drive zones z.flash", "drive zones z.flash --json"],
    ),
    (
        "drive chunks",
        ["drive chunks o.flash", "drive chunks o.flash --json"],
    ),
    (
        "drive fdp",
        ["drive fdp f.flash", "drive fdp f.flash --json"],
    ),
    (
        "drive export",
        [
            "drive export d.flash d.img",
            "drive export d.flash d.img --json",
        ],
    ),
    (
        "drive import",
        [
            "drive import d.flash d.img",
            "drive import d.flash d.img --json",
        ],
    ),
    (
        "drive stats",
        ["drive stats d.flash", "drive stats d.flash --json"],
    ),
    (
        "drive cut",
        ["drive cut d.flash", "drive cut d.flash --json"],
    ),
    (
        "drive fault",
        [
            "drive fault d.flash --unreadable 1MiB+4KiB",
            "drive fault d.flash --heal",
        ],
    ),
    (
        "record",
        [
            "record -o cp.flt -- cp d.img copy.img",
            "record --memory -o ls.flm -- ls",
        ],
    ),
    (
        "shim",
        [
            "shim --rules rocksdb -- ./db_bench --benchmarks=fillrandom --db=db",
            "shim --rules rocksdb --zones zones -- ./db_bench --db=db",
        ],
    ),
    (
        "shim serve",
        ["shim serve zones", "shim serve zones --while-used"],
    ),
    (
        "shim view",
        ["shim view zones view", "shim view /mnt/zonefs /mnt/view"],
    ),
    (
        "trace info",
        ["trace info rocksdb", "trace info cp.flt --json"],
    ),
    (
        "trace head",
        ["trace head rocksdb", "trace head postgres-ext4 -n 3"],
    ),
    (
        "trace convert",
        [
            "trace convert postgres-ext4 pg.txt --to blkparse",
            "trace convert cp.flt cp.txt --to flt-text",
        ],
    ),
    (
        "learn",
        [
            "learn sqlite -o sqlite.rules",
            "learn rocksdb-fifo -o fifo.rules --against rocksdb",
        ],
    ),
    (
        "serve",
        [
            "serve d.flash --nbd unix:d.sock",
            "serve d.flash --nvme-tcp 4420 --ui 8080",
        ],
    ),
    (
        "mkfs",
        ["mkfs ext4 d.flash", "mkfs persimmon z.flash --label data"],
    ),
    (
        "mount",
        ["mount d.flash mnt", "mount d.flash mnt -o ro --background"],
    ),
    ("fsck", ["fsck d.flash", "fsck persimmon z.flash --json"]),
    (
        "snapshot",
        [
            "snapshot b.flash before --read-only",
            "snapshot b.flash before --drop",
        ],
    ),
    (
        "inspect",
        ["inspect d.flash", "inspect ext4 d.flash directory 2"],
    ),
    (
        "crash",
        [
            "crash ext4@block --points 50",
            "crash f2fs@zns --workload varmail:files=20,ops=100 --points 20 --seeds 2",
        ],
    ),
    (
        "soak",
        [
            "soak --cuts 100",
            "soak --seed 7 --from 10 --cuts 50 --json",
        ],
    ),
    (
        "memory",
        [
            "memory skybyte-full,base-cssd --workload bfs:scale=small",
            "memory dram-only --workload ycsb:scale=small,threads=4",
        ],
    ),
    ("reproduce", ["reproduce --list", "reproduce bytefs/fig6"]),
    ("completions", ["completions bash", "completions zsh"]),
    ("man", ["man man1", "man ~/.local/share/man/man1"]),
];

/// `command` with the examples of all its subcommands below their help. `words` leads to it.
pub(crate) fn with_examples(command: Command, words: &str) -> Command {
    let found = EXAMPLES.iter().find(|(of, _)| *of == words);
    let command = match found {
        Some((_, [one, other])) => {
            command.after_help(format!("Examples:\n  flashloom {one}\n  flashloom {other}"))
        }
        None => command,
    };
    command.mut_subcommands(|sub| {
        let words = format!("{words} {}", sub.get_name());
        with_examples(sub, words.trim_start())
    })
}

#[cfg(test)]
mod tests {
    use super::EXAMPLES;
    use crate::cli::{Cli, read};
    use clap::CommandFactory;

    /// Adds the words of all commands below `command` that can be run to `found`.
    fn collect(command: &clap::Command, words: &str, found: &mut Vec<String>) {
        for sub in command.get_subcommands() {
            let words = format!("{words} {}", sub.get_name());
            let words = words.trim_start();
            if !sub.is_subcommand_required_set() {
                found.push(words.to_owned());
            }
            collect(sub, words, found);
        }
    }

    #[test]
    fn examples_of_every_command_parse() {
        let mut commands = Vec::new();
        collect(&Cli::command(), "", &mut commands);
        commands.sort_unstable();
        let mut rows: Vec<_> = EXAMPLES.iter().map(|(of, _)| (*of).to_owned()).collect();
        rows.sort_unstable();
        assert_eq!(rows, commands);
        for (of, examples) in EXAMPLES {
            for example in examples {
                assert!(example.starts_with(of), "{example}");
                let words = format!("flashloom {example}");
                let words: Vec<_> = words.split(' ').map(Into::into).collect();
                if let Err(error) = read(&words) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
