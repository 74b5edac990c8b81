//! The contract of a register, on real Redis servers; and the faults of a network.

use std::sync::Arc;

use lockkeeper::RedisStore;
use lockkeeper::optimistic::{Register, Version, update};
use lockkeeper_live::{Act, Proxy, Redis, cluster, redis};
use lockkeeper_testing::register::{ChaosRegister, RegisterHarness};
use tokio::sync::{Mutex, MutexGuard};

use crate::support::{name, store};

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
