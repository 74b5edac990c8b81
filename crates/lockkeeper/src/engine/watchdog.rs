//! Renewing: when, what, and what the answers mean. One watchdog per session.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use super::hold::Stage;
use super::{Engine, Hold, Session};
use crate::duration::format_duration;
use crate::event::Event;
use crate::random::jittered;
use crate::store::{Broken, Live, LiveState, Renewal, Renewed};
use crate::time::{Clock, Instant};
use crate::{Error, ErrorKind, LostReason, Result};

/// How many claims travel in one renewal, where each is renewed by itself.
const BATCH: usize = 100;

/// For so long an engine with a thread of its own keeps a grant whose caller is blocked.
const BLOCKED: Duration = Duration::from_secs(15);

/// Ends with the session or the engine.
pub(super) async fn run(engine: Weak<Engine>, session: Arc<Session>, clock: Clock) {
    loop {
        let pause = {
            let Some(engine) = engine.upgrade() else { return };
            if session.is_over() {
                return;
            }
            if session.end_if_idle(clock.now()) {
                return engine.close_session(&session);
            }
            session.watchdog.begin();
            if session.begin_round(clock.now()) || session.danger.is_shown() {
                engine.book(&session, None);
            }
            engine.renew_what_is_due(&session).await;
            let next = next_look(&session, clock.now());
            session.watchdog.set(next);
            next.saturating_since(clock.now())
        };
        clock.timeout(pause, session.watchdog.woken()).await;
    }
}

/// When to look again: at the next renewal, and now and then whether the session has become idle.
fn next_look(session: &Session, now: Instant) -> Instant {
    let idle = now + session.ttl / 3;
    next_due(session).into_iter().chain(session.danger.next_round()).fold(idle, Instant::min)
}

/// When the next claim is to be renewed, or the session itself.
fn next_due(session: &Session) -> Option<Instant> {
    let own = (session.expires_as_one() && !session.is_fixed()).then(|| session.due());
    session.claims.next_due().into_iter().chain(own).min()
}

impl Engine {
    /// Once something is due, renews it and what is nearly due, the earliest deadline first.
    async fn renew_what_is_due(self: &Arc<Self>, session: &Arc<Session>) {
        let now = self.now();
        if next_due(session).is_none_or(|due| due > now) {
            return;
        }
        // What is due soon travels along, so that many claims make few requests.
        let soon = now + session.wait_ttl / 12;
        let mut due = session.claims.due_by(soon);
        due.sort_by_key(|hold| hold.deadline());
        if session.expires_as_one() {
            let own = !session.is_fixed() && session.due() <= soon;
            if own || !due.is_empty() {
                self.renew_and_move_on(session, due, now + session.wait_ttl / 6).await;
            }
        } else {
            // All batches together have the patience of one: many that hang do not hold up the last.
            let until = now + session.wait_ttl / 6;
            // What was left out travels apart: a store in several places waits for an answer when it has no other.
            let (late, prompt): (Vec<_>, Vec<_>) = due.into_iter().partition(|hold| hold.is_left_out());
            for batch in prompt.chunks(BATCH).chain(late.chunks(BATCH)) {
                self.renew_and_move_on(session, batch.to_vec(), until).await;
            }
        }
    }

    /// A renewal that hangs does not hold up the next one: it goes on by itself, and its answer still counts.
    async fn renew_and_move_on(self: &Arc<Self>, session: &Arc<Session>, holds: Vec<Arc<Hold>>, until: Instant) {
        let limit = session.wait_ttl / 6;
        for hold in &holds {
            session.claims.set_due(hold, Some(self.now() + jittered(limit)));
        }
        if session.expires_as_one() {
            session.set_due(self.now() + jittered(limit));
        }
        let (done, finished) = tokio::sync::oneshot::channel();
        let renewing = (Arc::clone(self), Arc::clone(session), holds.clone());
        self.runtime.finish(async move {
            let (engine, session, holds) = renewing;
            // Failures are booked where they are found.
            let _ = engine.renew(&session, &holds).await;
            let _ = done.send(());
        });
        if self.clock.timeout(until.saturating_since(self.now()), finished).await.is_none() {
            let error =
                Error::new(ErrorKind::Unavailable, format!("no answer to a renewal within {}", format_duration(limit)));
            let endangered = if session.expires_as_one() { session.claims.live() } else { holds };
            self.report_not_renewed(session, &endangered, &error.with_unknown_effect());
        }
    }

    /// Renews these claims of a session; all of its claims where life belongs to the session. Must be polled to its
    /// end.
    pub(super) async fn renew(self: &Arc<Self>, session: &Arc<Session>, holds: &[Arc<Hold>]) -> Result<()> {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let (mut all, mut live) = (holds.to_vec(), Vec::new());
        let (sent, mut call, first);
        {
            // A store whose claims belong to a session may remove what a renewal does not list. So no claim may join
            // between the making of the list and the first poll, with which the request takes its place in the order.
            let _list = session.expires_as_one().then(|| session.claims.list(&mut all));
            live.extend(all.iter().map(|h| Live { key: h.key.clone(), state: h.live_state() }));
            sent = self.now();
            call = self.store.renew(&session.id, &live);
            first = call.as_mut().poll(&mut Context::from_waker(&waker));
        }
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => call.await,
        };
        self.apply_answers(session, &all, &live, answer, sent)
    }

    fn apply_answers(
        self: &Arc<Self>,
        session: &Arc<Session>,
        holds: &[Arc<Hold>],
        live: &[Live],
        answer: Result<Renewed>,
        sent: Instant,
    ) -> Result<()> {
        match answer {
            Ok(renewed) => {
                self.renewed(session, holds, live, renewed, sent);
                Ok(())
            }
            // A store that has closed grants what is held here to others.
            Err(error) if matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::Closed) => {
                self.expire_session(session);
                Err(error)
            }
            Err(error) => {
                self.not_renewed(session, holds, &error);
                Err(error)
            }
        }
    }

    fn renewed(
        self: &Arc<Self>,
        session: &Arc<Session>,
        holds: &[Arc<Hold>],
        live: &[Live],
        renewed: Renewed,
        sent: Instant,
    ) {
        let now = self.now();
        if session.expires_as_one() {
            session.prove(sent);
            session.set_due(session.danger.again(sent).unwrap_or(sent + jittered(session.ttl / 3)));
        }
        let until = session.proven_until(sent);
        // A store that answers for fewer claims than it was asked for has not answered for the rest.
        let answers = renewed.claims.into_iter().chain(std::iter::repeat(Renewal::Unknown));
        let (mut held, mut is_whole) = (Vec::with_capacity(holds.len()), true);
        for ((hold, live), renewal) in holds.iter().zip(live).zip(answers) {
            hold.set_left_out(matches!(renewal, Renewal::Unknown | Renewal::Failed(_)));
            match renewal {
                Renewal::Failed(error) => {
                    is_whole = false;
                    self.not_renewed(session, std::slice::from_ref(hold), &error);
                    continue;
                }
                Renewal::Held { .. } => held.push(hold.key.id),
                _ => {}
            }
            self.apply(hold, live.state, renewal, sent, until);
        }
        session.danger.found(sent, held.into_iter());
        for (id, asked) in &renewed.requests {
            self.on_asked(*id, asked, sent);
        }
        let ran_away = renewed.server_time.is_some_and(|server| session.server_clock.ran_away(server, sent, now));
        if ran_away {
            self.events.emit(&Event::ClockAnomaly);
        }
        self.book(session, Some(ran_away || !is_whole));
    }

    fn not_renewed(self: &Arc<Self>, session: &Arc<Session>, holds: &[Arc<Hold>], error: &Error) {
        let now = self.now();
        let retry = now + jittered(session.wait_ttl / 10).max(Duration::from_millis(5));
        session.set_due(session.due().min(retry));
        for hold in holds {
            session.claims.set_due(hold, hold.is_renewed().then_some(retry));
        }
        // Others that are renewed in between do not make it good.
        let held = |hold: &&Arc<Hold>| hold.stage() == Stage::Granted && hold.is_renewed();
        session.danger.suspect_these(holds.iter().filter(held).map(|hold| hold.key.id));
        self.report_not_renewed(session, holds, error);
        session.watchdog.wake_by(retry);
    }

    fn report_not_renewed(self: &Arc<Self>, session: &Arc<Session>, holds: &[Arc<Hold>], error: &Error) {
        for hold in holds.iter().filter(|hold| !hold.is_dead()) {
            let error = &self.describe(error.clone(), &hold.key.name);
            let (name, remaining) = (&hold.key.name, hold.remaining());
            match hold.stage() {
                Stage::Granted => self.events.emit(&Event::RenewalFailed { name, error, remaining }),
                Stage::Queued => self.events.emit(&Event::ClaimFailed { name, error }),
                _ => {}
            }
        }
        self.book(session, Some(true));
    }

    pub(super) fn apply(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        asked: LiveState,
        renewal: Renewal,
        sent: Instant,
        until: Instant,
    ) {
        match renewal {
            Renewal::Held { token } => self.apply_held(hold, token, sent, until),
            Renewal::Queued if asked == LiveState::Granted => self.lose(hold, LostReason::Forgotten),
            Renewal::Queued => {
                hold.queued(sent);
                self.plan(hold, sent, hold.session.wait_ttl / 3);
            }
            // The answer to the claim that replaces it decides.
            Renewal::Lost(None) if hold.is_being_replaced() => {}
            // It was released while its renewal was on its way: that is no loss.
            Renewal::Lost(_) if hold.session.claims.find_even_lost(hold.key.id).is_none() => {}
            Renewal::Lost(broken) => self.lose(hold, broken.map_or(LostReason::Forgotten, broken_by)),
            Renewal::Unknown | Renewal::Failed(_) => {}
        }
    }

    fn apply_held(self: &Arc<Self>, hold: &Arc<Hold>, token: u64, sent: Instant, until: Instant) {
        let known = hold.token();
        if known != 0 && known != token {
            // Somebody else's grant under our id: the store has lost its memory in between.
            return self.lose(hold, LostReason::Forgotten);
        }
        let now = self.now();
        if self.was_left(hold, now) {
            self.lose(hold, LostReason::Uncollected);
            return self.withdraw_later(hold);
        }
        let left = hold.lease_deadline().saturating_since(now);
        if hold.granted(token, until) {
            self.plan(hold, sent, hold.session.ttl / 3);
            let (name, remaining, ttl) = (&hold.key.name, hold.remaining(), hold.session.ttl);
            self.events.emit(&Event::Renewed { name, remaining, left, ttl });
        }
    }

    /// Whether nobody has collected this grant for a waiter's life: the attempt that it belongs to is polled no more.
    /// An engine with a thread of its own serves callers that block, and keeps a grant for longer.
    pub(super) fn was_left(&self, hold: &Hold, now: Instant) -> bool {
        hold.offered().is_some_and(|since| now.saturating_since(since) >= self.kept(hold))
    }

    /// How long a grant is kept for its attempt.
    pub(super) fn kept(&self, hold: &Hold) -> Duration {
        let least = if self.runtime.is_own() { BLOCKED } else { Duration::ZERO };
        hold.session.wait_ttl.max(least)
    }

    /// When this claim is to be renewed next.
    pub(super) fn plan(&self, hold: &Hold, sent: Instant, every: Duration) {
        let due = hold.session.danger.again(sent).unwrap_or(sent + hold.spread(every));
        if hold.is_renewed() {
            hold.session.schedule(hold, due);
        } else {
            hold.session.unschedule(hold);
        }
        self.deadlines.expect(self.end_of(hold));
    }

    /// Tells of it when the session has come into danger, or out of it.
    fn book(&self, session: &Session, failing: Option<bool>) {
        let Some(danger) = session.book(failing) else {
            if failing == Some(false) {
                self.publish_recovery();
            }
            return;
        };
        self.events.emit(if danger { &Event::Jeopardy } else { &Event::Recovered });
        self.publish_state();
    }
}

/// Why a claim is lost that somebody broke.
pub(super) fn broken_by(Broken { by, reason, removed }: Broken) -> LostReason {
    let (by, reason) = (by.to_string(), reason.to_string());
    if removed { LostReason::Removed { by, reason } } else { LostReason::Broken { by, reason } }
}
