//! The contract of a register, on real Redis servers; and the faults of a network.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::optimistic::{
    Outcome, Policy, Register, Swap, Version, Write, settle, swap, update,
};
use lockkeeper::{Effect, Keeper, RedisStore};
use lockkeeper_live::{Act, Proxy, Redis, cluster, redis};
use lockkeeper_testing::register::{ChaosRegister, RegisterHarness};
use tokio::sync::{Mutex, MutexGuard};

use crate::support::{LONG, hasty_store, keeper, name, store};

lockkeeper_testing::register_suite! {
    mod redis_register;
    harness = Standalone;
}

lockkeeper_testing::register_suite! {
    mod redis_register_through_chaos;
    harness = AtRest;
}

lockkeeper_testing::register_suite! {
    mod redis_cluster_register;
    harness = Clustered;
}

/// All cases use the same few keys, so they take turns.
struct Turn {
    url: String,
    _turn: MutexGuard<'static, ()>,
}

impl Turn {
    async fn take(turns: &'static Mutex<()>, url: String, masters: &[Redis]) -> Self {
        let _turn = turns.lock().await;
        for master in masters {
            // The keys of the last case.
            for key in master.query::<Vec<String>>(&["KEYS", "lk:r:*"]).unwrap() {
                master.run(&["DEL", &key]).unwrap();
            }
        }
        Self { url, _turn }
    }

    async fn client(&self) -> Arc<dyn Register> {
        let store =
            RedisStore::from_url(&self.url.parse().unwrap()).unwrap().connect().await.unwrap();
        Arc::new(store.register())
    }
}

struct Standalone(Turn);

impl RegisterHarness for Standalone {
    async fn start() -> Self {
        static TURNS: Mutex<()> = Mutex::const_new(());
        let server = redis().unwrap();
        Self(Turn::take(&TURNS, server.url(), std::slice::from_ref(server)).await)
    }

    async fn client(&self) -> Arc<dyn Register> {
        self.0.client().await
    }
}

/// Through a `ChaosRegister` without faults.
struct AtRest(Standalone);

impl RegisterHarness for AtRest {
    async fn start() -> Self {
        Self(Standalone::start().await)
    }

    async fn client(&self) -> Arc<dyn Register> {
        Arc::new(ChaosRegister::new(self.0.client().await))
    }
}

struct Clustered(Turn);

impl RegisterHarness for Clustered {
    async fn start() -> Self {
        static TURNS: Mutex<()> = Mutex::const_new(());
        let cluster = cluster().unwrap();
        Self(Turn::take(&TURNS, cluster.url(), &cluster.nodes()[..3]).await)
    }

    async fn client(&self) -> Arc<dyn Register> {
        self.0.client().await
    }
}

/// A write is done, and its answer is lost with the connection: the client reads it back, and it is
/// done once.
#[tokio::test]
async fn a_write_whose_answer_is_lost_on_its_way_is_done_once() {
    let (server, key) = (redis().unwrap().address(), name());
    let proxy = Proxy::resp(server).unwrap();
    let register = store(proxy.address()).await.register();
    for _ in 0..2 {
        let mut armed = true;
        proxy.on_request(move |request| {
            match request.is("EVALSHA") && std::mem::take(&mut armed) {
                true => Act::LoseReply,
                false => Act::Pass,
            }
        });
        let before = proxy.seen().connections;
        update(&register, &key, async |old| [old.unwrap_or_default(), b"x".to_vec()].concat())
            .await
            .unwrap();
        assert!(proxy.seen().connections > before, "the answer was not lost");
    }
    let now = register.load(&key).await.unwrap().unwrap();
    assert_eq!((now.value, now.version), (b"xx".to_vec(), Version::new(2)));
}

/// The server is stopped while a write is under way to it: its outcome is unknown, and is found out
/// afterwards.
#[tokio::test]
async fn a_write_that_a_stopped_server_did_not_answer_is_settled_later() {
    let mut server = Redis::start().unwrap();
    let register = hasty_store(server.address(), Duration::from_millis(1500)).await.register();
    update(&register, "n", async |_| b"1".to_vec()).await.unwrap();
    let write = Write::new(Version::new(1), "2");
    server.pause().unwrap();
    let policy = Policy::default().within(Duration::from_secs(5));
    let Ok(Outcome::Unknown(error)) = swap(&policy, &register, "n", &write).await else {
        panic!("it was answered")
    };
    assert_eq!(error.effect(), Effect::Unknown);
    server.resume().unwrap();
    let settled = settle(&Policy::default(), &register, "n", &write).await.unwrap();
    assert!(matches!(settled, Outcome::Done(version) if version == Version::new(2)), "{settled:?}");
    // The first copy, which came late, has changed nothing more.
    let again = register.compare_and_swap("n", &Write::new(Version::new(2), "3")).await.unwrap();
    assert_eq!(again, Swap::Done);
}

/// The lock of a name and the register of the same name are independent.
#[tokio::test]
async fn locks_and_registers_share_a_server() {
    let (server, name) = (redis().unwrap().address(), name());
    let store = store(server).await;
    let keeper_of_both = Keeper::builder(store.clone()).ttl(LONG).connect().await.unwrap();
    let guard = keeper_of_both.mutex(&*name).unwrap().lock().await.unwrap();
    assert_eq!(store.register().load(&name).await.unwrap(), None, "nothing is made by a look");
    update(&store.register(), &name, async |_| b"7".to_vec()).await.unwrap();
    guard.renew_once().await.unwrap();
    let other = keeper(server, LONG).await;
    assert!(other.mutex(&*name).unwrap().try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert_eq!(store.register().load(&name).await.unwrap().unwrap().value, b"7");
    let names = other.admin().unwrap().list(&name, 10).await.unwrap();
    assert!(names.is_empty(), "a register is no lock: {names:?}");
}
