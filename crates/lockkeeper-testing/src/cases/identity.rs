//! The identity of a store.

use crate::{Case, Ttls};

/// All clients see the same id, even if they ask at the same time. The id stays while locks come
/// and go.
pub async fn all_clients_see_one_id(case: &Case) {
    let (a, b, c) =
        (case.writer("lock").await, case.writer("lock").await, case.client(Ttls::long()).await);
    let ids = tokio::join!(a.client.identity(), b.client.identity(), c.identity());
    assert_eq!((ids.0, ids.0), (ids.1, ids.2));
    a.granted().await;
    a.release().await;
    assert_eq!(b.client.identity().await, ids.0);
    assert_eq!(case.client(Ttls::long()).await.identity().await, ids.0, "a client that came later");
}
