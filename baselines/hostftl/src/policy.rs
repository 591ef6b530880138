//! Throttling of new data while lines are cleaned: a pure function.

/// Sectors of a buffer of `all` that new data may use, with `free` free lines of which `reserve`
/// are closed to new data. All from `enough` free lines on; below, in proportion to the lines above
/// the reserve, but at least `least`, and never more than `all`.
pub(crate) fn quota(all: u32, least: u32, free: u32, reserve: u32, enough: u32) -> u32 {
    if free >= enough {
        return all;
    }
    let (above, span) = (free.saturating_sub(reserve), enough.saturating_sub(reserve));
    let share = u64::from(all) * u64::from(above) / u64::from(span.max(1));
    (share as u32).max(least).min(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_falls_with_free_lines_but_not_to_zero() {
        let of = |free| quota(1000, 24, free, 2, 6);
        assert_eq!(
            [of(9), of(6), of(5), of(4), of(3), of(2), of(0)],
            [1000, 1000, 750, 500, 250, 24, 24]
        );
        assert_eq!(quota(10, 24, 0, 2, 6), 10, "no more than there is");
        assert_eq!(quota(10, 1, 2, 2, 2), 10);
    }
}
