//! The id of a store.

use crate::locks::{asked_together, connected};
use crate::server::Server;

/// As many clients ask at the same time.
const CLIENTS: usize = 8;

/// Clients that ask together get one id, and another one when the data was wiped. A restart keeps
/// the id.
pub async fn clients_that_ask_first_get_one_id_and_another_id_after_a_wipe<S: Server>() {
    let mut server = S::start_lasting().unwrap();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connected(&server.url()).await);
    }
    let id = asked_together(clients.clone()).await;
    assert_eq!(asked_together(vec![connected(&server.url()).await]).await, id);
    server.wipe().unwrap();
    let second = asked_together(clients).await;
    assert_ne!(second, id, "the data was wiped");
    server.restart().unwrap();
    let kept = connected(&server.url()).await;
    assert_eq!(asked_together(vec![kept]).await, second, "a restart keeps the data");
}
