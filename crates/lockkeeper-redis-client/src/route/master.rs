//! Chooses the master by the opinions of the sentinels.

use crate::wire::Endpoint;

/// A sentinel's opinion: the master, and before it the number of the switch that made it the master
/// (the config epoch), if this user may see that.
pub(super) type Opinion = (Option<i64>, Endpoint);

/// The master to go to, if one can be believed. That is the master of the latest switch that a
/// sentinel knows; if the sentinels disagree about that switch, the opinion that most have. If a
/// sentinel does not show its switch, the master counts that most of them name.
///
/// A client that has a master does not go to the master of an earlier switch: a sentinel that is
/// cut off from the others still names the deposed master, which may grant locks that are held at
/// the new one. Only all of `sentinels` together may number the switches from the beginning again.
/// Without numbers more than half of the sentinels have to agree.
pub(super) fn choose(
    opinions: &[Opinion],
    sentinels: usize,
    current: Option<&Opinion>,
) -> Option<Opinion> {
    let count =
        |wanted: &Endpoint| opinions.iter().filter(|(_, endpoint)| endpoint == wanted).count();
    let best = match opinions.iter().all(|(epoch, _)| epoch.is_some()) {
        true => opinions.iter().max_by_key(|(epoch, endpoint)| (*epoch, count(endpoint))),
        false => opinions.iter().max_by_key(|(epoch, endpoint)| (count(endpoint), *epoch)),
    };
    let endpoint = best?.1.clone();
    let agree = count(&endpoint);
    let epoch = opinions
        .iter()
        .filter(|opinion| opinion.1 == endpoint)
        .filter_map(|opinion| opinion.0)
        .max();
    match current {
        None => Some((epoch, endpoint)),
        Some((known, here)) if *here == endpoint => Some((epoch.max(*known), endpoint)),
        Some((known, _)) => {
            let is_believed = match (known, epoch) {
                (Some(known), Some(epoch)) if epoch > *known => true,
                (Some(known), Some(epoch)) if epoch < *known => agree == sentinels,
                _ => 2 * agree > sentinels,
            };
            is_believed.then_some((epoch, endpoint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(epoch: impl Into<Option<i64>>, port: u16) -> Opinion {
        (epoch.into(), Endpoint { host: "h".to_owned(), port })
    }

    const A: u16 = 1;
    const B: u16 = 2;

    #[test]
    fn the_latest_switch_counts_and_of_one_switch_what_most_say() {
        let all = [says(1, A), says(2, B), says(1, A)];
        assert_eq!(choose(&all, 3, None), Some(says(2, B)));
        assert_eq!(choose(&all, 3, Some(&says(1, A))), Some(says(2, B)));
        assert_eq!(choose(&[says(0, A), says(0, B), says(0, B)], 3, None), Some(says(0, B)));
        assert_eq!(choose(&[], 3, None), None);
    }

    #[test]
    fn a_sentinel_without_the_switch_sends_no_client_back() {
        let current = says(2, B);
        assert_eq!(choose(&[says(1, A)], 3, Some(&current)), None);
        assert_eq!(choose(&[says(1, A), says(1, A)], 3, Some(&current)), None);
        assert_eq!(choose(&[says(3, A)], 3, Some(&current)), Some(says(3, A)));
        // All of them have begun again with the numbers.
        assert_eq!(
            choose(&[says(0, A), says(0, A), says(0, A)], 3, Some(&current)),
            Some(says(0, A))
        );
    }

    #[test]
    fn an_invisible_switch_does_not_lose_to_a_finished_one() {
        let all = [says(1, A), says(None, B), says(None, B)];
        assert_eq!(choose(&all, 3, None), Some(says(None, B)));
        assert_eq!(choose(&all, 3, Some(&says(1, A))), Some(says(None, B)));
        assert_eq!(choose(&[says(None, A)], 3, Some(&says(None, B))), None);
        assert_eq!(choose(&[says(None, A)], 3, Some(&says(2, B))), None);
        assert_eq!(choose(&[says(None, B)], 3, Some(&says(2, B))), Some(says(2, B)));
        assert_eq!(choose(&[says(None, A)], 1, Some(&says(None, B))), Some(says(None, A)));
    }
}
