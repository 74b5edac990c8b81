//! From traces to figures.

use std::collections::HashMap;

use crate::trace::Cycle;

/// Several measurements of the same thing.
#[derive(Clone, Debug)]
pub struct Rounds(Vec<f64>);

impl Rounds {
    /// No measurement yet.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// The last value.
    pub fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The value below which this share of the values lies.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }

    /// The median of the values.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The greatest value.
    pub fn max(&self) -> f64 {
        self.quantile(1.0)
    }

    /// The ratios, round by round.
    pub fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect())
    }

    /// The median, and the middle half of the values.
    pub fn spread(&self, digits: usize) -> String {
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| self.quantile(share));
        format!("{middle:.digits$} ({low:.digits$}–{high:.digits$})")
    }
}

/// Durations of one measurement, in nanoseconds.
#[derive(Debug)]
pub struct Spans(Vec<u64>);

impl Spans {
    /// Sorts the spans.
    pub fn of(spans: impl IntoIterator<Item = u64>) -> Self {
        let mut spans: Vec<u64> = spans.into_iter().collect();
        spans.sort_unstable();
        Self(spans)
    }

    /// The quantile, in microseconds.
    pub fn quantile(&self, share: f64) -> f64 {
        let at = (self.0.len().saturating_sub(1) as f64 * share).round() as usize;
        self.0.get(at).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
    }
}

/// The figures of one lock that several clients wanted.
#[derive(Debug)]
pub struct Turns {
    /// Grants within the time.
    pub grants: u64,
    /// The number of grants that followed a hold of another client.
    pub hand_offs: u64,
    /// From the call of release to the grant that another client saw.
    pub latency: Spans,
    /// The longest wait, in microseconds.
    pub longest_wait: f64,
    /// Jain's index. 1: all clients had the same number of grants; 1/n: one client had all grants.
    pub jain: f64,
    /// The number of tasks that gave up waiting.
    pub stuck: u64,
    /// Grants before the call of the previous release: there must be none.
    pub overlaps: u64,
}

impl Turns {
    /// The figures of the merged traces of this many clients, between the two times.
    pub fn of(cycles: &[Cycle], clients: usize, start: u64, end: u64, limit: u64) -> Self {
        let mut granted: Vec<&Cycle> = cycles.iter().filter(|cycle| cycle.granted > 0).collect();
        granted.sort_unstable_by_key(|cycle| cycle.granted);
        let within = |cycle: &Cycle| (start..end).contains(&cycle.granted);
        let mut latency = Vec::new();
        let mut overlaps = 0;
        for pair in granted.windows(2) {
            let [before, after] = [pair[0], pair[1]];
            overlaps += u64::from(after.granted < before.gave);
            if after.client != before.client && within(after) {
                // A client that came after the release has waited only since then.
                latency.push(after.granted.saturating_sub(before.gave.max(after.asked)));
            }
        }
        let waits = cycles
            .iter()
            .filter(|cycle| cycle.asked < end && (cycle.granted == 0 || cycle.granted >= start));
        let longest = waits.map(|cycle| match cycle.granted {
            0 => end + limit - cycle.asked,
            granted => granted - cycle.asked,
        });
        let mut counts = HashMap::new();
        for cycle in granted.iter().filter(|cycle| within(cycle)) {
            *counts.entry(cycle.client).or_insert(0_u64) += 1;
        }
        Self {
            grants: counts.values().sum(),
            hand_offs: latency.len() as u64,
            longest_wait: longest.max().unwrap_or(0) as f64 / 1e3,
            latency: Spans::of(latency),
            jain: jain(counts.values().copied(), clients),
            stuck: cycles.iter().filter(|cycle| cycle.granted == 0).count() as u64,
            overlaps,
        }
    }
}

/// Jain's index: the square of the sum over the sum of the squares.
fn jain(counts: impl Iterator<Item = u64>, clients: usize) -> f64 {
    let (mut sum, mut squares) = (0.0, 0.0);
    for count in counts {
        sum += count as f64;
        squares += (count as f64).powi(2);
    }
    if squares == 0.0 { 0.0 } else { sum * sum / (clients as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(client: u64, asked: u64, granted: u64, gave: u64) -> Cycle {
        Cycle { client, asked, granted, gave, done: gave + 1 }
    }

    #[test]
    fn a_hand_off_goes_to_another_client() {
        let cycles =
            [cycle(0, 0, 10, 20), cycle(0, 21, 30, 40), cycle(1, 5, 47, 60), cycle(0, 80, 90, 95)];
        let turns = Turns::of(&cycles, 2, 0, 100, 0);
        assert_eq!((turns.grants, turns.hand_offs, turns.overlaps, turns.stuck), (4, 2, 0, 0));
        // The hand-off from 40 to 47, and from 80 to 90, since the next client came after the
        // release.
        assert_eq!([0.0, 1.0].map(|share| turns.latency.quantile(share)), [0.007, 0.010]);
        assert_eq!(turns.longest_wait, 0.042);
    }

    #[test]
    fn an_overlap_is_seen() {
        let cycles = [cycle(0, 0, 10, 20), cycle(1, 5, 19, 60)];
        assert_eq!(Turns::of(&cycles, 2, 0, 100, 0).overlaps, 1);
    }

    #[test]
    fn who_never_had_it_has_waited_longest() {
        let cycles = [cycle(0, 0, 10, 20), Cycle { client: 1, asked: 5, ..Cycle::default() }];
        let turns = Turns::of(&cycles, 2, 0, 100, 1000);
        assert_eq!((turns.stuck, turns.longest_wait), (1, 1.095));
        assert_eq!(turns.jain, 0.5);
    }

    #[test]
    fn the_middle_half_is_shown() {
        let mut rounds = Rounds::none();
        for value in [5.0, 1.0, 3.0, 2.0, 4.0] {
            rounds.add(value);
        }
        assert_eq!(rounds.spread(1), "3.0 (2.0–4.0)");
    }
}
