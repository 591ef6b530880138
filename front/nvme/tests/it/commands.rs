//! What a controller tells of itself, parsed back.
