//! Servers, clients, and the scripts of Redisson.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper::backend::redis_foreign::{ForeignRedisStore, Layout};
use lockkeeper::store::{
    Claim, ClaimId, ClaimKey, Live, LiveState, Renewal, SessionId, SessionSpec, Store, Verdict,
};
use lockkeeper_live::Redis;
pub(crate) use lockkeeper_live::locks::{LONG, TIME_LIMIT, name, within};
use redis::{Connection, PubSubCommands as _};

/// How another client of Redisson names itself.
pub(crate) const JAVA: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:42";

/// `tryLock` of an `RLock`. Answers nothing, or how long the lock is still held in ms.
const LOCK: &str = "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
    redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
    return redis.call('pttl', KEYS[1]);";
/// `unlock` of an `RLock`, without its latch.
const UNLOCK: &str = "if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end; \
    local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); \
    if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; \
    else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end;";

pub(crate) async fn keeper(server: &Redis, layout: Layout) -> Keeper {
    lockkeeper::connect(&format!("{}?layout={}", server.url(), layout.name())).await.unwrap()
}

pub(crate) async fn store(server: &Redis, layout: Layout) -> ForeignRedisStore {
    let address = server.address().to_string();
    ForeignRedisStore::standalone(address, layout).connect().await.unwrap()
}

/// Redisson takes an `RLock`. Answers how long others hold it still.
pub(crate) fn redisson_locks(server: &Redis, name: &str) -> Option<i64> {
    server.query(&["EVAL", LOCK, "1", name, "30000", JAVA]).unwrap()
}

/// Redisson releases an `RLock`. Answers nothing if it does not hold it.
pub(crate) fn redisson_unlocks(server: &Redis, name: &str) -> Option<i64> {
    let channel = format!("redisson_lock__channel:{{{name}}}");
    server.query(&["EVAL", UNLOCK, "2", name, &channel, "0", "30000", JAVA]).unwrap()
}

/// One claim, sent by hand: only the test renews it or cleans it up.
#[derive(Clone, Debug)]
pub(crate) struct Claimant {
    pub(crate) store: Arc<ForeignRedisStore>,
    pub(crate) claim: Claim,
}

impl Claimant {
    pub(crate) async fn new(store: &ForeignRedisStore, name: &str, ttl: Duration) -> Self {
        let spec = SessionSpec::new(ttl, Duration::ZERO);
        let session = SessionId::random();
        store.open(&session, &spec).await.unwrap();
        let key = ClaimKey { name: name.parse().unwrap(), session, id: ClaimId::random() };
        let claim = Claim { queue: false, ..Claim::exclusive(key, &spec) };
        Self { store: Arc::new(store.clone()), claim }
    }

    /// The same claim with this weight and capacity.
    pub(crate) fn of(mut self, weight: u32, capacity: u32) -> Self {
        (self.claim.weight, self.claim.capacity) = (weight, capacity);
        self
    }

    pub(crate) async fn send(&self) -> lockkeeper::Result<Verdict> {
        self.store.claim(&self.claim).await
    }

    pub(crate) async fn granted(&self) -> u64 {
        match self.send().await {
            Ok(Verdict::Granted { token, .. }) => token,
            other => panic!("expected a grant, not {other:?}"),
        }
    }

    pub(crate) async fn busy(&self) {
        let verdict = self.send().await;
        assert!(matches!(verdict, Ok(Verdict::Busy { .. })), "{verdict:?}");
    }

    pub(crate) async fn renewed(&self) -> Renewal {
        self.renewed_as(LiveState::Granted).await
    }

    pub(crate) async fn renewed_as(&self, state: LiveState) -> Renewal {
        let live = Live { key: self.claim.key.clone(), state };
        self.store.renew(&self.claim.key.session, &[live]).await.unwrap().claims.remove(0)
    }

    pub(crate) async fn release(&self) {
        let withdrawn = self.store.withdraw(&self.claim.key, None).await.unwrap();
        assert_eq!(withdrawn, lockkeeper::store::Withdrawal::Removed);
    }
}

/// Waits until a client of lockkeeper listens to a channel.
pub(crate) async fn until_listening(server: &Redis, channel: &str) {
    let listening = async {
        loop {
            let (_, count): (String, u64) = server.query(&["PUBSUB", "NUMSUB", channel]).unwrap();
            if count > 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    within(TIME_LIMIT, listening).await;
}

/// The first message on a channel.
pub(crate) fn first_message(connection: Connection, channel: &str) -> String {
    messages(connection, channel, 1).remove(0)
}

/// The next messages on a channel.
pub(crate) fn messages(mut connection: Connection, channel: &str, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    connection
        .subscribe(channel, |message| {
            all.push(message.get_payload().unwrap());
            match all.len() < count {
                true => redis::ControlFlow::Continue,
                false => redis::ControlFlow::Break(()),
            }
        })
        .unwrap();
    all
}

/// The channel to which the waiters of a lock listen.
pub(crate) fn channel(layout: Layout, name: &str) -> String {
    match layout {
        Layout::Plain => format!("lkf:{{{name}}}:channel"),
        Layout::RedissonRw => format!("redisson_rwlock:{{{name}}}"),
        Layout::RedissonSemaphore => format!("redisson_sc:{{{name}}}"),
        _ => format!("redisson_lock__channel:{{{name}}}"),
    }
}
