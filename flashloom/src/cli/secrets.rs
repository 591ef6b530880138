//! The file of `serve --secrets`: hosts, and the secrets that authenticate them and the drive.
//!
//! A line has the qualified name of a host, its secret and, for a host that authenticates the drive
//! too, the secret of the drive. Empty lines and those that begin with `#` are ignored. Secrets are
//! in a file, since the arguments of a process are visible to all users of a computer.

use super::failure::Failure;
use super::serve::qualified;
use nvme::{Secret, Secrets};
use std::collections::BTreeMap;
use std::path::Path;

/// The hosts in the file at `path`, with their secrets.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, Secrets>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::at(path, error))?;
    let hosts = parse(&text);
    hosts.map_err(|(line, why)| Failure::new(format!("{}:{line}: {why}", path.display())))
}

/// The hosts of a text, or the number of a faulty line and the fault.
fn parse(text: &str) -> Result<BTreeMap<String, Secrets>, (usize, String)> {
    let mut hosts = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first().is_none_or(|word| word.starts_with('#')) {
            continue;
        }
        let (host, secrets) = host(&words).map_err(|why| (number, why))?;
        if hosts.insert(host, secrets).is_some() {
            return Err((
                number,
                "the host appears on an earlier line as well; keep one of the \
                lines"
                    .to_owned(),
            ));
        }
    }
    match hosts.is_empty() {
        true => Err((
            1,
            "expected the qualified name of a host and its secret".to_owned(),
        )),
        false => Ok(hosts),
    }
}

fn host(words: &[&str]) -> Result<(String, Secrets), String> {
    let (name, host, drive) = match *words {
        [name, host] => (name, host, None),
        [name, host, drive] => (name, host, Some(drive)),
        _ => {
            return Err(format!(
                "expected the qualified name of a host, its secret and optionally the drive's \
                 secret, found {} words",
                words.len()
            ));
        }
    };
    let secret = |text: &str| text.parse::<Secret>().map_err(|error| error.to_string());
    let secrets = Secrets {
        host: secret(host)?,
        drive: drive.map(secret).transpose()?,
    };
    Ok((qualified(name)?, secrets))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "DHHC-1:00:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAl7OaH:";

    #[test]
    fn a_line_has_a_host_and_its_secrets() {
        let text = format!("# hosts\n\nnqn.a {SECRET}\n  nqn.b\t{SECRET} {SECRET}\n");
        let hosts = parse(&text).expect("two hosts");
        let found: Vec<_> = hosts
            .iter()
            .map(|(name, secrets)| (&name[..], secrets.drive.is_some()))
            .collect();
        assert_eq!(found, [("nqn.a", false), ("nqn.b", true)]);
    }

    #[test]
    fn malformed_line_is_named_without_its_secret() {
        let wrong = [
            (String::new(), 1),
            ("nqn.a".to_owned(), 1),
            (format!("\nhost {SECRET}"), 2),
            (format!("nqn.a {SECRET} {SECRET} {SECRET}"), 1),
            (format!("nqn.a {}", SECRET.replace("AQID", "AQIE")), 1),
            (format!("nqn.a {SECRET}\nnqn.a {SECRET}"), 2),
        ];
        for (text, expected) in wrong {
            let (line, why) = parse(&text).expect_err(&text);
            assert_eq!(line, expected, "{text}");
            assert!(!why.contains("DDB") && !why.contains("BAUG"), "{why}");
        }
    }
}
