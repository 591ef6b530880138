//! Parser of the statements of a script.

use super::super::{FlowOp, MOST_THREADS, Mode, OpKind, Program, ThreadSpec};
use super::ScriptError;
use super::attr::{self, Attr, Value};
use super::lex::{Placed, Token};
use crate::files::{Amount, FilesetSpec};
use std::collections::BTreeMap;
use units::Ns;
use units::did_you_mean;

/// Duration of a run without one in the script: a minute, filebench's own default.
const RUN: Ns = Ns::secs(60);

/// Upper bound on the duration of a run, in seconds: a year.
const LONGEST: u64 = 365 * 86_400;

const COMMANDS: &str =
    "set, define, eventgen, run, psrun, echo, debug, enable, create, version or quit";

/// State of the parser.
pub(super) struct Parser<'a> {
    file: &'a str,
    tokens: Vec<Placed>,
    at: usize,
    variables: BTreeMap<String, Value>,
    program: Program,
    /// References of operations to sets, resolved at the end: thread, operation, name of the set,
    /// line.
    wanted: Vec<(usize, usize, String, usize)>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(file: &'a str, tokens: Vec<Placed>) -> Self {
        Self {
            file,
            tokens,
            at: 0,
            variables: BTreeMap::new(),
            program: Program {
                filesets: Vec::new(),
                threads: Vec::new(),
                mode: Mode::Timeout,
                ops: u64::MAX,
                until: None,
                rate: 0,
                notes: Vec::new(),
            },
            wanted: Vec::new(),
        }
    }

    pub(super) fn program(mut self) -> Result<Program, ScriptError> {
        while self.at < self.tokens.len() {
            if !self.sentence()? {
                break;
            }
        }
        self.resolve()?;
        self.check()?;
        self.program.until.get_or_insert(RUN);
        Ok(self.program)
    }

    /// Parses a line or a definition; returns `false` after `quit`.
    fn sentence(&mut self) -> Result<bool, ScriptError> {
        let word = match self.next() {
            Token::End => return Ok(true),
            Token::Word(word) => word,
            other => return Err(self.refuse(COMMANDS, &other.shown())),
        };
        match word.as_str() {
            "set" => self.set()?,
            "define" => self.define()?,
            "eventgen" => self.eventgen()?,
            "run" | "psrun" => self.run()?,
            "echo" | "debug" | "enable" | "create" | "version" => self.skip_line(),
            "quit" => return Ok(false),
            _ => return Err(self.refuse(COMMANDS, &format!("{word:?}"))),
        }
        Ok(true)
    }

    fn set(&mut self) -> Result<(), ScriptError> {
        match self.next() {
            Token::Var(name) => {
                self.mark('=')?;
                let value = self.expression()?;
                self.variables.insert(name, value);
                self.end()
            }
            Token::Word(word) if word == "mode" => self.mode(),
            other => Err(self.refuse("$NAME=VALUE or mode after set", &other.shown())),
        }
    }

    fn mode(&mut self) -> Result<(), ScriptError> {
        let words = [self.next(), self.next()];
        let word = |token: &Token, text: &str| *token == Token::Word(text.to_owned());
        self.program.mode = match &words {
            [quit, how] if word(quit, "quit") && word(how, "timeout") => Mode::Timeout,
            [quit, how] if word(quit, "quit") && word(how, "firstdone") => Mode::FirstDone,
            [quit, how] if word(quit, "quit") && word(how, "alldone") => Mode::AllDone,
            [_, how] => {
                let expected = "quit timeout, quit firstdone or quit alldone";
                return Err(self.refuse(expected, &how.shown()));
            }
        };
        self.end()
    }

    /// Parses a value, or a product or sum of two numbers.
    fn expression(&mut self) -> Result<Value, ScriptError> {
        let left = self.value()?;
        let sign = match self.peek() {
            Token::Mark(sign @ ('*' | '+')) => *sign,
            _ => return Ok(left),
        };
        self.next();
        let right = self.value()?;
        let number = |value: &Value| match value {
            Value::Amount(Amount::Fixed(number)) => Some(*number),
            _ => None,
        };
        let numbers = number(&left).zip(number(&right));
        let result = numbers.and_then(|(l, r)| match sign {
            '*' => l.checked_mul(r),
            _ => l.checked_add(r),
        });
        match result.filter(|n| *n < 1 << 63) {
            Some(number) => Ok(Value::Amount(Amount::Fixed(number))),
            None => Err(self.refuse("numbers with a result below 2^63", &right.shown())),
        }
    }

    fn value(&mut self) -> Result<Value, ScriptError> {
        match self.next() {
            Token::Number(number) => Ok(Value::Amount(Amount::Fixed(number))),
            Token::Word(word) if word == "true" => Ok(Value::Truth(true)),
            Token::Word(word) if word == "false" => Ok(Value::Truth(false)),
            Token::Word(word) if word == "cvar" => self.cvar(),
            Token::Word(text) | Token::Text(text) => Ok(Value::Text(text)),
            Token::Var(name) => match self.variables.get(&name) {
                Some(value) => Ok(value.clone()),
                None => {
                    let known = self.variables.keys().map(String::as_str);
                    let hint = did_you_mean(&name, known);
                    let found = format!("${name}{hint}");
                    Err(self.refuse("a variable that was set before", &found))
                }
            },
            other => Err(self.refuse("a value", &other.shown())),
        }
    }

    /// Parses the rest of `cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)`.
    fn cvar(&mut self) -> Result<Value, ScriptError> {
        self.mark('(')?;
        let (mut kind, mut parameters) = (String::new(), String::new());
        loop {
            let key = self.word("type or parameters")?;
            self.mark('=')?;
            let text = self.word("a word")?;
            match key.as_str() {
                "type" => kind = text,
                "parameters" => parameters = text,
                "min" | "max" | "round" => {
                    let expected = "type or parameters; bounds of a cvar are not read";
                    return Err(self.refuse(expected, &format!("{key:?}")));
                }
                _ => return Err(self.refuse("type or parameters", &format!("{key:?}"))),
            }
            match self.next() {
                Token::Mark(',') => {}
                Token::Mark(')') => break,
                other => return Err(self.refuse("a comma or )", &other.shown())),
            }
        }
        let amount = attr::cvar(&kind, &parameters);
        let amount = amount.map_err(|e| self.refuse(&e, &format!("{kind:?} {parameters:?}")))?;
        Ok(Value::Amount(amount))
    }

    fn word(&mut self, expected: &str) -> Result<String, ScriptError> {
        match self.next() {
            Token::Word(word) | Token::Text(word) => Ok(word),
            other => Err(self.refuse(expected, &other.shown())),
        }
    }

    fn define(&mut self) -> Result<(), ScriptError> {
        let what = self.word("fileset, file, process or randvar after define")?;
        match what.as_str() {
            "fileset" => self.fileset(false),
            "file" => self.fileset(true),
            "process" => self.process(),
            "randvar" => self.randvar(),
            _ => {
                let expected = "fileset, file, process or randvar after define";
                Err(self.refuse(expected, &format!("{what:?}")))
            }
        }
    }

    /// Parses a set of files; `define file` is a set of one file, in a directory of its own.
    fn fileset(&mut self, single: bool) -> Result<(), ScriptError> {
        let line = self.line();
        let mut spec = FilesetSpec::new("", u32::from(single), Amount::Fixed(1024));
        if single {
            spec.dirgamma = 0;
        }
        for attr in self.attributes()? {
            let set = attr::of_fileset(&mut spec, &attr);
            set.map_err(|expected| self.refuse_attr(&expected, &attr))?;
        }
        self.end()?;
        let taken = self.program.filesets.iter().any(|f| f.name == spec.name);
        if spec.name.is_empty() || taken {
            let found = format!("{:?}", spec.name);
            return Err(self.refuse_at(line, "a name that no other set has", &found));
        }
        self.program.filesets.push(spec);
        Ok(())
    }

    fn randvar(&mut self) -> Result<(), ScriptError> {
        let line = self.line();
        let (mut name, mut kind) = (String::new(), "gamma".to_owned());
        let (mut mean, mut least, mut shape) = (0, 0, 3);
        let most = i64::MAX as u64;
        // The name is a variable that this line defines.
        let attrs = self.attributes_naming(&mut name)?;
        for attr in attrs {
            let read = match attr.key.as_str() {
                "type" => attr.value.text().map(|text| kind = text),
                "mean" => attr.value.number(0, most).map(|n| mean = n),
                "min" => attr.value.number(0, most).map(|n| least = n),
                "gamma" => attr::halves(&attr.value).map(|n| shape = n.max(1)),
                _ => Err("name, type, mean, min or gamma".to_owned()),
            };
            read.map_err(|expected| self.refuse_attr(&expected, &attr))?;
        }
        self.end()?;
        let amount = match kind.as_str() {
            "gamma" => Amount::Gamma {
                mean: mean.max(least),
                halves: shape,
                least,
            },
            "uniform" => Amount::Uniform {
                least,
                most: (2 * mean.max(least)).saturating_sub(least).max(least),
            },
            _ => return Err(self.refuse_at(line, "type gamma or uniform", &format!("{kind:?}"))),
        };
        match name.is_empty() {
            true => Err(self.refuse_at(line, "name=$VARIABLE", "none")),
            false => {
                self.variables.insert(name, Value::Amount(amount));
                Ok(())
            }
        }
    }

    fn process(&mut self) -> Result<(), ScriptError> {
        let mut processes = 1;
        for attr in self.attributes()? {
            let read = match attr.key.as_str() {
                "instances" => attr::instances(&attr.value).map(|n| processes = n),
                "name" | "nice" => Ok(()),
                _ => Err("name, nice or instances".to_owned()),
            };
            read.map_err(|expected| self.refuse_attr(&expected, &attr))?;
        }
        self.open()?;
        loop {
            match self.in_body()? {
                Token::End => {}
                Token::Mark('}') => return Ok(()),
                Token::Word(word) if word == "thread" => self.thread(processes)?,
                other => return Err(self.refuse("thread or }", &other.shown())),
            }
        }
    }

    fn thread(&mut self, processes: u32) -> Result<(), ScriptError> {
        let line = self.line();
        let mut spec = ThreadSpec {
            processes,
            instances: 1,
            ops: Vec::new(),
        };
        for attr in self.attributes()? {
            let read = match attr.key.as_str() {
                "instances" => attr::instances(&attr.value).map(|n| spec.instances = n),
                "name" | "memsize" | "useism" | "ioprio" => Ok(()),
                _ => Err("name, memsize, useism, ioprio or instances".to_owned()),
            };
            read.map_err(|expected| self.refuse_attr(&expected, &attr))?;
        }
        self.open()?;
        loop {
            match self.in_body()? {
                Token::End => {}
                Token::Mark('}') => break,
                Token::Word(word) if word == "flowop" => self.flowop(&mut spec)?,
                other => return Err(self.refuse("flowop or }", &other.shown())),
            }
        }
        if spec.ops.is_empty() {
            return Err(self.refuse_at(line, "at least one flowop", "none"));
        }
        self.program.threads.push(spec);
        Ok(())
    }

    fn flowop(&mut self, spec: &mut ThreadSpec) -> Result<(), ScriptError> {
        let line = self.line();
        let word = self.word("the kind of the flowop")?;
        let Some(kind) = OpKind::named(&word) else {
            let hint = did_you_mean(&word, OpKind::ALL.iter().map(|k| k.word()));
            return Err(self.refuse("a kind of flowop that is read", &format!("{word:?}{hint}")));
        };
        let mut op = FlowOp::new(kind);
        let mut named = None;
        for attr in self.attributes()? {
            let set = attr::of_op(&mut op, &attr);
            let set = set.map_err(|expected| self.refuse_attr(&expected, &attr))?;
            named = set.or(named);
        }
        if kind.needs_iosize() && op.iosize.mean() == 0 {
            return Err(self.refuse_at(line, "iosize above 0", "none"));
        }
        if kind.needs_files() && named.is_none() {
            return Err(self.refuse_at(line, "filesetname=NAME", "none"));
        }
        if kind.needs_target() && op.target.is_none() {
            return Err(self.refuse_at(line, "target=NAME", "none"));
        }
        if let Some(name) = named {
            let thread = self.program.threads.len();
            self.wanted.push((thread, spec.ops.len(), name, line));
        }
        spec.ops.push(op);
        Ok(())
    }

    fn eventgen(&mut self) -> Result<(), ScriptError> {
        for attr in self.attributes()? {
            let rate = match attr.key.as_str() {
                "rate" => attr.value.number(0, 1_000_000_000),
                _ => Err("rate".to_owned()),
            };
            self.program.rate = rate.map_err(|expected| self.refuse_attr(&expected, &attr))?;
        }
        self.end()
    }

    fn run(&mut self) -> Result<(), ScriptError> {
        if *self.peek() == Token::Word("-".to_owned()) {
            self.next();
        }
        if *self.peek() != Token::End {
            let seconds = self.value()?;
            let number = seconds.number(1, LONGEST);
            let number = number.map_err(|e| self.refuse(&e, &seconds.shown()))?;
            self.program.until = Some(Ns::secs(number));
        }
        self.end()
    }

    /// Parses attributes `key=value,key,key=value`; a line may end after a comma.
    fn attributes(&mut self) -> Result<Vec<Attr>, ScriptError> {
        self.attributes_naming(&mut String::new())
    }

    /// Parses attributes; an unset variable given as the value of `name` is stored in `name`.
    fn attributes_naming(&mut self, name: &mut String) -> Result<Vec<Attr>, ScriptError> {
        let mut attrs = Vec::new();
        while let Token::Word(_) = self.peek() {
            let key = self.word("an attribute")?;
            let line = self.line();
            let given = *self.peek() == Token::Mark('=');
            if given {
                self.next();
            }
            match self.peek().clone() {
                Token::Var(variable)
                    if key == "name" && !self.variables.contains_key(&variable) =>
                {
                    self.next();
                    *name = variable;
                }
                _ => {
                    let value = if given {
                        self.value()?
                    } else {
                        Value::Truth(true)
                    };
                    attrs.push(Attr { key, value, line });
                }
            }
            if *self.peek() != Token::Mark(',') {
                break;
            }
            self.next();
            self.skip_ends();
        }
        Ok(attrs)
    }

    fn skip_ends(&mut self) {
        while *self.peek() == Token::End && self.at < self.tokens.len() {
            self.at += 1;
        }
    }

    fn skip_line(&mut self) {
        while self.next() != Token::End {}
    }

    /// Parses the brace that opens a body.
    fn open(&mut self) -> Result<(), ScriptError> {
        self.skip_ends();
        self.mark('{')
    }

    /// Takes the next token of a body; the end of the file within a body is an error.
    fn in_body(&mut self) -> Result<Token, ScriptError> {
        match self.at < self.tokens.len() {
            true => Ok(self.next()),
            false => Err(self.refuse("}", "the end of the file")),
        }
    }

    fn end(&mut self) -> Result<(), ScriptError> {
        match self.peek() {
            Token::End => Ok(()),
            other => {
                let found = other.shown();
                Err(self.refuse(
                    "the end of the line or a comma before the next attribute",
                    &found,
                ))
            }
        }
    }

    fn mark(&mut self, mark: char) -> Result<(), ScriptError> {
        match self.next() {
            Token::Mark(found) if found == mark => Ok(()),
            other => Err(self.refuse(&format!("{mark}"), &other.shown())),
        }
    }

    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |t| &t.0)
    }

    /// Takes the next token; [`Token::End`] past the last one.
    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    /// Line of the token taken last.
    fn line(&self) -> usize {
        let at = self
            .at
            .saturating_sub(1)
            .min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |t| t.1)
    }

    fn refuse(&self, expected: &str, found: &str) -> ScriptError {
        self.refuse_at(self.line(), expected, found)
    }

    fn refuse_attr(&self, expected: &str, attr: &Attr) -> ScriptError {
        let found = format!("{}={}", attr.key, attr.value.shown());
        self.refuse_at(attr.line, expected, &found)
    }

    fn refuse_at(&self, line: usize, expected: &str, found: &str) -> ScriptError {
        ScriptError::Line {
            file: self.file.to_owned(),
            line,
            expected: expected.to_owned(),
            found: found.to_owned(),
        }
    }

    /// Resolves the names of sets to their indices.
    fn resolve(&mut self) -> Result<(), ScriptError> {
        for (thread, op, name, line) in std::mem::take(&mut self.wanted) {
            let sets = &self.program.filesets;
            let Some(set) = sets.iter().position(|set| set.name == name) else {
                let hint = did_you_mean(&name, sets.iter().map(|set| set.name.as_str()));
                let found = format!("{name:?}{hint}");
                return Err(self.refuse_at(line, "the name of a defined fileset or file", &found));
            };
            self.program.threads[thread].ops[op].fileset = Some(set);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), ScriptError> {
        let whole = |problem: String| {
            Err(ScriptError::Whole {
                file: self.file.to_owned(),
                problem,
            })
        };
        let threads = self.program.threads.iter();
        let count: u64 = threads
            .map(|t| u64::from(t.processes) * u64::from(t.instances))
            .sum();
        if !(1..=u64::from(MOST_THREADS)).contains(&count) {
            return whole(format!(
                "expected 1 to {MOST_THREADS} threads, found {count}"
            ));
        }
        let ops = || self.program.threads.iter().flat_map(|t| &t.ops);
        let limits = [OpKind::OpsLimit, OpKind::IopsLimit, OpKind::BwLimit];
        match ops().find(|op| self.program.rate > 0 && limits.contains(&op.kind)) {
            Some(op) => whole(format!(
                "expected eventlimit as the only limit with an eventgen rate, found {}",
                op.kind.word()
            )),
            None => match ops().find(|op| {
                let named = |name: &str| ops().any(|op| op.name == name);
                op.target.as_deref().is_some_and(|target| !named(target))
            }) {
                Some(op) => whole(format!(
                    "expected a flowop called {}, the target of {}",
                    op.target.as_deref().unwrap_or_default(),
                    op.name
                )),
                None => Ok(()),
            },
        }
    }
}
