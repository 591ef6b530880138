//! Fields of calls, for code that reads or writes every kind of call.
//!
//! Calls are declared once, in `call.rs`; a trace format implements the representation of a number,
//! a name and a word, and so reads or writes every call.

use super::{Fd, Name};

/// Takes the fields of a call, in the order of its declaration.
pub trait FieldSink {
    /// Takes an open file.
    fn fd(&mut self, key: &'static str, fd: Fd);
    /// Takes a path or another string.
    fn name(&mut self, key: &'static str, name: Name);
    /// Takes a number.
    fn number(&mut self, key: &'static str, number: u64);
    /// Takes a mode, a number that text formats write in octal.
    fn octal(&mut self, key: &'static str, number: u64) {
        self.number(key, number);
    }
    /// Takes the index of one of `words`.
    fn word(&mut self, key: &'static str, index: usize, words: &'static [&'static str]);
    /// Takes a set of `words`; the lowest bit stands for the first word.
    fn bits(&mut self, key: &'static str, bits: u32, words: &'static [&'static str]);
}

/// Gives the fields of a call, in the order of its declaration.
pub trait FieldSource {
    /// Error of reading a field.
    type Error;
    /// Reads an open file.
    ///
    /// # Errors
    /// If the input holds no such field; so for all methods below.
    fn fd(&mut self, key: &'static str) -> Result<Fd, Self::Error>;
    /// Reads a path or another string.
    ///
    /// # Errors
    /// See [`FieldSource::fd`].
    fn name(&mut self, key: &'static str) -> Result<Name, Self::Error>;
    /// Reads a number of at most `max`.
    ///
    /// # Errors
    /// See [`FieldSource::fd`].
    fn number(&mut self, key: &'static str, max: u64) -> Result<u64, Self::Error>;
    /// Reads a mode of at most `max`.
    ///
    /// # Errors
    /// See [`FieldSource::fd`].
    fn octal(&mut self, key: &'static str, max: u64) -> Result<u64, Self::Error> {
        self.number(key, max)
    }
    /// Reads the index of one of `words`.
    ///
    /// # Errors
    /// See [`FieldSource::fd`].
    fn word(
        &mut self,
        key: &'static str,
        words: &'static [&'static str],
    ) -> Result<usize, Self::Error>;
    /// Reads a set of `words`; no other bit is set.
    ///
    /// # Errors
    /// See [`FieldSource::fd`].
    fn bits(
        &mut self,
        key: &'static str,
        words: &'static [&'static str],
    ) -> Result<u32, Self::Error>;
}

/// Type of a field of a call.
pub trait Field: Sized {
    /// Hands the value to `sink`.
    fn put(self, key: &'static str, sink: &mut impl FieldSink);

    /// Takes a value from `source`.
    ///
    /// # Errors
    /// The error of the source.
    fn take<S: FieldSource>(key: &'static str, source: &mut S) -> Result<Self, S::Error>;
}

impl Field for Fd {
    fn put(self, key: &'static str, sink: &mut impl FieldSink) {
        sink.fd(key, self);
    }

    fn take<S: FieldSource>(key: &'static str, source: &mut S) -> Result<Self, S::Error> {
        source.fd(key)
    }
}

impl Field for Name {
    fn put(self, key: &'static str, sink: &mut impl FieldSink) {
        sink.name(key, self);
    }

    fn take<S: FieldSource>(key: &'static str, source: &mut S) -> Result<Self, S::Error> {
        source.name(key)
    }
}

impl Field for u64 {
    fn put(self, key: &'static str, sink: &mut impl FieldSink) {
        sink.number(key, self);
    }

    fn take<S: FieldSource>(key: &'static str, source: &mut S) -> Result<Self, S::Error> {
        source.number(key, Self::MAX)
    }
}

impl Field for u32 {
    fn put(self, key: &'static str, sink: &mut impl FieldSink) {
        sink.number(key, self.into());
    }

    fn take<S: FieldSource>(key: &'static str, source: &mut S) -> Result<Self, S::Error> {
        let number = source.number(key, Self::MAX.into())?;
        Ok(Self::try_from(number).expect("bounded by the source"))
    }
}

const TRUTH: &[&str] = &["no", "yes"];

impl Field for bool {
    fn put(self, key: &'static str, sink: &mut impl FieldSink) {
        sink.word(key, usize::from(self), TRUTH);
    }

    fn take<S: FieldSource>(key: &'static str, source: &mut S) -> Result<Self, S::Error> {
        Ok(source.word(key, TRUTH)? == 1)
    }
}
