//! The known schemes, and the likely meaning of a mistyped one.

use super::known::{LATER, OWN, all};
use super::syntax::{Scheme, UrlForm, UrlSyntax};
use crate::{Error, ErrorKind};

/// The scheme as in the table, in any case, and the form of its URLs.
pub(super) fn find(scheme: &str) -> Option<(&'static str, UrlForm)> {
    names().into_iter().find(|(name, _)| name.eq_ignore_ascii_case(scheme))
}

/// The likely meaning of an unknown scheme.
pub(super) fn suggestion(scheme: &str) -> String {
    let names = names();
    let meant = nearest(scheme, names.iter().map(|(name, _)| *name));
    match names.iter().find(|(name, _)| Some(*name) == meant) {
        Some((name, UrlForm::Hosts)) => format!("{name}://"),
        Some((name, _)) => format!("{name}:"),
        None => examples(),
    }
}

/// Examples for a user without a valid store: lockkeeper's own stores, the last one first.
pub(super) fn examples() -> String {
    let example = |scheme: &Scheme| match scheme.form {
        UrlForm::Alone => None,
        UrlForm::Path => Some(format!("{}:PATH", scheme.name)),
        UrlForm::Hosts => Some(format!("{}://HOST", scheme.name)),
    };
    let mut examples: Vec<_> =
        all().into_iter().rev().filter_map(|urls| urls.schemes.first().and_then(example)).collect();
    match examples.pop() {
        Some(last) if examples.is_empty() => last,
        Some(last) => format!("{} or {last}", examples.join(", ")),
        None => String::new(),
    }
}

/// The parameters that only this scheme takes; `None` if they are not known yet.
pub(super) fn own_params(scheme: &str) -> Option<Vec<&'static str>> {
    Some(syntax(scheme)?.params_of(scheme))
}

/// The checks that `unsafe=` may waive; `None` if they are not known yet.
pub(super) fn checks(scheme: &str) -> Option<&'static [&'static str]> {
    Some(syntax(scheme)?.checks)
}

/// The error for a scheme whose store this build lacks.
pub(super) fn lacking(scheme: &str) -> Error {
    let has_it = |urls: &UrlSyntax| urls.names().any(|name| name == scheme);
    let (message, remedy) = match OWN.iter().find(|own| has_it(own.urls)) {
        Some(own) => (
            format!("{scheme}: needs {}", own.needs),
            "a build of lockkeeper that has it".to_owned(),
        ),
        None => (
            format!("this version of lockkeeper does not have the store of {scheme}:// yet"),
            examples(),
        ),
    };
    Error::new(ErrorKind::Unsupported, message).with_remedy(remedy)
}

fn syntax(scheme: &str) -> Option<&'static UrlSyntax> {
    all().into_iter().find(|urls| urls.names().any(|name| name == scheme))
}

/// Every scheme, and the form of its URLs.
fn names() -> Vec<(&'static str, UrlForm)> {
    let with_form = |scheme: &'static Scheme| scheme.names().map(|name| (name, scheme.form));
    let known = all().into_iter().flat_map(|urls| urls.schemes.iter().flat_map(with_form));
    known.chain(LATER.map(|name| (name, UrlForm::Hosts))).collect()
}

/// Returns the candidate that a mistyped word most likely means, or `None` if none is near enough.
/// One edit in three letters is allowed: at least one, and at most three.
///
/// ```
/// use lockkeeper::url::nearest;
///
/// assert_eq!(nearest("max-waitesr", ["prefix", "max-waiters"]), Some("max-waiters"));
/// assert_eq!(nearest("colour", ["prefix", "max-waiters"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (edits(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters have to be inserted, removed, replaced or swapped with a neighbour.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            next[j] = replaced.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("ttl", "ttl", 0),
            ("tll", "ttl", 1),
            ("tlt", "ttl", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((edits(a, b), edits(b, a)), (distance, distance), "{a} {b}");
        }
    }
}
