//! Mutants of sessions: how they open and close, and how several clients of one session affect each
//! other.

use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use super::{Mutant, entry_of};
use lockkeeper::store::{
    Claim, ClaimId, ClaimKey, Evict, Live, Opened, Renewal, Renewed, SessionId, SessionSpec, Store,
    Target, Verdict, Withdrawal, refusal,
};
use lockkeeper::time::{Clock, Instant};
use lockkeeper::{ErrorKind, Result};

/// The client that sends the request: each client of a harness has a right store of its own.
type Sender = usize;

fn sender(right: &dyn Store) -> Sender {
    ptr::from_ref(right).cast::<()>().addr()
}

/// The claims that clients have sent, and the client that sent each claim first.
#[derive(Debug, Default)]
struct Sent(Mutex<HashMap<ClaimKey, Sender>>);

impl Sent {
    fn remember(&self, right: &dyn Store, key: &ClaimKey) {
        self.0.lock().unwrap().entry(key.clone()).or_insert_with(|| sender(right));
    }

    fn of(&self, session: &SessionId, by: impl Fn(Sender) -> bool) -> Vec<ClaimKey> {
        let sent = self.0.lock().unwrap();
        sent.iter()
            .filter(|(key, sent_by)| key.session == *session && by(**sent_by))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

/// A repeated opening removes the claims that the session had.
#[derive(Debug, Default)]
pub struct EmptiesOpenedSessions(Sent);

#[async_trait]
impl Mutant for EmptiesOpenedSessions {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        for key in self.0.of(id, |_| true) {
            right.withdraw(&key, None).await?;
        }
        right.open(id, spec).await
    }

    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.remember(right, &claim.key);
        right.claim(claim).await
    }
}

/// A repeated opening fails, since the session exists already: a lost answer costs the session.
#[derive(Debug, Default)]
pub struct OpensOnce(Mutex<HashSet<SessionId>>);

#[async_trait]
impl Mutant for OpensOnce {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        let is_first = self.0.lock().unwrap().insert(id.clone());
        if is_first { right.open(id, spec).await } else { Err(refusal::session_ended()) }
    }
}

/// A closed session is forgotten at once: a late copy of its opening opens it again.
#[derive(Debug, Default)]
pub struct ReopensWhatWasClosed;

#[async_trait]
impl Mutant for ReopensWhatWasClosed {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        match right.open(id, spec).await {
            Err(error) if error.kind() == ErrorKind::SessionLost => Ok(Opened { ttl: spec.ttl }),
            opened => opened,
        }
    }
}

/// Each client remembers the sessions that it has closed itself, and asks no store.
#[derive(Debug, Default)]
pub struct RemembersItsOwnCloses(Mutex<HashSet<(SessionId, Sender)>>);

#[async_trait]
impl Mutant for RemembersItsOwnCloses {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        let has_closed = self.0.lock().unwrap().contains(&(id.clone(), sender(right)));
        if has_closed { Err(refusal::session_ended()) } else { Ok(Opened { ttl: spec.ttl }) }
    }

    async fn close(&self, right: &dyn Store, session: &SessionId, live: &[Live]) -> Result<()> {
        self.0.lock().unwrap().insert((session.clone(), sender(right)));
        right.close(session, live).await
    }
}

/// The store accepts a repeated opening with other durations as the same opening.
#[derive(Debug, Default)]
pub struct TakesAnyDurations;

#[async_trait]
impl Mutant for TakesAnyDurations {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        match right.open(id, spec).await {
            Err(error) if error.kind() == ErrorKind::Invalid => Ok(Opened { ttl: spec.ttl }),
            opened => opened,
        }
    }
}

/// A repeated opening finds the session, and does not start its lease again.
#[derive(Debug, Default)]
pub struct OpeningWithoutNewTtl(Mutex<HashSet<SessionId>>);

#[async_trait]
impl Mutant for OpeningWithoutNewTtl {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        let is_first = self.0.lock().unwrap().insert(id.clone());
        if is_first { right.open(id, spec).await } else { Ok(Opened { ttl: spec.ttl }) }
    }
}

/// A late copy of an opening takes the session's claims from their next holders.
#[derive(Debug, Default)]
pub struct RevivesTheExpired(Sent);

#[async_trait]
impl Mutant for RevivesTheExpired {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        let claims = self.0.of(id, |_| true);
        let opened = right.open(id, spec).await;
        for key in claims {
            let holder = right.line(&key.name).await?.entries.first().and_then(|entry| entry.token);
            if let (Some(admin), Some(token)) = (right.admin(), holder) {
                admin
                    .evict(&key.name, &Target::Token(token), Evict::Now, "nobody", "an old session")
                    .await?;
            }
        }
        opened
    }

    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.remember(right, &claim.key);
        right.claim(claim).await
    }
}

/// A session is known to the client that opened it, and to no other client.
#[derive(Debug, Default)]
pub struct SessionOfOneClient(Mutex<HashMap<SessionId, HashSet<Sender>>>);

impl SessionOfOneClient {
    fn check(&self, right: &dyn Store, session: &SessionId) -> Result<()> {
        let sessions = self.0.lock().unwrap();
        let knows = sessions.get(session).is_none_or(|openers| openers.contains(&sender(right)));
        if knows { Ok(()) } else { Err(refusal::session_ended()) }
    }
}

#[async_trait]
impl Mutant for SessionOfOneClient {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        self.0.lock().unwrap().entry(id.clone()).or_default().insert(sender(right));
        right.open(id, spec).await
    }

    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        self.check(right, session)?;
        right.renew(session, live).await
    }

    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.check(right, &claim.key.session)?;
        right.claim(claim).await
    }
}

/// A renewal renews the claims that the same client sent. For the other claims it answers from the
/// line.
#[derive(Debug, Default)]
pub struct RenewsItsOwnOnly(Sent);

#[async_trait]
impl Mutant for RenewsItsOwnOnly {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.remember(right, &claim.key);
        right.claim(claim).await
    }

    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        let own = self.0.of(session, |by| by == sender(right));
        let (mut renewed, mut claims) = (Renewed::default(), Vec::new());
        for live in live {
            if own.contains(&live.key) {
                renewed = right.renew(session, std::slice::from_ref(live)).await?;
                claims.append(&mut renewed.claims);
                continue;
            }
            claims.push(match entry_of(right, &live.key).await? {
                Some(entry) if entry.granted => {
                    Renewal::Held { token: entry.token.unwrap_or_default(), ttl: Duration::MAX }
                }
                Some(_) => Renewal::Queued,
                None => Renewal::Lost(None),
            });
        }
        Ok(Renewed { claims, ..renewed })
    }
}

/// Closing a session withdraws the claims that the same client sent.
#[derive(Debug, Default)]
pub struct ClosesItsOwnOnly(Sent);

#[async_trait]
impl Mutant for ClosesItsOwnOnly {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.0.remember(right, &claim.key);
        right.claim(claim).await
    }

    async fn close(&self, right: &dyn Store, session: &SessionId, _live: &[Live]) -> Result<()> {
        for key in self.0.of(session, |by| by == sender(right)) {
            right.withdraw(&key, None).await?;
        }
        Ok(())
    }
}

/// Each client removes the claims that its own lists do not name for a whole ttl, even if other
/// clients list them.
#[derive(Debug)]
pub struct LeftoversOfOneList {
    clock: Clock,
    sent: Sent,
    ttls: Mutex<HashMap<SessionId, Duration>>,
    unlisted: Mutex<HashMap<(ClaimKey, Sender), Instant>>,
}

impl Default for LeftoversOfOneList {
    fn default() -> Self {
        Self {
            clock: Clock::tokio(),
            sent: Sent::default(),
            ttls: Mutex::default(),
            unlisted: Mutex::default(),
        }
    }
}

#[async_trait]
impl Mutant for LeftoversOfOneList {
    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        self.ttls.lock().unwrap().insert(id.clone(), spec.ttl);
        right.open(id, spec).await
    }

    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        self.sent.remember(right, &claim.key);
        right.claim(claim).await
    }

    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        let (now, by) = (self.clock.now(), sender(right));
        let ttl = self.ttls.lock().unwrap().get(session).copied().unwrap_or_default();
        for key in self.sent.of(session, |_| true) {
            let is_listed = live.iter().any(|live| live.key == key);
            let since = {
                let mut unlisted = self.unlisted.lock().unwrap();
                let place = (key.clone(), by);
                if is_listed {
                    unlisted.remove(&place);
                    continue;
                }
                *unlisted.entry(place).or_insert(now)
            };
            if now > since + ttl {
                right.withdraw(&key, None).await?;
            }
        }
        right.renew(session, live).await
    }
}

/// A tombstone belongs to the session of its claim, and ends with the session.
#[derive(Debug, Default)]
pub struct TombstoneOfTheSession(Mutex<HashMap<ClaimId, SessionId>>);

#[async_trait]
impl Mutant for TombstoneOfTheSession {
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let is_gone = self.0.lock().unwrap().contains_key(&claim.key.id);
        if is_gone { Ok(Verdict::Gone) } else { right.claim(claim).await }
    }

    async fn withdraw(
        &self,
        right: &dyn Store,
        key: &ClaimKey,
        tombstone: Option<Duration>,
    ) -> Result<Withdrawal> {
        if tombstone.is_some() {
            self.0.lock().unwrap().insert(key.id, key.session.clone());
        }
        right.withdraw(key, None).await
    }

    async fn close(&self, right: &dyn Store, session: &SessionId, live: &[Live]) -> Result<()> {
        self.0.lock().unwrap().retain(|_, of| of != session);
        right.close(session, live).await
    }
}
