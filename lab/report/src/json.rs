//! Records as JSON documents and back.
//!
//! Invariant: equal records give equal bytes, and a document written here is read back as an equal
//! record.

use crate::claim::{REPRODUCE_SCHEMA, Reproduction};
use crate::papers::{PAPERS_SCHEMA, Papers};
use crate::ranking::{RANKING_SCHEMA, Ranking};
use crate::record::{COMPARE_SCHEMA, Comparison, RUN_SCHEMA, Run};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Error: the text is not a document of the expected schema.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Not JSON at all, or fields that are missing or of the wrong type.
    #[error("expected a {expected} document: {reason}")]
    Malformed {
        /// The schema that the caller expects.
        expected: &'static str,
        /// The fault, with its line and column.
        reason: serde_json::Error,
    },
    /// A JSON document of another kind or version.
    #[error("expected a {expected} document, found schema {found:?}")]
    OtherSchema {
        /// The schema that the caller expects.
        expected: &'static str,
        /// The schema that the document names.
        found: String,
    },
}

/// A record that is a JSON document of its own.
pub trait Document: Serialize + DeserializeOwned {
    /// The schema and version of the document.
    const SCHEMA: &'static str;
}

impl Document for Run {
    const SCHEMA: &'static str = RUN_SCHEMA;
}

impl Document for Comparison {
    const SCHEMA: &'static str = COMPARE_SCHEMA;
}

impl<R: Serialize + DeserializeOwned> Document for Reproduction<R> {
    const SCHEMA: &'static str = REPRODUCE_SCHEMA;
}

impl Document for Ranking {
    const SCHEMA: &'static str = RANKING_SCHEMA;
}

impl Document for Papers {
    const SCHEMA: &'static str = PAPERS_SCHEMA;
}

/// The document of `record`, indented, with a newline at its end.
///
/// # Panics
/// Never: all keys of a record's maps are text.
pub fn to_json<D: Document>(record: &D) -> String {
    let text = serde_json::to_string_pretty(record);
    text.expect("the keys of a record's maps are text") + "\n"
}

/// Parses the document `text` into a record.
///
/// # Errors
/// Names the schema that was expected, and the schema found or the line and
/// column of the fault.
pub fn parse<D: Document>(text: &str) -> Result<D, ParseError> {
    let malformed = |reason| ParseError::Malformed {
        expected: D::SCHEMA,
        reason,
    };
    let Head { schema } = serde_json::from_str(text).map_err(malformed)?;
    if schema != D::SCHEMA {
        return Err(ParseError::OtherSchema {
            expected: D::SCHEMA,
            found: schema,
        });
    }
    serde_json::from_str(text).map_err(malformed)
}

/// The field that every document has: the name of its schema.
#[derive(Deserialize)]
struct Head {
    schema: String,
}
