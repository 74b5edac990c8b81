//! The likely meaning of a mistyped word.

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
