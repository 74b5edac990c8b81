//! A renewal, and the meaning of its answers.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::hold::Stage;
use super::loss::broken_by;
use super::{Engine, Hold, Session};
use crate::event::Event;
use crate::random::jittered;
use crate::store::{Live, LiveState, Renewal, Renewed};
use crate::time::Instant;
use crate::{Error, ErrorKind, LostReason, Result};

impl Engine {
    /// Renews these claims of a session; all of its claims if they live with the session. Must be
    /// polled to its end.
    pub(super) async fn renew(
        self: &Arc<Self>,
        session: &Arc<Session>,
        holds: &[Arc<Hold>],
    ) -> Result<()> {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let (mut holds, mut live) = (holds.to_vec(), Vec::new());
        let (sent, mut call, first);
        {
            // A store whose claims belong to a session may remove a claim that a renewal does not
            // list. So no claim may join between the making of the list and the first poll, which
            // sends the request.
            let _list = session.expires_as_one().then(|| session.claims.list(&mut holds));
            live.extend(holds.iter().map(|h| Live { key: h.key.clone(), state: h.live_state() }));
            sent = self.now();
            call = self.store.renew(&session.id, &live);
            first = call.as_mut().poll(&mut Context::from_waker(&waker));
        }
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => call.await,
        };
        Sent { engine: self, session, holds: &holds, live: &live, at: sent }.answered(answer)
    }

    /// Reports a renewal that has failed, or is late.
    pub(super) fn report_not_renewed(&self, session: &Session, holds: &[Arc<Hold>], error: &Error) {
        for hold in holds.iter().filter(|hold| !hold.is_dead()) {
            let error = &self.describe(error.clone(), &hold.key.name);
            let (name, remaining) = (&hold.key.name, hold.remaining());
            match hold.stage() {
                Stage::Granted => {
                    self.events.emit(&Event::RenewalFailed { name, error, remaining })
                }
                Stage::Queued => self.events.emit(&Event::ClaimFailed { name, error }),
                _ => {}
            }
        }
        self.book(session, Some(true));
    }

    /// Plans the next renewal of this claim.
    pub(super) fn plan(&self, hold: &Hold, sent: Instant, every: Duration) {
        if hold.is_renewed() {
            hold.session.schedule_after(hold, sent, every);
        } else {
            hold.session.unschedule(hold);
        }
        self.deadlines.expect(self.end_of(hold));
    }

    /// Notes the outcome of a renewal, and reports a change of the session's danger.
    pub(super) fn book(&self, session: &Session, failing: Option<bool>) {
        let Some(danger) = session.book(failing) else {
            if failing == Some(false) {
                self.sessions.publish_recovery();
            }
            return;
        };
        self.events.emit(if danger { &Event::Jeopardy } else { &Event::Recovered });
        self.sessions.publish();
    }
}

/// A renewal that was sent.
struct Sent<'a> {
    engine: &'a Arc<Engine>,
    session: &'a Arc<Session>,
    holds: &'a [Arc<Hold>],
    /// The same claims, as the request names them.
    live: &'a [Live],
    at: Instant,
}

impl Sent<'_> {
    fn answered(&self, answer: Result<Renewed>) -> Result<()> {
        match answer {
            Ok(renewed) => {
                self.renewed(renewed);
                Ok(())
            }
            // A store that has closed grants the locks of this process to others.
            Err(error) if matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::Closed) => {
                self.engine.expire_session(self.session);
                Err(error)
            }
            Err(error) => {
                self.failed(self.holds, &error);
                Err(error)
            }
        }
    }

    fn renewed(&self, renewed: Renewed) {
        let Self { engine, session, at, .. } = *self;
        let now = engine.now();
        if session.expires_as_one() {
            session.prove(at);
            session.set_due(session.danger.again(at).unwrap_or(at + jittered(session.ttl / 3)));
        }
        let is_whole = self.apply_all(renewed.claims);
        for (id, asked) in &renewed.requests {
            engine.on_asked(*id, asked, at);
        }
        let ran_away = renewed
            .server_time
            .is_some_and(|server| session.server_clock.ran_away(server, at, now));
        if ran_away {
            engine.events.emit(&Event::ClockAnomaly);
        }
        engine.book(session, Some(ran_away || !is_whole));
    }

    /// Applies the answers; returns whether no claim has failed.
    fn apply_all(&self, renewals: Vec<Renewal>) -> bool {
        let until = self.session.proven_until(self.at);
        // If the store answers for fewer claims than the request named, it has not answered for the
        // others.
        let answers = renewals.into_iter().chain(std::iter::repeat(Renewal::Unknown));
        let (mut held, mut is_whole) = (Vec::with_capacity(self.holds.len()), true);
        for ((hold, live), renewal) in self.holds.iter().zip(self.live).zip(answers) {
            hold.set_left_out(matches!(renewal, Renewal::Unknown | Renewal::Failed(_)));
            match renewal {
                Renewal::Failed(error) => {
                    is_whole = false;
                    self.failed(std::slice::from_ref(hold), &error);
                    continue;
                }
                Renewal::Held { .. } => held.push(hold.key.id),
                _ => {}
            }
            self.apply(hold, live.state, renewal, until);
        }
        self.session.danger.found(self.at, held.into_iter());
        is_whole
    }

    fn apply(&self, hold: &Arc<Hold>, asked: LiveState, renewal: Renewal, until: Instant) {
        let engine = self.engine;
        match renewal {
            Renewal::Held { token, ttl } => self.apply_held(hold, token, hold.keeps(ttl, until)),
            Renewal::Queued if asked == LiveState::Granted => {
                engine.lose(hold, LostReason::Forgotten)
            }
            Renewal::Queued => {
                hold.queued(self.at);
                engine.plan(hold, self.at, hold.session.wait_ttl / 3);
            }
            // The answer to the replacing claim decides.
            Renewal::Lost(None) if hold.is_being_replaced() => {}
            // The claim was released while its renewal was on its way: this is no loss.
            Renewal::Lost(_) if hold.session.claims.find_even_lost(hold.key.id).is_none() => {}
            Renewal::Lost(broken) => {
                engine.lose(hold, broken.map_or(LostReason::Forgotten, broken_by))
            }
            Renewal::Unknown | Renewal::Failed(_) => {}
        }
    }

    fn apply_held(&self, hold: &Arc<Hold>, token: u64, until: Instant) {
        let engine = self.engine;
        let known = hold.token();
        if known != 0 && known != token {
            // Another client's grant under our id: the store has lost its memory in between.
            return engine.lose(hold, LostReason::Forgotten);
        }
        let now = engine.now();
        if engine.was_left(hold, now) {
            engine.lose(hold, LostReason::Uncollected);
            return engine.withdraw_later(hold);
        }
        let left = hold.lease_deadline().saturating_since(now);
        if hold.granted(token, until) {
            engine.plan(hold, self.at, hold.ttl() / 3);
            let (name, remaining, ttl) = (&hold.key.name, hold.remaining(), hold.ttl());
            engine.events.emit(&Event::Renewed { name, remaining, left, ttl });
        }
    }

    /// These claims were not renewed.
    fn failed(&self, holds: &[Arc<Hold>], error: &Error) {
        let session = self.session;
        let retry =
            self.engine.now() + jittered(session.wait_ttl / 10).max(Duration::from_millis(5));
        session.set_due(session.due().min(retry));
        for hold in holds {
            match hold.is_renewed() {
                // A round of renewals that has begun since may renew the claim sooner.
                true => session.claims.bring_forward(hold, retry),
                false => session.claims.set_due(hold, None),
            }
        }
        // The renewals of other claims in between do not end the danger.
        let held = |hold: &&Arc<Hold>| hold.stage() == Stage::Granted && hold.is_renewed();
        session.danger.suspect_these(holds.iter().filter(held).map(|hold| hold.key.id));
        self.engine.report_not_renewed(session, holds, error);
        session.watchdog.wake_by(retry);
    }
}
