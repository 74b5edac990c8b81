//! Stores under several paths of one etcd, and in its two layouts, have nothing in common.

use std::time::Duration;

use lockkeeper::store::{LiveState, Renewal, SessionId, Store as _};
use lockkeeper_live::Etcd;

use crate::shared::spec;
use crate::support::{Bare, name, store};

const TTL: Duration = Duration::from_secs(30);

/// The caller chooses the id of a session, such as a name of its own.
#[tokio::test(flavor = "multi_thread")]
async fn one_session_id_under_several_paths_is_several_sessions() {
    let (etcd, name, session) = (Etcd::start().unwrap(), name(), SessionId::random());
    let first = Bare::new(&etcd.url(), &name, TTL).await;
    let paths = ["", "/shop", "/shop/eu", "?layout=concurrency", "/shop?layout=concurrency"];
    let mut holders = Vec::new();
    for path in paths {
        let store = store(&format!("{}{path}", etcd.url())).await;
        let mut holder = Bare { store, claim: first.another().claim };
        holder.claim.key.session = session.clone();
        holder.store.open(&session, &spec(&holder)).await.unwrap();
        holder.granted().await;
        holders.push(holder);
    }
    for (holder, path) in holders.iter().zip(paths) {
        let renewal = holder.renew(LiveState::Granted).await.unwrap();
        assert!(matches!(renewal, Renewal::Held { .. }), "{path:?}: {renewal:?}");
        holder.store.close(&session, &[]).await.unwrap();
    }
}
