//! One Sentinel does not know of the new master, and answers before the others do.

use std::future::IntoFuture;
use std::time::Duration;

use lockkeeper::{Error, ErrorKind, Keeper};
use lockkeeper_live::{Proxy, Redis, Way};

use super::keeper;
use crate::support::{LONG, TIME_LIMIT, within};

const NAME: &str = "a-lock";

/// A Sentinel for which this is the master, by the switch of this number.
fn sentinel(master: &Redis, epoch: u8) -> Redis {
    let say =
        |sentinel: lockkeeper_live::RedisBuilder, line: String| sentinel.config("sentinel", &line);
    let sentinel =
        say(Redis::builder().sentinel(), format!("monitor lk 127.0.0.1 {} 2", master.port()));
    let sentinel = say(sentinel, "down-after-milliseconds lk 60000".to_owned());
    say(sentinel, format!("config-epoch lk {epoch}")).start().unwrap()
}

/// The state after a partition.
struct Parted {
    /// Only the first Sentinel still takes this server for the master.
    deposed: Redis,
    master: Redis,
    sentinels: [Redis; 3],
    /// Before the second and the third Sentinel.
    proxies: [Proxy; 2],
}

impl Parted {
    fn start() -> Self {
        let (deposed, master) = (Redis::start().unwrap(), Redis::start().unwrap());
        let sentinels = [sentinel(&deposed, 1), sentinel(&master, 2), sentinel(&master, 2)];
        let proxies = [1, 2].map(|at: usize| Proxy::resp(sentinels[at].address()).unwrap());
        Self { deposed, master, sentinels, proxies }
    }

    fn url(&self) -> String {
        let [near, second, third] =
            [self.sentinels[0].port(), self.proxies[0].port(), self.proxies[1].port()];
        format!("redis+sentinel://127.0.0.1:{near},127.0.0.1:{second},127.0.0.1:{third}/lk")
    }

    /// The URL with the Sentinels that know the master.
    fn well_informed(&self) -> String {
        let [_, second, third] = self.sentinels.each_ref().map(Redis::port);
        format!("redis+sentinel://127.0.0.1:{second},127.0.0.1:{third}/lk")
    }

    fn delay(&self, delay: Duration) {
        self.proxies.iter().for_each(|proxy| proxy.delay(Way::Both, delay));
    }
}

async fn refused(url: &str) -> Error {
    within(TIME_LIMIT, Keeper::from_url(url).unwrap().connect().into_future())
        .await
        .expect_err("too few know a master")
}

/// The other Sentinels are slow. A lock is held at the master that they name: a client that opens a
/// store gets that lock nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn opening_a_store_does_not_trust_the_first_sentinel_alone() {
    let parted = Parted::start();
    let held =
        keeper(&parted.well_informed(), LONG).await.mutex(NAME).unwrap().lock().await.unwrap();
    parted.delay(Duration::from_millis(150));
    let late = within(TIME_LIMIT, keeper(&parted.url(), LONG)).await;
    assert!(late.mutex(NAME).unwrap().try_lock().await.unwrap().is_none(), "there are two holders");
    held.release().await.unwrap();
}

/// A client has the deposed master from before the switch; the Sentinels that report the switch are
/// slow. The client changes to the new master all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_learns_of_a_switch_from_later_sentinels() {
    let parted = Parted::start();
    let held =
        keeper(&parted.well_informed(), LONG).await.mutex(NAME).unwrap().lock().await.unwrap();
    // Before the switch all name the same one.
    parted.proxies.iter().for_each(|proxy| proxy.set_target(parted.sentinels[0].address()));
    let client = keeper(&parted.url(), LONG).await;
    client.mutex(NAME).unwrap().lock().await.unwrap().release().await.unwrap();
    parted.delay(Duration::from_millis(150));
    for (proxy, sentinel) in parted.proxies.iter().zip(&parted.sentinels[1..]) {
        proxy.set_target(sentinel.address());
        proxy.cut();
    }
    let goes_over =
        async { while !matches!(client.mutex(NAME).unwrap().try_lock().await, Ok(None)) {} };
    within(TIME_LIMIT, goes_over).await;
    held.release().await.unwrap();
}

/// Of three Sentinels one is left, perhaps the one that was cut off: its word does not open a
/// store, and the error names the silent Sentinels. Two are enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_minority_of_the_sentinels_does_not_open_a_store() {
    let parted = Parted::start();
    parted.proxies.iter().for_each(Proxy::refuse);
    let error = refused(&parted.url()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains("1 of 3 Sentinels") && error.remedy().is_some(), "{text}");
    for proxy in &parted.proxies {
        assert!(text.contains(&proxy.address().to_string()), "{text}");
    }
    parted.proxies[0].accept().unwrap();
    let keeper = keeper(&parted.url(), LONG).await;
    keeper.mutex(NAME).unwrap().lock().await.unwrap().release().await.unwrap();
    let there =
        |server: &Redis| server.query::<u32>(&["EXISTS", &format!("lk:{{{NAME}}}")]).unwrap();
    assert_eq!((there(&parted.deposed), there(&parted.master)), (0, 1));
}
