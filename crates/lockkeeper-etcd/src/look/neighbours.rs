//! What blocks a waiting claim, and what wakes it.
//!
//! etcd gives each key the revision that created it, and revisions only rise: they are the order of
//! a line. A watch that stands reports every change of its keys, in the order of the revisions, or
//! it ends. So a waiter watches the few keys whose change can admit its claim:
//!
//! ```text
//! claim                      watched, and for what                        admitted
//! -------------------------  -------------------------------------------  ------------------------
//! writer, at most 8 ahead    the whole line, for deletions                when the last is gone
//! writer, more ahead         the key right ahead, for its deletion        after a look
//! reader behind a writer     the last writer ahead, for every change      after a look
//! permits, first to wait     the whole line, for every change             after a look
//! permits, behind others     the key right ahead, for every change        after a look
//! ```
//!
//! The first row saves the request of the look. It is for short queues only: in a long one, etcd
//! would send each deletion to many watches.

use crate::layout::{Contender, Incarnation, Span, admissions};
use crate::store::{MAX, Wake};
use crate::wire::What;
use crate::wire::messages::Event;
use crate::wire::messages::event::EventType;

/// A writer behind at most so many claims watches all of them.
pub(crate) const SHORT_QUEUE: usize = 8;

/// What a waiter does next, as a look or a watch has shown.
#[derive(Debug)]
pub(crate) enum Next {
    /// These neighbours block the claim: the waiter watches them.
    Blocked(Neighbours),
    /// Something has happened that may admit or end the claim: the waiter looks.
    Look,
    /// A watch has ended, so a change may have been missed: the waiter watches again, and looks.
    Unwatched(Neighbours),
    /// The wait is over.
    Over(Wake),
}

/// What blocks a waiting claim: the keys whose change can admit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Neighbours {
    /// A writer waits until all claims ahead of it are gone.
    Ahead(Predecessors),
    /// A reader, or permits, may be admitted by any change of these keys: a writer that becomes a
    /// reader, or a waiter right ahead that was admitted and has changed its key to show that.
    Shared(Span),
}

/// The claims ahead of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Predecessors {
    /// The keys to watch for deletions: the whole line in a short queue, else the last predecessor.
    watched: Span,
    /// The last predecessor. While it is there, the writer is blocked.
    last: Incarnation,
    /// The predecessors whose ends the watch has not reported yet. When none is left, the writer
    /// has the lock. `None` if the watch cannot prove that: the watch does not report all ends, the
    /// end of the writer's own claim among them. Or a predecessor is on the writer's own lease,
    /// which may have ended as a whole. Or the predecessors were read before the watch stood.
    remaining: Option<Vec<Incarnation>>,
}

impl Neighbours {
    /// What blocks this claim behind these predecessors; `None` if nothing does. For a writer the
    /// last two predecessors are enough, or, with `short_queue`, one more than [`SHORT_QUEUE`].
    pub(crate) fn of(own: &Contender, ahead: &[Contender], short_queue: bool) -> Option<Self> {
        let last = ahead.last()?;
        match own.weight() {
            MAX => Some(Self::Ahead(Predecessors::of(own, ahead, last, short_queue))),
            _ => shared(own, ahead, last).map(Self::Shared),
        }
    }

    /// The keys to watch.
    pub(crate) fn span(&self) -> &Span {
        match self {
            Self::Ahead(Predecessors { watched, .. }) | Self::Shared(watched) => watched,
        }
    }

    /// What a watch has to report of them.
    pub(crate) fn to_watch(&self) -> What {
        let Span { from, to } = self.span().clone();
        What { key: from, end: to, only_deletions: matches!(self, Self::Ahead(_)) }
    }

    /// Whether these are all claims ahead of a writer. Then their watch reports the end of the
    /// claim itself too.
    pub(crate) fn are_all_ahead(&self) -> bool {
        matches!(self, Self::Ahead(ahead) if !ahead.watched.to.is_empty())
    }

    /// The claim that blocks a writer for as long as it is there.
    pub(crate) fn last(&self) -> Option<&Incarnation> {
        match self {
            Self::Ahead(ahead) => Some(&ahead.last),
            Self::Shared(_) => None,
        }
    }

    /// The same neighbours, as far as they are known without a watch that stood when they were
    /// read.
    pub(crate) fn read_before_a_watch(self) -> Self {
        match self {
            Self::Ahead(ahead) => Self::Ahead(Predecessors { remaining: None, ..ahead }),
            shared @ Self::Shared(_) => shared,
        }
    }

    /// What these events of the watch mean for the claim with this key; `None` if it is blocked as
    /// before. The revision in `own` is 0 if it is not known.
    pub(crate) fn on_events(&mut self, own: &Incarnation, events: &[Event]) -> Option<Next> {
        if own.is_ended_by(events) {
            return Some(Next::Over(Wake::Changed));
        }
        let Self::Ahead(Predecessors { remaining: Some(remaining), .. }) = self else {
            return Some(Next::Look);
        };
        remaining.retain(|predecessor| !predecessor.is_ended_by(events));
        match own.created {
            _ if !remaining.is_empty() => None,
            0 => Some(Next::Look),
            created => Some(Next::Over(Wake::Granted { token: created.unsigned_abs() })),
        }
    }
}

impl Predecessors {
    fn of(own: &Contender, ahead: &[Contender], last: &Contender, short_queue: bool) -> Self {
        let are_all_watched = short_queue && ahead.len() <= SHORT_QUEUE;
        let are_on_other_leases = ahead.iter().all(|contender| contender.lease != own.lease);
        Self {
            watched: if are_all_watched { Span::line_of(&own.key) } else { Span::one(&last.key) },
            last: last.incarnation(),
            remaining: (are_all_watched && are_on_other_leases)
                .then(|| ahead.iter().map(Contender::incarnation).collect()),
        }
    }
}

/// The keys whose change can admit a reader or permits; `None` if nothing blocks the claim.
fn shared(own: &Contender, ahead: &[Contender], last: &Contender) -> Option<Span> {
    let mut line = ahead.to_vec();
    line.push(own.clone());
    if admissions(&line).all(|(_, admitted)| admitted) {
        return None;
    }
    let last_writer = ahead.iter().rfind(|contender| contender.weight() == MAX);
    Some(match last_writer {
        Some(writer) if own.capacity() == MAX => Span::one(&writer.key),
        _ if admissions(ahead).all(|(_, admitted)| admitted) => Span::line_of(&own.key),
        _ => Span::one(&last.key),
    })
}

impl Incarnation {
    /// Whether these events show the end of this incarnation. A member that lags behind may report
    /// the end of an earlier one.
    fn is_ended_by(&self, events: &[Event]) -> bool {
        let is_its_end = |event: &Event| {
            let is_of_it = event
                .kv
                .as_ref()
                .is_some_and(|kv| kv.key == self.key && kv.mod_revision > self.created);
            event.r#type() == EventType::Delete && is_of_it
        };
        events.iter().any(is_its_end)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::messages::KeyValue;

    const OWN: &str = "line/own";

    fn event(kind: EventType, key: &str, revision: i64) -> Event {
        let kv = KeyValue {
            key: Bytes::copy_from_slice(key.as_bytes()),
            mod_revision: revision,
            ..KeyValue::default()
        };
        let mut event = Event { kv: Some(kv), ..Event::default() };
        event.set_type(kind);
        event
    }

    fn incarnation(key: &str, created: i64) -> Incarnation {
        Incarnation { key: Bytes::copy_from_slice(key.as_bytes()), created }
    }

    fn writer(key: &str, created: i64, lease: i64) -> Contender {
        let key = Bytes::copy_from_slice(key.as_bytes());
        Contender {
            key,
            created,
            changed: created,
            lease,
            id: None,
            record: None,
            value: Bytes::new(),
        }
    }

    fn behind(ahead: &[Contender], short_queue: bool) -> Neighbours {
        Neighbours::of(&writer(OWN, 100, 7), ahead, short_queue).unwrap()
    }

    fn many(number: usize) -> Vec<Contender> {
        (1..)
            .take(number)
            .map(|created| writer(&format!("line/{created}"), created, 70 + created))
            .collect()
    }

    #[test]
    fn a_predecessor_that_is_gone_is_removed_and_no_other() {
        let ahead = [writer("line/a", 5, 70), writer("line/b", 7, 71)];
        let (mut neighbours, own) = (behind(&ahead, true), incarnation(OWN, 100));
        let before = neighbours.clone();
        for nothing_of_them in [
            event(EventType::Put, "line/b", 9),
            event(EventType::Delete, "line/b", 6),
            event(EventType::Delete, "line/c", 9),
        ] {
            assert!(neighbours.on_events(&own, &[nothing_of_them]).is_none());
            assert_eq!(neighbours, before);
        }
        let events = [event(EventType::Put, "line/c", 9), event(EventType::Delete, "line/b", 9)];
        assert!(neighbours.on_events(&own, &events).is_none());
        assert_ne!(neighbours, before);
        // Another claim may have the key by now.
        let events = [event(EventType::Delete, "line/a", 10), event(EventType::Put, "line/a", 11)];
        let next = neighbours.on_events(&own, &events);
        assert!(matches!(next, Some(Next::Over(Wake::Granted { token: 100 }))), "{next:?}");
    }

    #[test]
    fn the_end_of_the_claim_itself_is_no_grant() {
        let (mut neighbours, own) =
            (behind(&[writer("line/a", 5, 70)], true), incarnation(OWN, 100));
        let events = [event(EventType::Delete, "line/a", 200), event(EventType::Delete, OWN, 200)];
        let next = neighbours.on_events(&own, &events);
        assert!(matches!(next, Some(Next::Over(Wake::Changed))), "{next:?}");
    }

    #[test]
    fn a_writer_with_a_doubtful_lease_or_an_unknown_revision_looks() {
        let gone = [event(EventType::Delete, "line/a", 200)];
        let mut on_our_lease = behind(&[writer("line/a", 5, 7)], true);
        assert!(matches!(on_our_lease.on_events(&incarnation(OWN, 100), &gone), Some(Next::Look)));
        let mut on_another = behind(&[writer("line/a", 5, 70)], true);
        assert!(matches!(
            on_another.clone().on_events(&incarnation(OWN, 0), &gone),
            Some(Next::Look)
        ));
        let mut read_before = on_another.clone().read_before_a_watch();
        assert!(matches!(read_before.on_events(&incarnation(OWN, 100), &gone), Some(Next::Look)));
        assert!(matches!(on_another.on_events(&incarnation(OWN, 100), &gone), Some(Next::Over(_))));
    }

    #[test]
    fn a_short_queue_is_watched_whole_and_a_long_one_at_its_last_claim() {
        for (number, short_queue, are_all) in [
            (1, true, true),
            (SHORT_QUEUE, true, true),
            (SHORT_QUEUE + 1, true, false),
            (1, false, false),
        ] {
            let neighbours = behind(&many(number), short_queue);
            assert_eq!(neighbours.are_all_ahead(), are_all, "{number} {short_queue}");
            let what = neighbours.to_watch();
            assert!(what.only_deletions);
            match are_all {
                true => assert_eq!((&*what.key, &*what.end), (&b"line/"[..], &b"line0"[..])),
                false => assert_eq!(
                    (&*what.key, &*what.end),
                    (format!("line/{number}").as_bytes(), &b""[..])
                ),
            }
            assert_eq!(neighbours.last().map(|last| last.created), i64::try_from(number).ok());
        }
        // Of two that were asked for, the watch reports the end of the last only.
        let mut two = behind(&many(2), false);
        let gone = [event(EventType::Delete, "line/2", 200)];
        assert!(matches!(two.on_events(&incarnation(OWN, 100), &gone), Some(Next::Look)));
    }

    /// Its own end comes on another watch, perhaps later than the end of the predecessor that came
    /// after it.
    #[test]
    fn a_watch_that_reports_not_the_end_of_the_claim_itself_grants_nothing() {
        let mut neighbours = behind(&many(1), false);
        assert!(!neighbours.are_all_ahead());
        let gone = [event(EventType::Delete, "line/1", 200)];
        let next = neighbours.on_events(&incarnation(OWN, 100), &gone);
        assert!(matches!(next, Some(Next::Look)), "{next:?}");
    }

    #[test]
    fn nothing_blocks_the_first_claim_of_a_line() {
        assert_eq!(Neighbours::of(&writer(OWN, 100, 7), &[], true), None);
    }
}
