//! The connection to a server is made again: the held locks are in doubt until their renewal, and
//! are renewed at once; and what came meanwhile is received.

use std::time::Duration;

use lockkeeper::{Guard, Keeper, SessionState};

use super::{keeper, lock};
use crate::locks::{LONG, TIME_LIMIT, name, patiently, within};
use crate::proxy::{Proxy, Way};
use crate::server::Server;

/// A third of this is longer than the limit of a test: an earlier renewal has another reason.
const TTL: Duration = Duration::from_secs(300);
/// The rest of a life that is old enough for a renewal to show.
const OLD: Duration = Duration::from_secs(290);
/// The rest of a life that was renewed just now, on a slow machine.
const YOUNG: Duration = Duration::from_secs(292);

/// The session goes through doubt to being valid again, long before a third of the ttl is over.
async fn is_renewed_after(keeper: &Keeper, fault: impl AsyncFnOnce()) {
    let mut session = keeper.session();
    assert_eq!(session.state(), SessionState::Valid);
    let states = async {
        match session.changed().await {
            SessionState::Jeopardy => session.changed().await,
            // The state was in doubt before, and the test did not look at that moment.
            state => state,
        }
    };
    let ((), state) = within(3 * TIME_LIMIT, async { tokio::join!(fault(), states) }).await;
    assert_eq!(state, SessionState::Valid);
}

/// How long the store keeps the lock without a renewal.
async fn left(looker: &Keeper, name: &str) -> Duration {
    let info = patiently(async || looker.inspect(name).await).await;
    info.holders[0].expires_in.expect("the store knows")
}

/// The connections of a holder are closed.
pub async fn held_locks_are_renewed_at_once_after_a_reconnection<S: Server>() {
    let (server, name) = (S::start().unwrap(), name());
    let holder = keeper(&server.url_through_proxies(), TTL).await;
    let looker = keeper(&server.url(), LONG).await;
    let guard = lock(&holder, &name).await;
    while left(&looker, &name).await >= OLD {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    is_renewed_after(&holder, async || server.cut()).await;
    let left = left(&looker, &name).await;
    assert!(left > YOUNG, "it was renewed at the server too: {left:?}");
    guard.check().unwrap();
    guard.release().await.unwrap();
}

/// A client asks for the lock of this holder.
async fn is_asked_for<S: Server>(server: &S, guard: &Guard, while_cut_off: impl AsyncFnOnce()) {
    let asker = keeper(&server.url(), TTL).await;
    let admin = asker.admin().unwrap();
    assert!(patiently(async || admin.request_release(guard.name(), "a hot fix").await).await);
    while_cut_off().await;
    let request = within(3 * TIME_LIMIT, guard.release_requested()).await;
    assert_eq!(request.reason, "a hot fix");
}

/// The request comes while the holder has no connection, and no message reports it.
pub async fn a_request_during_an_outage_is_received_after_the_reconnection<S: Server>() {
    let (server, name) = (S::start().unwrap(), name());
    let holder = keeper(&server.url_through_proxies(), TTL).await;
    let guard = lock(&holder, &name).await;
    server.disconnect();
    is_asked_for(&server, &guard, async || server.heal().unwrap()).await;
    guard.release().await.unwrap();
}

/// The network swallows the server's messages, and the client notices only when the connection
/// ends.
pub async fn a_request_that_the_network_swallows_is_received_after_the_reconnection<S: Server>() {
    let (server, name) = (S::start().unwrap(), name());
    let holder = keeper(&server.url_through_proxies(), TTL).await;
    let guard = lock(&holder, &name).await;
    server.proxies().iter().for_each(|proxy| proxy.black_hole(Way::ToClient));
    is_asked_for(&server, &guard, async || {
        server.proxies().iter().for_each(Proxy::heal);
        server.cut();
    })
    .await;
    guard.release().await.unwrap();
}
