//! The predecessors of a claim in a short queue: one watch shows the ends of all of them.

use bytes::Bytes;

use super::layout::Contender;
use super::wire::messages::Event;
use super::wire::messages::event::EventType;

/// With at most so many predecessors, one watch on the line shows all their ends. In a longer queue, etcd would send
/// each end to many watches.
pub(super) const SHORT_QUEUE: usize = 8;

/// The predecessors of a claim, each by its key and the revision that made it: keys are used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Predecessors(Vec<(Bytes, i64)>);

impl Predecessors {
    pub(super) fn of(line: &[Contender]) -> Self {
        Self(line.iter().map(|contender| (contender.key.clone(), contender.created)).collect())
    }

    /// Removes the predecessors whose end these events show.
    pub(super) fn apply(&mut self, events: &[Event]) {
        self.0.retain(|(key, made)| !ends(events, key, *made));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether these tell the end of the key that this revision has made. A member that lags behind may tell of the end of an
/// earlier one.
pub(super) fn ends(events: &[Event], key: &Bytes, made: i64) -> bool {
    let is_its_end = |event: &Event| {
        let of_it = event.kv.as_ref().is_some_and(|kv| kv.key == *key && kv.mod_revision > made);
        event.r#type() == EventType::Delete && of_it
    };
    events.iter().any(is_its_end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages::KeyValue;

    fn event(kind: EventType, key: &str, revision: i64) -> Event {
        let kv =
            KeyValue { key: Bytes::copy_from_slice(key.as_bytes()), mod_revision: revision, ..KeyValue::default() };
        let mut event = Event { kv: Some(kv), ..Event::default() };
        event.set_type(kind);
        event
    }

    #[test]
    fn a_predecessor_that_is_gone_is_removed_and_no_other() {
        let both = || Predecessors(vec![("a".into(), 5), ("b".into(), 7)]);
        let mut ahead = both();
        for nothing_of_them in
            [event(EventType::Put, "b", 9), event(EventType::Delete, "b", 6), event(EventType::Delete, "c", 9)]
        {
            ahead.apply(&[nothing_of_them]);
            assert_eq!(ahead, both());
        }
        ahead.apply(&[event(EventType::Put, "c", 9), event(EventType::Delete, "b", 9)]);
        assert_eq!(ahead, Predecessors(vec![("a".into(), 5)]));
        // Its key may be somebody else's by now, who came later.
        ahead.apply(&[event(EventType::Delete, "a", 10), event(EventType::Put, "a", 11)]);
        assert!(ahead.is_empty());
    }
}
