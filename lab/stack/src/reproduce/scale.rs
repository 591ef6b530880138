//! Scaling of the sizes of a paper.
//!
//! Invariant: text outside braces stays unchanged; a factor of 1 changes nothing but the braces.

use units::Bytes;

/// Sizes with a unit are rounded down to multiples of this: a page of the host and of a drive's
/// mapping.
const PAGE: u64 = 4_096;

/// `text` with each `{SIZE}` in it divided by `factor`. Counts are rounded down, and are at least
/// 1; sizes with a unit, such as `{256MiB}`, to whole pages and at least one. A size with a step
/// after a slash, such as `{1077/3}`, is rounded up to a multiple of the step.
///
/// # Errors
/// With what was expected between the braces.
pub(super) fn scaled(text: &str, factor: u64) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, from)) = rest.split_once('{') {
        let (size, after) = from
            .split_once('}')
            .ok_or_else(|| format!("expected a }} after the {{ in {text:?}"))?;
        out += before;
        out += &divided(size, factor)?.to_string();
        rest = after;
    }
    Ok(out + rest)
}

fn divided(text: &str, factor: u64) -> Result<u64, String> {
    let read = |text: &str| -> Result<u64, String> {
        let size: Bytes = text.parse().map_err(|e| format!("{{{text}}}: {e}"))?;
        Ok(size.0)
    };
    if let Some((size, step)) = text.split_once('/') {
        let step = read(step)?.max(1);
        let part = read(size)?.div_ceil(factor.max(1)).max(1);
        return Ok(part.div_ceil(step).saturating_mul(step));
    }
    let part = read(text)? / factor.max(1);
    let counted = text.trim().ends_with(|c: char| c.is_ascii_digit());
    Ok(match counted {
        true => part.max(1),
        false => (part / PAGE * PAGE).max(PAGE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_in_braces_is_divided() {
        let of = |text: &str, factor: u64| scaled(text, factor).unwrap();
        assert_eq!(
            of("varmail:files={1000000},size=16k", 64),
            "varmail:files=15625,size=16k"
        );
        assert_eq!(of("a={100},b={3}", 64), "a=1,b=1");
        assert_eq!(of("{256MiB}", 64), "4194304");
        assert_eq!(
            (of("{10KiB}", 1), of("{10KiB}", 64)),
            ("8192".to_owned(), "4096".to_owned())
        );
        assert_eq!(of("plain", 64), "plain");
        assert_eq!(
            (of("{1077/3}", 64), of("{1077/3}", 1)),
            ("18".into(), "1077".into())
        );
        assert_eq!(of("{2MiB/1MiB}", 64), "1048576");
    }

    #[test]
    fn braces_without_a_size_are_rejected() {
        assert!(scaled("a={", 2).unwrap_err().contains('}'));
        assert!(scaled("a={many}", 2).unwrap_err().contains("many"));
        assert!(scaled("a={4/x}", 2).unwrap_err().contains("{x}"));
    }
}
