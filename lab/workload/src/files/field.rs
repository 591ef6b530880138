//! The parts that calls are made of, for whoever writes or reads all of them.
//!
//! A call is declared once, in `call.rs`; a format of traces says how a number,
//! a name or a word looks and gets every call from that.

use super::{Fd, Name};

/// Takes the fields of a call, in the order of its declaration.
pub trait FieldSink {
    /// An open file.
    fn fd(&mut self, key: &'static str, fd: Fd);
    /// A string.
    fn name(&mut self, key: &'static str, name: Name);
    /// A number.
    fn number(&mut self, key: &'static str, number: u64);
    /// A mode: a number that people read in octal.
    fn octal(&mut self, key: &'static str, number: u64) {
        self.number(key, number);
    }
    /// One of `words`.
    fn word(&mut self, key: &'static str, index: usize, words: &'static [&'static str]);
    /// Any of `words`, the lowest bit being the first.
    fn bits(&mut self, key: &'static str, bits: u32, words: &'static [&'static str]);
}

/// Gives the fields of a call, in the order of its declaration.
pub trait FieldSource {
    /// What is wrong with the input.
    type Error;
    /// An open file.
    ///
    /// # Errors
    /// If there is none, as for all that follow.
    fn fd(&mut self, key: &'static str) -> Result<Fd, Self::Error>;
    /// A string.
    ///
    /// # Errors
    /// See [`FieldSource::fd`].
    fn name(&mut self, key: &'static str) -> Result<Name, Self::Error>;
    /// A number of at most `max`.
    ///
    /// # Errors
    /// See [`FieldSource::fd`].
    fn number(&mut self, key: &'static str, max: u64) -> Result<u64, Self::Error>;
    /// A mode of at most `max`.
    ///
    /// # Errors
    /// See [`FieldSource::fd`].
    fn octal(&mut self, key: &'static str, max: u64) -> Result<u64, Self::Error> {
        self.number(key, max)
    }
    /// The index of one of `words`.
    ///
    /// # Errors
    /// See [`FieldSource::fd`].
    fn word(
        &mut self,
        key: &'static str,
        words: &'static [&'static str],
    ) -> Result<usize, Self::Error>;
    /// Any of `words`; no other bit is set.
    ///
    /// # Errors
    /// See [`FieldSource::fd`].
    fn bits(
        &mut self,
        key: &'static str,
        words: &'static [&'static str],
    ) -> Result<u32, Self::Error>;
}

/// A type of fields.
pub trait Field: Sized {
    /// Hands the value to `sink`.
    fn put(self, key: &'static str, sink: &mut impl FieldSink);

    /// Takes a value from `source`.
    ///
    /// # Errors
    /// What the source finds wrong.
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
