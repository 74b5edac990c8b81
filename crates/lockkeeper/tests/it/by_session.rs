//! A store whose claims live as long as their session, made of the memory store. So the cases for
//! such stores run on virtual time too.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::store::{
    Capabilities, Claim, ClaimKey, Expiry, Live, LiveState, Opened, Renewed, SessionId,
    SessionSpec, Store, Verdict, refusal,
};
use lockkeeper::time::{Clock, Instant};
use lockkeeper::{Error, ErrorKind, Result};
use lockkeeper_testing::wrong::Mutant;

/// This mutant is no defect: it gives the memory store another kind of lifetime.
#[derive(Debug)]
pub(crate) struct BySession {
    clock: Clock,
    sessions: Mutex<HashMap<SessionId, Session>>,
}

#[derive(Debug)]
struct Session {
    spec: SessionSpec,
    expires: Instant,
    /// The claims, each with the time since which no renewal has listed it.
    claims: HashMap<ClaimKey, Option<Instant>>,
}

impl Default for BySession {
    fn default() -> Self {
        Self { clock: Clock::tokio(), sessions: Mutex::default() }
    }
}

impl BySession {
    fn with<T>(&self, session: &SessionId, f: impl FnOnce(&mut Session) -> T) -> Result<T> {
        let mut sessions = self.sessions.lock().unwrap();
        match sessions.get_mut(session).filter(|session| session.expires > self.clock.now()) {
            Some(session) => Ok(f(session)),
            None => Err(Error::new(ErrorKind::SessionLost, "the session has ended")),
        }
    }
}

#[async_trait]
impl Mutant for BySession {
    fn capabilities(&self, right: &dyn Store) -> Capabilities {
        let mut can = right.capabilities();
        can.expiry = Expiry::Session { proof_lag: 0 };
        can
    }

    async fn open(&self, right: &dyn Store, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        let (opened, now) = (right.open(id, spec).await?, self.clock.now());
        let live = {
            let mut sessions = self.sessions.lock().unwrap();
            let new =
                || Session { spec: spec.clone(), expires: now + spec.ttl, claims: HashMap::new() };
            let session = sessions.entry(id.clone()).or_insert_with(new);
            if session.expires <= now {
                return Err(refusal::session_ended());
            }
            if session.spec != *spec {
                return Err(refusal::other_durations());
            }
            session.expires = now + spec.ttl;
            let keys = session.claims.keys().cloned();
            keys.map(|key| Live { key, state: LiveState::InFlight }).collect::<Vec<_>>()
        };
        // The claims live as long as the session.
        right.renew(id, &live).await?;
        Ok(opened)
    }

    async fn renew(
        &self,
        right: &dyn Store,
        session: &SessionId,
        live: &[Live],
    ) -> Result<Renewed> {
        let now = self.clock.now();
        let leftovers = self.with(session, |session| {
            session.expires = now + session.spec.ttl;
            // A late copy of a renewal lists fewer claims than the session has. No guard reports a
            // claim as held that was missing for a ttl.
            let mut leftovers = Vec::new();
            session.claims.retain(|key, missing| {
                let listed = live.iter().any(|live| live.key == *key);
                *missing = if listed { None } else { Some(missing.unwrap_or(now)) };
                let over = missing.is_some_and(|since| now > since + session.spec.ttl);
                leftovers.extend(over.then(|| key.clone()));
                !over
            });
            leftovers
        })?;
        for key in leftovers {
            right.withdraw(&key, None).await?;
        }
        right.renew(session, live).await
    }

    async fn close(&self, right: &dyn Store, session: &SessionId, live: &[Live]) -> Result<()> {
        self.sessions.lock().unwrap().remove(session);
        right.close(session, live).await
    }

    /// The answer to a claim that exists starts no new lease.
    async fn claim(&self, right: &dyn Store, claim: &Claim) -> Result<Verdict> {
        let ttl = self.with(&claim.key.session, |session| {
            session.claims.insert(claim.key.clone(), None);
            session.spec.ttl
        })?;
        let line = right.line(&claim.key.name).await?;
        let Some(ahead) =
            line.entries.iter().position(|entry| entry.id == claim.key.id.hash() && !entry.kept)
        else {
            return right.claim(claim).await;
        };
        let entry = &line.entries[ahead];
        Ok(match entry.token {
            _ if entry.broken.is_some() => Verdict::Gone,
            Some(token) if entry.granted => Verdict::Granted { token, ttl },
            _ => Verdict::Queued {
                ahead: u32::try_from(ahead).unwrap(),
                seen: line.revision,
                look_again: Duration::from_millis(200),
            },
        })
    }
}
