//! How much of a lock is wanted, as it was typed.

use clap::Args;

/// The most permits that a lock can have.
const MOST: u32 = 1 << 31;

/// The whole lock, a share beside other holders, or some of its permits.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ModeArgs {
    /// Take the lock in shared (read) mode
    ///
    /// Any number of shared holders may have the lock together, but never together with an
    /// exclusive holder.
    #[arg(short, long, conflicts_with = "permits")]
    pub(crate) shared: bool,

    /// Take K (default 1) of N permits
    ///
    /// If claims name different numbers N, the smallest N of the holders counts.
    #[arg(long, value_name = "[K/]N", value_parser = Permits::parse)]
    pub(crate) permits: Option<Permits>,
}

/// Some of the permits of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permits {
    /// How many are wanted.
    pub(crate) count: u32,
    /// How many there are.
    pub(crate) of: u32,
}

impl Permits {
    /// `N`, or `K/N`.
    fn parse(text: &str) -> Result<Self, String> {
        let (count, of) = text.split_once('/').unwrap_or(("1", text));
        let (Some(count), Some(of)) = (number(count), number(of)) else {
            return Err(format!(
                "{text:?} is no number of permits. Try: 5 for one of five, or 2/5 for two of them"
            ));
        };
        if of > MOST {
            return Err(format!("{of} permits are too many. Try: at most {MOST}"));
        }
        if count > of {
            return Err(format!("nobody can have {count} of {of} permits. Try: at most {of}/{of}"));
        }
        Ok(Self { count, of })
    }
}

/// A number of permits. Zero permits are refused: a claim needs at least one.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    // A number with too many digits counts as too many permits.
    digits
        .then(|| text.parse().unwrap_or(if text.is_empty() { 0 } else { u32::MAX }))
        .filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_one_or_some_of_all() {
        for (text, count, of) in [
            ("1", 1, 1),
            ("5", 1, 5),
            ("2/5", 2, 5),
            ("5/5", 5, 5),
            ("007", 1, 7),
            ("2147483648/2147483648", MOST, MOST),
        ] {
            assert_eq!(Permits::parse(text), Ok(Permits { count, of }), "{text}");
        }
    }

    #[test]
    fn permits_that_nobody_can_have_are_refused_with_what_can_be_had() {
        for text in ["", "0", "x", "0/5", "2/0", "/5", "2/", "-1", "+1", "1.5", "1/2/3", " 5", "½"]
        {
            let error = Permits::parse(text).unwrap_err();
            assert!(
                error.contains("is no number of permits. Try: 5 for one of five, or 2/5"),
                "{text:?}: {error}"
            );
        }
        assert_eq!(
            Permits::parse("3/2").unwrap_err(),
            "nobody can have 3 of 2 permits. Try: at most 2/2"
        );
        for text in ["2147483649", "1/2147483649", "4294967296", "99999999999999999999"] {
            let error = Permits::parse(text).unwrap_err();
            assert!(
                error.ends_with("permits are too many. Try: at most 2147483648"),
                "{text}: {error}"
            );
        }
    }
}
