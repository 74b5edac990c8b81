//! The user of the client: whether it has all rights that locks need, and which rights these are.

use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use lockkeeper_core::kit::{fail, named, ok, warn, warn_if};

use crate::builder::folder;
use crate::layout::Lines;
use crate::layout::transaction::{delete, get, put, transaction};
use crate::store::{ClaimId, ClaimKey, Finding, SessionId, Store, median};
use crate::time::Clock;
use crate::wire::WireError;
use crate::wire::messages::{
    AuthenticateRequest, AuthenticateResponse, RangeRequest, RequestOp, TxnResponse,
};
use crate::{ErrorKind, EtcdStore, EtcdStoreBuilder, LockName, Result, fault, sessions};

/// The name of a lock that no client uses; the doctor acquires another lock for the round trip.
const NAME: &str = "lockkeeper-doctor-rights";
/// Often enough for a median, and soon over on a slow store.
const ROUNDS: usize = 10;
/// Users notice round trips that take longer.
const SLOW: Duration = Duration::from_millis(100);

/// Whether etcd asks clients to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Auth {
    Off,
    On,
    /// No member has answered.
    Unknown,
}

/// Logs in, or looks whether that would be needed.
pub(super) async fn log_in(
    store: &EtcdStore,
    builder: &EtcdStoreBuilder,
) -> (Auth, Option<Finding>) {
    for _ in store.0.calls.addresses() {
        let asked = match &builder.hosts.user {
            Some(_) => store.0.calls.log_in().await,
            // The answer to a login without a name shows whether etcd asks for logins.
            None => store.ask_for_nobody().await,
        };
        match asked {
            Ok(()) => return (Auth::On, None),
            Err(WireError::Refused { message, .. }) if builder.hosts.user.is_none() => {
                return without_a_user(&message, builder);
            }
            Err(error) => match fault::of(error) {
                error if error.kind() == ErrorKind::Unavailable => {}
                error => return (Auth::Unknown, Some(Finding::failed("auth", &error))),
            },
        }
    }
    (Auth::Unknown, None)
}

fn without_a_user(message: &str, builder: &EtcdStoreBuilder) -> (Auth, Option<Finding>) {
    if message.contains("authentication is not enabled") {
        return (Auth::Off, None);
    }
    if !["authentication failed", "user name is empty"].iter().any(|words| message.contains(words))
    {
        return (Auth::Unknown, None);
    }
    let has_certificate = builder.hosts.tls.as_ref().is_some_and(|tls| tls.certificate.is_some());
    let (finding, remedy) = (
        "authentication is on, and the URL names no user",
        "a user in the URL, and LOCKKEEPER_PASSWORD",
    );
    (Auth::On, (!has_certificate).then(|| Finding::fail("auth", finding, remedy)))
}

/// The finding about logins, unless it is a failure.
pub(super) fn who(auth: Auth, builder: &EtcdStoreBuilder) -> Option<Finding> {
    Some(match (auth, &builder.hosts.user) {
        (Auth::Off, _) => ok("off: every client that reaches etcd may break every lock"),
        (Auth::On, Some(user)) => ok(format!("on; this is user {user:?}")),
        (Auth::On, None) => ok("on; the certificate names the user"),
        (Auth::Unknown, _) => return None,
    })
}

/// What a role has to be given, and nothing else.
pub(super) fn role(lines: &Lines, prefix: &str) -> String {
    let grant = |beginning: String| {
        format!("etcdctl role grant-permission ROLE --prefix readwrite {}", quoted(&beginning))
    };
    lines.beginnings(prefix).into_iter().map(grant).collect::<Vec<_>>().join(" && ")
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-%:".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Tries each kind of request on keys that no client uses, and measures the time.
pub(super) async fn examine(
    store: &EtcdStore,
    prefix: &str,
    within: Duration,
) -> Result<Vec<Finding>> {
    let role = role(&store.0.lines, prefix);
    // The lease ends by itself if the examination ends before the revocation.
    let (lease, refused) = match store.grant(sessions::seconds(within * 2)).await {
        Ok(granted) => (granted.id, refused(store, prefix, granted.id).await?),
        Err(error) => (0, denied("lease", Err::<(), _>(error))?),
    };
    if let Some(refused) = refused {
        drop(store.revoke(lease).await);
        return Ok(vec![fail(refused, role)]);
    }
    let latency =
        speed(store, lease).await.unwrap_or_else(|error| Finding::failed("latency", &error));
    // The keys that are left end with the lease.
    drop(store.revoke(lease).await);
    // Behind the rest of the line, as in a failure: it is long.
    let fine = ok("this user may do all that locks need; a role with these rights is enough")
        .with_remedy(role);
    Ok([vec![fine], named("latency", [latency])].concat())
}

/// What this user may not do, if there is anything.
async fn refused(store: &EtcdStore, prefix: &str, lease: i64) -> Result<Option<String>> {
    let lines = &store.0.lines;
    let span = lines.beginning_with(prefix);
    let all = RangeRequest {
        key: span.from,
        range_end: span.to,
        limit: 1,
        keys_only: true,
        ..RangeRequest::default()
    };
    let listed = store.range(all).await;
    for key in keys(lines, prefix)? {
        for (what, op) in [
            ("write", put(&key, Bytes::new(), lease)),
            ("read", get(&key)),
            ("delete", delete(&key)),
        ] {
            let refused = denied(&format!("{what} {}…", folder(&key)), store.tried(op).await)?;
            if refused.is_some() {
                return Ok(refused);
            }
        }
    }
    denied("list locks", listed)
}

/// What this user may not do, if `tried` says so.
fn denied<T>(what: &str, tried: Result<T>) -> Result<Option<String>> {
    match tried {
        Err(error) if error.kind() == ErrorKind::Denied => {
            Ok(Some(format!("this user may not {what}: {}", error.message())))
        }
        tried => tried.map(|_| None),
    }
}

/// One key of each kind that the store writes.
fn keys(lines: &Lines, prefix: &str) -> Result<Vec<Bytes>> {
    let (id, name) = (ClaimId::random(), LockName::new(&format!("{prefix}{NAME}"))?);
    let own = HEXLOWER.encode(id.as_bytes());
    let session = SessionId::random();
    let beside =
        [lines.session(&session), lines.ended(&session), lines.gone(id), lines.notice(&own)];
    let claim = ClaimKey { name, session, id };
    Ok([lines.claim(&claim), lines.register(&own)].into_iter().chain(beside).collect())
}

async fn speed(store: &EtcdStore, lease: i64) -> Result<Finding> {
    let (clock, key) =
        (Clock::boot(), store.0.lines.notice(&HEXLOWER.encode(&crate::random::bits128())));
    let (mut reads, mut writes) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        for (op, times) in [(get(&key), &mut reads), (put(&key, Bytes::new(), lease), &mut writes)]
        {
            let start = clock.now();
            store.tried(op).await?;
            times.push(clock.now().saturating_since(start));
        }
    }
    let (read, write) = (median(reads), median(writes));
    let finding = format!("a read takes {read:.1?}, a write {write:.1?} (medians of {ROUNDS})");
    Ok(warn_if(write > SLOW, finding, "a faster disk for each member, or nearer members"))
}

/// What the shortest lease of so many seconds costs, where `capable` of a lease of so many.
pub(super) fn lease((seconds, capable): (i64, i64)) -> Finding {
    let finding = format!("the shortest lease lasts {seconds} s");
    if seconds <= capable {
        return ok(finding);
    }
    let finding = format!(
        "{finding}: a lock of a shorter ttl is free only {seconds} s after its holder was killed"
    );
    warn(
        finding,
        "--election-timeout=1000 for etcd: the shortest lease is one and a half times that",
    )
}

impl EtcdStore {
    /// How many seconds the shortest lease has, for which a dead client keeps a lock, and how many
    /// seconds it has usually.
    pub(super) async fn shortest_lease(&self) -> Result<(i64, i64)> {
        let granted = self.grant(1).await?;
        drop(self.revoke(granted.id).await);
        Ok((granted.ttl, sessions::seconds(Store::capabilities(self).ttl_min)))
    }

    async fn ask_for_nobody(&self) -> Result<(), WireError> {
        let nobody = AuthenticateRequest::default();
        let asked = self.0.calls.ask("/etcdserverpb.Auth/Authenticate", nobody).await;
        asked.map(|_: AuthenticateResponse| ())
    }

    async fn tried(&self, op: RequestOp) -> Result<()> {
        let request = transaction(Vec::new(), vec![op], Vec::new());
        let asked = self.txn(request).await;
        asked.map(|_: TxnResponse| ()).map_err(fault::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    #[test]
    fn the_role_has_the_keys_of_the_layout_and_nothing_else() {
        let grant = "etcdctl role grant-permission ROLE --prefix readwrite";
        for (layout, path, prefix, role_of) in [
            (Layout::Native, None, "", format!("{grant} /lockkeeper/")),
            (Layout::Native, Some("/my shop"), "a/", format!("{grant} '/my shop/'")),
            (Layout::Concurrency, None, "", format!("{grant} ''")),
            (Layout::Concurrency, None, "a/", format!("{grant} a/ && {grant} /lockkeeper/.")),
            (Layout::Concurrency, Some("/l"), "", format!("{grant} /l/ && {grant} /lockkeeper/.")),
        ] {
            let lines = Lines::new(layout, path);
            assert_eq!(role(&lines, prefix), role_of);
            let beginnings = lines.beginnings(prefix);
            for key in keys(&lines, prefix).unwrap() {
                let is_covered =
                    beginnings.iter().any(|beginning| key.starts_with(beginning.as_bytes()));
                assert!(is_covered, "{key:?} {beginnings:?}");
            }
        }
    }

    #[test]
    fn no_lease_is_reported() {
        let lines = Lines::new(Layout::Concurrency, None);
        let keys = keys(&lines, "").unwrap();
        let text = keys.iter().map(folder).collect::<String>();
        let claim = std::str::from_utf8(&keys[0]).unwrap();
        let lease = claim.rsplit('/').next().and_then(|slot| slot.split('-').next()).unwrap();
        assert!(
            claim.contains(lease) && !text.contains(lease) && text.contains(NAME),
            "{lease}: {text}"
        );
    }

    #[test]
    fn a_word_for_a_shell_stays_one() {
        assert_eq!(quoted("/a%2F.b-c_d:e"), "/a%2F.b-c_d:e");
        assert_eq!(quoted("it's $x"), r"'it'\''s $x'");
        assert_eq!(quoted(""), "''");
    }
}
