//! Numbers as people read them: three significant digits and a unit.
//!
//! Invariant: every function is total. A number that is not finite reads as
//! [`NOTHING`], never as `NaN`, and no magnitude panics.

/// Placeholder for a missing number.
pub const NOTHING: &str = "–";

/// Steps of a unit: (smallest value that uses it, its size, its name), largest first.
type Ladder = &'static [(f64, f64, &'static str)];

const TIME: Ladder = &[
    (172.8e12, 86.4e12, "d"),
    (7.2e12, 3.6e12, "h"),
    (120e9, 60e9, "min"),
    (1e9, 1e9, "s"),
    (1e6, 1e6, "ms"),
    (1e3, 1e3, "µs"),
    (0.0, 1.0, "ns"),
];

const BYTES: Ladder = &[
    (1152921504606846976.0, 1152921504606846976.0, "EiB"),
    (1125899906842624.0, 1125899906842624.0, "PiB"),
    (1099511627776.0, 1099511627776.0, "TiB"),
    (1073741824.0, 1073741824.0, "GiB"),
    (1048576.0, 1048576.0, "MiB"),
    (1024.0, 1024.0, "KiB"),
    (0.0, 1.0, "B"),
];

const COUNT: Ladder = &[
    (1e18, 1e18, "E"),
    (1e15, 1e15, "P"),
    (1e12, 1e12, "T"),
    (1e9, 1e9, "G"),
    (1e7, 1e6, "M"),
    (0.0, 1.0, ""),
];

fn rung(ladder: Ladder, value: f64) -> (f64, &'static str) {
    ladder
        .iter()
        .find(|(from, ..)| value.abs() >= *from)
        .map_or((1.0, ""), |&(_, size, name)| (size, name))
}

fn on(ladder: Ladder, value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let (size, name) = rung(ladder, value);
    format!("{} {name}", digits(value / size))
        .trim_end()
        .to_owned()
}

/// The size and name of the unit to print sizes up to `largest` bytes in.
#[must_use]
pub fn bytes_unit(largest: f64) -> (f64, &'static str) {
    rung(BYTES, largest)
}

/// The size and name of the unit to print times up to `largest` ns in.
#[must_use]
pub fn time_unit(largest: f64) -> (f64, &'static str) {
    rung(TIME, largest)
}

/// Three significant digits; whole numbers keep all of theirs, in groups.
fn digits(value: f64) -> String {
    match value.abs() {
        m if m >= 1e15 => format!("{value:.2e}"),
        m if m >= 99.95 => grouped(&format!("{value:.0}")),
        m if m >= 9.995 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        m if m < 0.005 => format!("{value:.1e}"),
        _ => format!("{value:.2}"),
    }
}

/// Groups digits by thousands: `1234567` as `1,234,567`.
fn grouped(whole: &str) -> String {
    let (sign, figures) = whole.strip_prefix('-').map_or(("", whole), |f| ("-", f));
    let mut out = String::from(sign);
    for (i, figure) in figures.chars().enumerate() {
        if i > 0 && (figures.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(figure);
    }
    out
}

/// A time in ns: `812 ns`, `40.0 µs`, `1.23 s`, `2.50 h`.
#[must_use]
pub fn time(ns: f64) -> String {
    match on(TIME, ns) {
        zero if zero == "0 ns" => "0".to_owned(),
        text if ns < 1e3 && ns.fract() == 0.0 => text.replace(".00", "").replace(".0", ""),
        text => text,
    }
}

/// A size in bytes: `0 B`, `1.50 KiB`, `931 GiB`.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    if bytes.abs() < 1024.0 && bytes.fract() == 0.0 {
        return format!("{bytes:.0} B");
    }
    on(BYTES, bytes)
}

/// A count: in full below ten million, then `12.3 M`.
#[must_use]
pub fn count(value: f64) -> String {
    if value.abs() < 1e7 && value.fract() == 0.0 {
        return grouped(&format!("{value:.0}"));
    }
    on(COUNT, value)
}

/// A plain factor: `1.00`, `12.3`, `1,234`.
#[must_use]
pub fn factor(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    match value {
        0.0 => "0.00".to_owned(),
        v if v.abs() >= 1e7 => count(v),
        v => digits(v),
    }
}

/// A ratio to something: `1.00×`.
#[must_use]
pub fn times(value: f64) -> String {
    match factor(value) {
        nothing if nothing == NOTHING => nothing,
        text => format!("{text}×"),
    }
}

/// A share between 0 and 1 as a percentage: `12.3 %`.
#[must_use]
pub fn share(value: f64) -> String {
    match value * 100.0 {
        v if !v.is_finite() => NOTHING.to_owned(),
        0.0 => "0 %".to_owned(),
        v if v.abs() < 0.05 => "<0.1 %".to_owned(),
        v if v.abs() < 99.95 => format!("{v:.1} %"),
        v => format!("{} %", count(v.round())),
    }
}

/// Years of drive life, as days if less than one: `37.2 d`, `12.3 y`, `12.3 M y`.
#[must_use]
pub fn years(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v < 1.0 => (v * 365.25, "d"),
        v => (v, "y"),
    };
    match factor(scaled) {
        nothing if nothing == NOTHING => nothing,
        text => format!("{text} {unit}"),
    }
}

/// A Unix time as `2024-05-17 09:30:00`, UTC.
#[must_use]
pub fn date(unix_s: i64) -> String {
    let (days, second) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}")
}

/// Days since 1970 as a date of the Gregorian calendar, after Hinnant's
/// `civil_from_days`: years begin in March, so that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let march = (5 * doy + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    (year, month, doy - (153 * march + 2) / 5 + 1)
}

/// Drops trailing zeros, `1.00 ms` to `1 ms`, for labels of an axis.
#[must_use]
pub fn trimmed(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// `x` with three significant digits and no trailing zeros, as columns of ratios and shares need.
#[must_use]
pub fn three(x: f64) -> String {
    let magnitude = match x {
        0.0 => 0,
        _ => x.abs().log10().floor() as i32,
    };
    let decimals = usize::try_from((2 - magnitude).clamp(0, 6)).unwrap_or_default();
    let text = format!("{x:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// `text` on one line of at most `columns` columns, without control characters. A text that is too
/// long loses its middle, since file names differ at their ends.
#[must_use]
pub fn name(text: &str, columns: usize) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let chars: Vec<char> = text.chars().map(plain).collect();
    let whole: String = chars.iter().collect();
    if width(&whole) <= columns {
        return whole;
    }
    let keep = |chars: &mut dyn Iterator<Item = char>, room: usize| {
        let mut kept = String::new();
        for c in chars {
            if width(&kept) + width(c.encode_utf8(&mut [0; 4])) > room {
                break;
            }
            kept.push(c);
        }
        kept
    };
    let room = columns.saturating_sub(1);
    let tail = keep(&mut chars.iter().rev().copied(), room / 2);
    let head = keep(&mut chars.iter().copied(), room - width(&tail));
    format!("{head}…{}", tail.chars().rev().collect::<String>())
}

/// Width of `text` in terminal columns.
#[must_use]
pub fn width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_keep_three_digits() {
        assert_eq!(time(812.0), "812 ns");
        assert_eq!(time(40_000.0), "40.0 µs");
        assert_eq!(time(1_234_567.0), "1.23 ms");
        assert_eq!(time(9e12), "2.50 h");
        assert_eq!(bytes(1536.0), "1.50 KiB");
        assert_eq!(bytes(17.0), "17 B");
    }

    #[test]
    fn counts_are_grouped_then_shortened() {
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(count(123_456_789.0), "123 M");
        assert_eq!(factor(0.987), "0.99");
        assert_eq!(share(0.1234), "12.3 %");
        assert_eq!(share(1.0), "100 %");
    }

    #[test]
    fn non_finite_number_prints_as_a_dash() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(time(value), NOTHING);
            assert_eq!(times(value), NOTHING);
        }
        assert_eq!(bytes(u64::MAX as f64), "16.0 EiB");
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(date(-1), "1969-12-31 23:59:59");
    }

    #[test]
    fn names_cannot_steer_a_terminal_and_fit() {
        assert_eq!(name("a\x1b[2Jb", 20), "a\u{fffd}[2Jb");
        assert_eq!(name("/var/mail/inbox/000123", 11), "/var/…00123");
        assert_eq!(name("日本語日本語", 7), "日本…語");
    }

    #[test]
    fn axes_lose_empty_zeros() {
        assert_eq!(trimmed("1.00 ms"), "1 ms");
        assert_eq!(trimmed("100 µs"), "100 µs");
        assert_eq!(trimmed("0.50"), "0.5");
    }

    #[test]
    fn three_keeps_three_significant_digits() {
        let said = [0.0, 0.0002, 0.307, 1.0, 2.549, 25.34, 255.4, 12_345.6].map(three);
        assert_eq!(
            said,
            ["0", "0.0002", "0.307", "1", "2.55", "25.3", "255", "12346"]
        );
    }
}
