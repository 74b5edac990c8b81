//! A store that shows only the names that begin with a prefix, and shows them without the prefix.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::store::{
    Admin, Amend, Amended, Claim, ClaimKey, Evict, Evicted, Interest, Line, Live, Opened, Renewal,
    Renewed, Revision, SessionId, SessionSpec, Store, StoreId, Target, Verdict, Wake, Withdrawal,
    forward_store,
};
use crate::{Error, ErrorKind, LockName, Result, name};

/// A store around a store that puts a plain text before every name, and removes it from the names
/// that it shows.
///
/// A program that has this store can neither lock nor list nor break anything outside of the
/// prefix. So an operator can give parts of one store to different users.
///
/// # Which prefix to use
/// Behind both prefixes a name is shown as it is typed. The difference is the sequencer. With
/// [`KeeperBuilder::prefix`](crate::KeeperBuilder::prefix) a sequencer carries the *full* name, so
/// a resource distinguishes `blue/stock` from `green/stock`. This layer is a boundary: a keeper
/// inside does not know the prefix, and its sequencers do not carry it. Use one resource, and one
/// [`FenceGate`](crate::fence::FenceGate), for each prefix. If both prefixes are set, the prefix of
/// the layer comes first.
///
/// ```
/// use lockkeeper::layer::Prefix;
/// use lockkeeper::{Keeper, MemoryStore};
///
/// # async fn f() -> lockkeeper::Result<()> {
/// let store = MemoryStore::new();
/// let blue = Keeper::builder(Prefix::new(store.clone(), "blue/")?).connect().await?;
/// let guard = blue.mutex("stock")?.lock().await?;
/// assert_eq!(guard.name().as_str(), "stock");
///
/// let all = Keeper::builder(store).connect().await?;
/// assert!(all.inspect("blue/stock").await?.is_held());
/// # guard.release().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Prefix<S> {
    inner: S,
    prefix: String,
}

impl<S: Store> Prefix<S> {
    /// Restricts `inner` to the names that begin with `prefix`. Name and prefix have at most 255
    /// bytes together: a longer name is refused as [`Invalid`](crate::ErrorKind::Invalid).
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a prefix of more than 254 bytes, or with a
    /// control character.
    pub fn new(inner: S, prefix: impl Into<String>) -> Result<Self> {
        let prefix = prefix.into();
        name::check_prefix(&prefix)?;
        Ok(Self { inner, prefix })
    }

    fn full(&self, name: &LockName) -> Result<LockName> {
        name.under(&self.prefix)
    }

    fn key(&self, key: &ClaimKey) -> Result<ClaimKey> {
        Ok(ClaimKey { name: self.full(&key.name)?, ..key.clone() })
    }

    /// The answer of the store below, without the prefix.
    fn shown<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| error.within(&self.prefix))
    }

    fn shown_renewal(&self, renewal: Renewal) -> Renewal {
        match renewal {
            Renewal::Failed(error) => Renewal::Failed(error.within(&self.prefix)),
            renewal => renewal,
        }
    }

    /// The claims whose names fit: no other claim can have reached the store.
    fn live(&self, live: &[Live]) -> Vec<Live> {
        let fits = live
            .iter()
            .filter_map(|live| Some(Live { key: self.key(&live.key).ok()?, state: live.state }));
        fits.collect()
    }

    fn admin_below(&self) -> Result<&dyn Admin> {
        // The caller has got this store from `admin()`, so the store below has its operations.
        self.inner.admin().ok_or_else(|| {
            Error::new(ErrorKind::Internal, "the store no longer has its administrator operations")
        })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Prefix<S> {
    forward_store! { self => self.inner; capabilities on_loss }

    fn admin(&self) -> Option<&dyn Admin> {
        self.inner.admin().map(|_| self as &dyn Admin)
    }

    async fn open(&self, id: &SessionId, spec: &SessionSpec) -> Result<Opened> {
        self.shown(self.inner.open(id, spec).await)
    }

    /// Renews the claims whose names fit. A claim whose name does not fit must not prevent the
    /// renewal of the others.
    async fn renew(&self, session: &SessionId, live: &[Live]) -> Result<Renewed> {
        let below = self.live(live);
        let mut renewed = self.shown(self.inner.renew(session, &below).await)?;
        renewed.claims =
            renewed.claims.into_iter().map(|renewal| self.shown_renewal(renewal)).collect();
        if below.len() == live.len() {
            return Ok(renewed);
        }
        // If the store answers for fewer claims than the request named, it has not answered for the
        // others.
        let mut answers = renewed.claims.into_iter().chain(std::iter::repeat(Renewal::Unknown));
        let answer = |live: &Live| match self.full(&live.key.name) {
            Ok(_) => answers.next().unwrap_or(Renewal::Unknown),
            Err(_) => Renewal::Lost(None),
        };
        Ok(Renewed { claims: live.iter().map(answer).collect(), ..renewed })
    }

    async fn close(&self, session: &SessionId, live: &[Live]) -> Result<()> {
        self.shown(self.inner.close(session, &self.live(live)).await)
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        let claim = Claim { key: self.key(&claim.key)?, ..claim.clone() };
        self.shown(self.inner.claim(&claim).await)
    }

    async fn amend(&self, key: &ClaimKey, number: u64, change: &Amend) -> Result<Amended> {
        let Ok(key) = self.key(key) else { return Ok(Amended::NotLive) };
        self.shown(self.inner.amend(&key, number, change).await)
    }

    /// Withdraws a claim. A claim with a name that does not fit is not in the store.
    async fn withdraw(&self, key: &ClaimKey, tombstone: Option<Duration>) -> Result<Withdrawal> {
        let Ok(key) = self.key(key) else { return Ok(Withdrawal::Absent) };
        self.shown(self.inner.withdraw(&key, tombstone).await)
    }

    async fn wait(&self, interest: Interest<'_>, seen: Revision, within: Duration) -> Result<Wake> {
        self.shown(match interest {
            Interest::Claim(key) => {
                self.inner.wait(Interest::Claim(&self.key(key)?), seen, within).await
            }
            Interest::Name(name) => {
                self.inner.wait(Interest::Name(&self.full(name)?), seen, within).await
            }
        })
    }

    async fn line(&self, name: &LockName) -> Result<Line> {
        self.shown(self.inner.line(&self.full(name)?).await)
    }

    /// The id of another store, since the same names mean other locks. Without a prefix it is the
    /// id of the store below.
    async fn id(&self) -> Result<StoreId> {
        let id = self.inner.id().await?;
        Ok(if self.prefix.is_empty() { id } else { id.of_part(&self.prefix) })
    }

    fn fence_key(&self, key: &ClaimKey) -> Option<Arc<[u8]>> {
        self.inner.fence_key(&self.key(key).ok()?)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Admin for Prefix<S> {
    async fn lines(
        &self,
        prefix: &str,
        after: Option<&LockName>,
        limit: usize,
    ) -> Result<Vec<(LockName, Result<Line>)>> {
        // The store below may have a lock whose name is the prefix itself. Without the prefix this
        // lock would have no name. It would be the first in the list.
        let is_first = prefix.is_empty() && after.is_none() && limit > 0;
        let room = if is_first { limit.saturating_add(1) } else { limit };
        let after = after.map(|after| self.full(after)).transpose()?;
        let full = format!("{}{prefix}", self.prefix);
        let lines = self.shown(self.admin_below()?.lines(&full, after.as_ref(), room).await)?;
        let own = lines
            .into_iter()
            .filter_map(|(name, line)| Some((name.within(&self.prefix)?, self.shown(line))));
        Ok(own.take(limit).collect())
    }

    async fn evict(
        &self,
        name: &LockName,
        target: &Target,
        how: Evict,
        by: &str,
        reason: &str,
    ) -> Result<Evicted> {
        self.shown(self.admin_below()?.evict(&self.full(name)?, target, how, by, reason).await)
    }

    async fn request_release(&self, name: &LockName, by: &str, reason: &str) -> Result<bool> {
        self.shown(self.admin_below()?.request_release(&self.full(name)?, by, reason).await)
    }
}

/// The address of the store below, as operators know it.
impl<S: Store> fmt::Display for Prefix<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{ClaimId, LiveState};
    use crate::{Keeper, MemoryStore};

    async fn below(prefix: &str) -> (MemoryStore, Prefix<MemoryStore>, SessionId) {
        let store = MemoryStore::new();
        let inside = Prefix::new(store.clone(), prefix).unwrap();
        let spec = SessionSpec::new(Duration::from_secs(30), Duration::ZERO);
        let session = SessionId::random();
        inside.open(&session, &spec).await.unwrap();
        (store, inside, session)
    }

    fn claim(session: &SessionId, name: &str) -> Claim {
        let key = ClaimKey {
            name: name.parse().unwrap(),
            session: session.clone(),
            id: ClaimId::random(),
        };
        let spec = SessionSpec::new(Duration::from_secs(30), Duration::ZERO);
        Claim { queue: false, ..Claim::exclusive(key, &spec) }
    }

    #[test]
    fn a_prefix_that_leaves_no_room_for_a_name_is_refused() {
        for bad in ["x".repeat(255), "a\nb".to_owned()] {
            let error = Prefix::new(MemoryStore::new(), bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
        Prefix::new(MemoryStore::new(), "x".repeat(254)).unwrap();
    }

    #[tokio::test]
    async fn a_name_that_does_not_fit_is_refused_and_says_why() {
        let inside = Prefix::new(MemoryStore::new(), "p".repeat(100)).unwrap();
        let keeper = Keeper::builder(inside).connect().await.unwrap();
        let name = "n".repeat(156);
        let error = keeper.mutex(&name).unwrap().lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.contains("256 bytes") && text.contains("Try: "), "{text}");
        keeper.mutex(&name[1..]).unwrap().lock().await.unwrap().release().await.unwrap();
    }

    #[tokio::test]
    async fn a_name_that_does_not_fit_keeps_no_other_from_being_renewed() {
        let (_, inside, session) = below(&"p".repeat(100)).await;
        let (good, bad) = (claim(&session, "n"), claim(&session, &"n".repeat(200)));
        let Verdict::Granted { token, .. } = inside.claim(&good).await.unwrap() else {
            panic!("it is free")
        };
        inside.claim(&bad).await.unwrap_err();
        let live =
            [&bad, &good, &bad].map(|c| Live { key: c.key.clone(), state: LiveState::Granted });
        let answers = inside.renew(&session, &live).await.unwrap().claims;
        let held = Renewal::Held { token, ttl: good.ttl };
        assert_eq!(answers, [Renewal::Lost(None), held, Renewal::Lost(None)]);
        assert_eq!(inside.withdraw(&bad.key, None).await.unwrap(), Withdrawal::Absent);
        inside.close(&session, &live).await.unwrap();
        assert!(inside.line(&good.key.name).await.unwrap().entries.is_empty());
    }

    #[tokio::test]
    async fn who_is_inside_sees_and_reaches_nothing_outside() {
        let (store, inside, session) = below("blue/").await;
        for outside in ["green/a", "blue/", "blue", "a"] {
            store.claim(&claim(&session, outside)).await.unwrap();
        }
        for name in ["a", "b"] {
            inside.claim(&claim(&session, name)).await.unwrap();
        }
        let admin = inside.admin().unwrap();
        let list = async |prefix, limit| {
            admin.lines(prefix, None, limit).await.unwrap().into_iter().map(|(n, _)| n.to_string())
        };
        assert!(list("", 10).await.eq(["a", "b"]));
        assert!(
            list("", 1).await.eq(["a"]),
            "the lock that is named as the prefix takes nobody's place"
        );
        assert!(list("", 0).await.eq([""; 0]));
        assert!(list("b", 10).await.eq(["b"]));
        assert!(list("green", 10).await.eq([""; 0]));
        let a = "a".parse().unwrap();
        let after = admin
            .lines("", Some(&a), 10)
            .await
            .unwrap()
            .into_iter()
            .map(|(name, _)| name.to_string());
        assert!(after.eq(["b"]));
        let held = store.line(&"a".parse().unwrap()).await.unwrap().entries[0].id;
        let gone = admin
            .evict(&"a".parse().unwrap(), &Target::Id(held), Evict::Now, "me", "test")
            .await
            .unwrap();
        assert_eq!(gone, Evicted::Absent, "the lock outside has the same name");
    }
}
