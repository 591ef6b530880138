//! Examples for the help of each command, in one table.
//!
//! Invariant: every command has a row, every example parses, and the lines of a row run as printed
//! in an empty directory, in their order. The integration tests run those of most commands.

use clap::Command;

/// A command by its words, and the lines of its examples: first those that make what it needs.
pub(crate) const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "compare",
        &[
            "flashloom compare",
            "flashloom compare hotcold:ops=20000 --stacks raw@block,raw@fdp --size 256MiB",
        ],
    ),
    (
        "run",
        &[
            "flashloom run raw@fdp --workload hotcold:ops=20000 --size 256MiB",
            "flashloom run f2fs@zns --workload varmail:ops=2000 --size 1GiB --report run.html",
            "flashloom run raw@block --workload randrw:ops=2000 --size 128MiB --requests r.csv --events e.json",
        ],
    ),
    (
        "play",
        &[
            "mkdir play",
            "flashloom play varmail:ops=500 --on play --setup-only",
            "flashloom play varmail:ops=500 --on play --no-setup",
        ],
    ),
    (
        "why",
        &[
            "flashloom run raw@fdp --workload hotcold:ops=20000 --size 256MiB",
            "flashloom why",
            "flashloom why 1 --json",
        ],
    ),
    (
        "history",
        &[
            "flashloom run raw@fdp --workload hotcold:ops=20000 --size 256MiB",
            "flashloom history",
            "flashloom history --stack raw@fdp -n 5",
        ],
    ),
    (
        "diff",
        &[
            "flashloom run raw@fdp --workload hotcold:ops=20000 --size 256MiB",
            "flashloom run raw@block --workload hotcold:ops=20000 --size 256MiB",
            "flashloom diff 1 latest",
            "flashloom diff 1 2 --json",
        ],
    ),
    ("stacks", &["flashloom stacks", "flashloom stacks --json"]),
    ("drives", &["flashloom drives", "flashloom drives fdp"]),
    (
        "workloads",
        &["flashloom workloads", "flashloom workloads hotcold"],
    ),
    (
        "drive create",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom drive create z.flash --preset zns --size 1GiB",
        ],
    ),
    (
        "drive info",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom drive info d.flash",
            "flashloom drive info d.flash --json",
        ],
    ),
    (
        "drive smart",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom drive smart d.flash",
            "flashloom drive smart d.flash --json",
        ],
    ),
    (
        "drive zones",
        &[
            "flashloom drive create z.flash --preset zns --size 1GiB",
            "flashloom drive zones z.flash",
            "flashloom drive zones z.flash --json",
        ],
    ),
    (
        "drive chunks",
        &[
            "flashloom drive create o.flash --preset ocssd --size 512MiB",
            "flashloom drive chunks o.flash",
            "flashloom drive chunks o.flash --json",
        ],
    ),
    (
        "drive fdp",
        &[
            "flashloom drive create f.flash --preset fdp --size 64MiB",
            "flashloom drive fdp f.flash",
            "flashloom drive fdp f.flash --json",
        ],
    ),
    (
        "drive export",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom drive export d.flash d.img",
            "flashloom drive export d.flash d.img --json",
        ],
    ),
    (
        "drive import",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom drive export d.flash d.img",
            "flashloom drive import d.flash d.img",
            "flashloom drive import d.flash d.img --json",
        ],
    ),
    (
        "drive stats",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom serve d.flash --nbd unix:d.sock --background",
            "flashloom drive stats d.flash",
            "flashloom drive stats d.flash --json",
        ],
    ),
    (
        "drive cut",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom serve d.flash --nbd unix:d.sock --background",
            "flashloom drive cut d.flash",
            "flashloom drive cut d.flash --json",
        ],
    ),
    (
        "drive fault",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom serve d.flash --nbd unix:d.sock --background",
            "flashloom drive fault d.flash --unreadable 1MiB+4KiB",
            "flashloom drive fault d.flash --heal",
        ],
    ),
    (
        "record",
        &[
            "flashloom record -o cp.flt -- cp /bin/ls copy",
            "flashloom record --memory -o ls.flm -- ls",
        ],
    ),
    (
        "shim",
        &[
            "flashloom shim --rules rocksdb -- cp /bin/ls 000001.sst",
            "flashloom drive create z.flash --preset zns --size 1GiB",
            "flashloom mkfs zonefs z.flash",
            "mkdir zones",
            "flashloom mount zonefs z.flash zones --background",
            "flashloom shim --rules rocksdb --zones zones -- cp /bin/ls 000002.sst",
        ],
    ),
    (
        "shim serve",
        &[
            "flashloom drive create z.flash --preset zns --size 1GiB",
            "flashloom mkfs zonefs z.flash",
            "mkdir zones",
            "flashloom mount zonefs z.flash zones --background",
            "flashloom shim serve zones",
        ],
    ),
    (
        "shim view",
        &[
            "flashloom drive create z.flash --preset zns --size 1GiB",
            "flashloom mkfs zonefs z.flash",
            "mkdir zones",
            "flashloom mount zonefs z.flash zones --background",
            "flashloom shim --rules rocksdb --zones zones -- cp /bin/ls 000001.sst",
            "mkdir view",
            "flashloom shim view zones view",
        ],
    ),
    (
        "trace info",
        &[
            "flashloom trace info rocksdb",
            "flashloom trace info postgres-ext4 --json",
        ],
    ),
    (
        "trace head",
        &[
            "flashloom trace head rocksdb",
            "flashloom trace head postgres-ext4 -n 3",
        ],
    ),
    (
        "trace convert",
        &[
            "flashloom trace convert postgres-ext4 pg.txt --to blkparse",
            "flashloom trace convert postgres-ext4 pg.flb --to flb",
            "flashloom trace convert sqlite sqlite.txt --to flt-text",
            "flashloom trace convert --anonymous postgres-ext4 away.flb --to flb",
        ],
    ),
    (
        "learn",
        &[
            "flashloom learn sqlite -o sqlite.rules",
            "flashloom learn rocksdb-fifo -o fifo.rules --against rocksdb",
        ],
    ),
    (
        "serve",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom serve d.flash --nbd unix:d.sock",
            "flashloom serve d.flash --nvme-tcp 4420 --ui 8080",
        ],
    ),
    (
        "mkfs",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom mkfs ext4 d.flash",
            "flashloom drive create z.flash --preset zns --size 1GiB",
            "flashloom mkfs persimmon z.flash --label data",
        ],
    ),
    (
        "mount",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom mkfs ext4 d.flash",
            "mkdir mnt",
            "flashloom mount d.flash mnt --background",
            "fusermount3 -u mnt",
            "flashloom mount d.flash mnt -o ro",
        ],
    ),
    (
        "fsck",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom mkfs ext4 d.flash",
            "flashloom fsck d.flash",
            "flashloom fsck ext4 d.flash --json",
        ],
    ),
    (
        "snapshot",
        &[
            "flashloom drive create b.flash --size 256MiB",
            "flashloom mkfs btrfs b.flash",
            "flashloom snapshot b.flash before --read-only",
            "flashloom snapshot b.flash before --drop",
        ],
    ),
    (
        "inspect",
        &[
            "flashloom drive create d.flash --size 64MiB",
            "flashloom mkfs ext4 d.flash",
            "flashloom inspect d.flash",
            "flashloom inspect ext4 d.flash directory 2",
        ],
    ),
    (
        "cache list",
        &[
            "flashloom run ext4@block --workload varmail:files=100,ops=500 --precondition used --size 128MiB",
            "flashloom cache list",
        ],
    ),
    ("cache clear", &["flashloom cache clear"]),
    (
        "powercut",
        &[
            "flashloom powercut --check 'grep -q done state || test ! -s state' -- sh -c 'echo done > state; sync state'",
            "flashloom powercut --on f2fs@block --every 20 --check ./check.sh --save app.calls -- ./app",
            "flashloom powercut --recording app.calls --check ./check.sh --at 1234",
        ],
    ),
    (
        "crash",
        &[
            "flashloom crash ext4@block --points 50",
            "flashloom crash f2fs@zns --workload varmail:files=20,ops=100 --points 20 --seeds 2",
        ],
    ),
    (
        "soak",
        &[
            "flashloom soak --cuts 100",
            "flashloom soak --seed 7 --from 10 --cuts 50 --json",
        ],
    ),
    (
        "memory",
        &[
            "flashloom memory skybyte-full,base-cssd --workload bfs:scale=small",
            "flashloom memory dram-only --workload ycsb:scale=small,threads=4",
        ],
    ),
    (
        "reproduce",
        &[
            "flashloom reproduce --list",
            "flashloom reproduce bytefs/fig6",
        ],
    ),
    (
        "validate",
        &[
            "flashloom validate --list",
            "flashloom validate zn540 --kind zone-state --verbose",
        ],
    ),
    (
        "pts",
        &[
            "flashloom pts block --test latency,endurance --size 512MiB --point 20ms",
            "flashloom pts 7450-pro --test saturation --out results",
        ],
    ),
    (
        "calibrate",
        &[
            "flashloom calibrate *.json -o mine.toml",
            "flashloom calibrate datasheet.txt -o mine.toml --from 7450-pro --out fits",
        ],
    ),
    (
        "completions",
        &["flashloom completions bash", "flashloom completions zsh"],
    ),
    (
        "man",
        &[
            "flashloom man man1",
            "flashloom man ~/.local/share/man/man1",
        ],
    ),
];

/// `command` with the examples of all its subcommands below their help. `words` leads to it.
pub(crate) fn with_examples(command: Command, words: &str) -> Command {
    let found = EXAMPLES.iter().find(|(of, _)| *of == words);
    let command = match found {
        Some((_, lines)) => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
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

    /// The words of a line as a shell splits it, with single quotes alone.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for c in line.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                _ => words.last_mut().expect("there is a first word").push(c),
            }
        }
        words
    }

    #[test]
    fn examples_of_every_command_parse() {
        let mut commands = Vec::new();
        collect(&Cli::command(), "", &mut commands);
        commands.sort_unstable();
        let mut rows: Vec<_> = EXAMPLES.iter().map(|(of, _)| (*of).to_owned()).collect();
        rows.sort_unstable();
        assert_eq!(rows, commands);
        for (of, lines) in EXAMPLES {
            let last = lines.last().expect("an example");
            assert!(last.starts_with(&format!("flashloom {of}")), "{last}");
            for line in lines.iter().filter(|line| line.starts_with("flashloom ")) {
                let words: Vec<_> = words(line).into_iter().map(Into::into).collect();
                if let Err(error) = read(&words) {
                    panic!("{line}: {error}");
                }
            }
        }
    }
}
