//! Values of variables and attributes, and their ranges.

use super::super::{DESCRIPTORS, FlowOp, MOST_THREADS};
use crate::files::fileset::Access;
use crate::files::{Amount, FilesetSpec};

/// Upper bound on the files of a set, which bounds memory.
const MOST_FILES: u64 = 1 << 24;

/// Value of a variable or an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Amount(Amount),
    Truth(bool),
    Text(String),
}

/// Attribute `key=value`; a key alone has the value true.
#[derive(Clone, Debug)]
pub(super) struct Attr {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) line: usize,
}

/// Expected text of an error.
type Refused = String;

impl Value {
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Amount(Amount::Fixed(number)) => format!("\"{number}\""),
            Self::Amount(_) => "a random variable".to_owned(),
            Self::Truth(truth) => format!("\"{truth}\""),
            Self::Text(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
        }
    }

    pub(super) fn amount(&self) -> Result<Amount, Refused> {
        match self {
            Self::Amount(amount) => Ok(*amount),
            _ => Err("a number or a random variable".to_owned()),
        }
    }

    /// A number from `least` to `most`.
    pub(super) fn number(&self, least: u64, most: u64) -> Result<u64, Refused> {
        match self {
            Self::Amount(Amount::Fixed(n)) if (least..=most).contains(n) => Ok(*n),
            _ => Err(format!("a number from {least} to {most}")),
        }
    }

    /// A truth value; a number is true unless it is 0.
    pub(super) fn truth(&self) -> Result<bool, Refused> {
        match self {
            Self::Truth(truth) => Ok(*truth),
            Self::Amount(Amount::Fixed(number)) => Ok(*number > 0),
            _ => Err("true or false".to_owned()),
        }
    }

    pub(super) fn text(&self) -> Result<String, Refused> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Amount(Amount::Fixed(number)) => Ok(number.to_string()),
            _ => Err("a name".to_owned()),
        }
    }
}

/// Sets the attribute `attr` of a set of files. `path`, `reuse` and the like are ignored: each run
/// has a tree of its own.
pub(super) fn of_fileset(spec: &mut FilesetSpec, attr: &Attr) -> Result<(), Refused> {
    let value = &attr.value;
    match attr.key.as_str() {
        "name" => spec.name = path_component(value)?,
        "size" | "filesize" => spec.size = value.amount()?,
        "entries" => spec.entries = value.number(0, MOST_FILES)? as u32,
        "leafdirs" => spec.leafdirs = value.number(0, MOST_FILES)? as u32,
        "dirwidth" => spec.dirwidth = value.number(2, 1 << 32)?,
        "dirgamma" => spec.dirgamma = halves(value)?,
        "prealloc" => spec.prealloc = percent(value)?,
        "readonly" if value.truth()? => spec.access = Access::ReadOnly,
        "writeonly" if value.truth()? => spec.access = Access::WriteOnly,
        "readonly" | "writeonly" | "path" | "reuse" | "paralloc" | "trusttree" | "cached" => {}
        _ => return Err(
            "an attribute of a fileset (name, path, size, entries, leafdirs, dirwidth, dirgamma, \
             prealloc, readonly, writeonly, reuse, paralloc, trusttree, cached)"
                .to_owned(),
        ),
    }
    Ok(())
}

fn path_component(value: &Value) -> Result<String, Refused> {
    let name = value.text()?;
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !name.is_empty() && name.len() <= 64 && name.chars().all(good) && !name.starts_with('.') {
        true => Ok(name),
        false => Err("a name of letters, digits, dots, lines and dashes".to_owned()),
    }
}

/// Shape of a gamma distribution, given in thousandths, as halves.
pub(super) fn halves(value: &Value) -> Result<u32, Refused> {
    let thousandths = value.number(0, 100_000)?;
    match thousandths.is_multiple_of(500) {
        true => Ok((thousandths / 500) as u32),
        false => Err("a multiple of 500 (thousandths of the shape)".to_owned()),
    }
}

fn percent(value: &Value) -> Result<u64, Refused> {
    match value {
        Value::Truth(truth) => Ok(if *truth { 100 } else { 0 }),
        value => value.number(0, 100),
    }
}

/// Sets the attribute `attr` of an operation. Returns the name of its set, which is resolved later.
pub(super) fn of_op(op: &mut FlowOp, attr: &Attr) -> Result<Option<String>, Refused> {
    let value = &attr.value;
    match attr.key.as_str() {
        "name" => op.name = value.text()?,
        "filesetname" | "filename" => return value.text().map(Some),
        "fd" => op.fd = value.number(0, u64::from(DESCRIPTORS) - 1)? as u32,
        "srcfd" => op.srcfd = value.number(0, u64::from(DESCRIPTORS) - 1)? as u32,
        "iosize" => op.iosize = value.amount()?,
        "iters" => op.iters = value.amount()?,
        "value" => op.value = value.amount()?,
        "workingset" => op.workingset = value.number(0, i64::MAX as u64)?,
        "highwater" => op.highwater = value.number(0, i64::MAX as u64)?,
        "random" => op.random = value.truth()?,
        "dsync" => op.dsync = value.truth()?,
        "directio" => op.direct = value.truth()?,
        "opennext" => op.opennext = value.truth()?,
        "blocking" => op.blocking = value.truth()?,
        "target" => op.target = Some(value.text()?),
        "noreadahead" => {
            value.truth()?;
        }
        _ => {
            return Err(
                "an attribute of a flowop (name, filesetname, filename, fd, srcfd, iosize, iters, \
             value, workingset, highwater, random, dsync, directio, opennext, blocking, target, \
             noreadahead)"
                    .to_owned(),
            );
        }
    }
    Ok(None)
}

/// Number of processes or threads.
pub(super) fn instances(value: &Value) -> Result<u32, Refused> {
    Ok(value.number(1, u64::from(MOST_THREADS))? as u32)
}

/// Distribution of a `cvar` of type `kind` with `parameters` such as `mean:16384;gamma:1.5`.
pub(super) fn cvar(kind: &str, parameters: &str) -> Result<Amount, Refused> {
    let kind = kind.strip_prefix("cvar-").unwrap_or(kind);
    let mut known = Vec::new();
    for part in parameters.split(';').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once(':').unwrap_or((part, ""));
        let expected = || format!("{key}: a decimal above 0 with at most three places");
        known.push((key, thousandths(value).ok_or_else(expected)?));
    }
    let whole = |name: &str| {
        let found = known.iter().find(|(key, _)| *key == name);
        found.map(|(_, thousandths)| thousandths / 1_000)
    };
    let missing = |names: &str| format!("the parameters {names} of cvar-{kind}");
    match kind {
        "gamma" => {
            let shape = known.iter().find(|(key, _)| *key == "gamma");
            let shape = shape.map_or(1_500, |(_, thousandths)| *thousandths);
            Ok(Amount::Gamma {
                mean: whole("mean").ok_or_else(|| missing("mean and gamma"))?,
                halves: halves(&Value::Amount(Amount::Fixed(shape)))?.max(1),
                least: 0,
            })
        }
        "uniform" => {
            let ends = whole("lower").zip(whole("upper")).filter(|(l, u)| l <= u);
            let (least, most) = ends.ok_or_else(|| missing("lower and upper"))?;
            Ok(Amount::Uniform { least, most })
        }
        "exponential" => Ok(Amount::Exponential {
            mean: whole("mean").ok_or_else(|| missing("mean"))?,
        }),
        _ => Err("cvar-gamma, cvar-uniform or cvar-exponential".to_owned()),
    }
}

/// Parses a decimal with at most three places, in thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<3}").parse().ok()?;
    let whole: u64 = whole.parse().ok().filter(|w| *w < 1 << 50)?;
    Some(whole * 1_000 + fraction)
}
