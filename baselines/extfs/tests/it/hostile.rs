//! Images that are damaged, by accident or on purpose.
