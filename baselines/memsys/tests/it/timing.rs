//! How long things take: sums of parts, bounds, and the same time for the same work.
