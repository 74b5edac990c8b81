//! The ways to a Redlock.

use std::time::Duration;

use lockkeeper::LockName;
use lockkeeper_testing::Ttls;

use super::servers;
use crate::shared::{redlock, redlock_of_five, redlock_of_valkeys};

/// On real servers beside a busy machine, a stall of a second is no loss.
const SHORT: Ttls = Ttls {
    ttl: Duration::from_secs(3),
    wait_ttl: Duration::from_millis(1500),
    lock_delay: Duration::from_secs(1),
};

/// Some cases hold locks for minutes. A busy machine takes longer than 50 ms to answer.
const QUERY: &str = "?max-keep=20m&node-timeout=700ms";

servers! {
    SHORT, put_foreign_data;
    /// Three independent servers.
    ThreeNodes = redlock().unwrap().url() + QUERY;
    /// Five independent servers.
    FiveNodes = redlock_of_five().unwrap().url() + QUERY;
    /// Three independent servers of Valkey.
    ThreeValkeys = redlock_of_valkeys().unwrap().url() + QUERY;
}

fn put_foreign_data(url: &str, name: &LockName, round: usize) {
    // Nothing but the URL says which servers are meant. Valkey comes last: it may be missing.
    let servers = [redlock, redlock_of_five, redlock_of_valkeys];
    let of_url = servers.iter().filter_map(|servers| servers().ok());
    let mut of_url = of_url.filter(|servers| url.starts_with(&(servers.url() + "?")));
    of_url.next().unwrap().put_foreign_data(name, round).unwrap();
}
