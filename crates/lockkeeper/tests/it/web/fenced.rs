//! A service that refuses clients which no longer hold the lock.

use lockkeeper::Sequencer;
use tokio::io::AsyncWriteExt;

use super::handlers::{Shop, fenced};
use super::{answer, send, serve};

/// The sequencers of two holders, one after the other.
async fn holders(shop: &Shop) -> (Sequencer, Sequencer) {
    let mut sequencers = Vec::new();
    for _ in 0..2 {
        let guard = shop.keeper.mutex("stock").unwrap().lock().await.unwrap();
        sequencers.push(guard.sequencer());
        guard.release().await.unwrap();
    }
    let newer = sequencers.pop().unwrap();
    (sequencers.pop().unwrap(), newer)
}

fn read(sequencer: &Sequencer) -> String {
    format!("GET /stock HTTP/1.1^Host: shop^Connection: close^Lock-Sequencer: {sequencer}^^")
}

/// The request without its body, which has two bytes.
fn write(sequencer: &Sequencer) -> String {
    format!(
        "PUT /stock HTTP/1.1^Host: shop^Connection: close^Lock-Sequencer: {sequencer}^Content-Length: 2^^"
    )
}

#[tokio::test]
async fn without_a_sequencer_nothing_is_answered_not_even_a_read() {
    let (shop, _) = Shop::new();
    let server = serve(fenced(&shop)).await;
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        let request = format!("{method} /stock HTTP/1.1^Host: shop^Connection: close^^");
        let (status, text) = answer(send(server, &request).await).await;
        assert_eq!(status, 428, "{method}");
        assert!(
            text.starts_with(
                "the header Lock-Sequencer is missing. Try: acquire the lock \"stock\""
            ),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_read_of_a_newer_holder_shuts_out_the_older_one() {
    let (shop, _) = Shop::new();
    let server = serve(fenced(&shop)).await;
    let (older, newer) = holders(&shop).await;
    assert_eq!(answer(send(server, &(write(&older) + "19")).await).await, (204, String::new()));
    assert_eq!(answer(send(server, &read(&newer)).await).await, (200, "19".to_owned()));
    for request in [read(&older), write(&older) + "18"] {
        let (status, text) = answer(send(server, &request).await).await;
        assert_eq!(status, 412);
        assert!(
            text.starts_with(&format!(
                "{older} is stale: the resource has seen token {}",
                newer.token()
            )),
            "{text}"
        );
    }
    assert_eq!(answer(send(server, &(write(&newer) + "17")).await).await, (204, String::new()));
    assert_eq!(*shop.stock.lock().unwrap(), 17);
}

/// The layer lets both writes through, in the order of their arrival. The work of the writes is
/// done in the other order. The service's own check of the gate, under its mutex, refuses the
/// overtaken write.
#[tokio::test]
async fn a_write_that_is_overtaken_behind_the_layer_is_refused() {
    let (shop, _) = Shop::new();
    let server = serve(fenced(&shop)).await;
    let (older, newer) = holders(&shop).await;
    let mut slow = send(server, &write(&older)).await;
    while shop.gate.marks().any != Some(older.token()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(answer(send(server, &read(&newer)).await).await, (200, "20".to_owned()));
    slow.write_all(b"19").await.unwrap();
    let (status, text) = answer(slow).await;
    assert_eq!(status, 412);
    assert!(text.starts_with(&format!("{older} is stale")), "{text}");
    assert_eq!(*shop.stock.lock().unwrap(), 20);
}

#[tokio::test]
async fn readers_pass_side_by_side_until_a_writer_has_passed() {
    let (shop, _) = Shop::new();
    let server = serve(fenced(&shop)).await;
    let lock = shop.keeper.rw_lock("stock").unwrap();
    let readers = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    let [older, younger] = readers.each_ref().map(lockkeeper::Guard::sequencer);
    for reader in [&younger, &older] {
        assert_eq!(answer(send(server, &read(reader)).await).await.0, 200);
    }
    for guard in readers {
        guard.release().await.unwrap();
    }
    let writer = lock.write().await.unwrap();
    assert_eq!(answer(send(server, &(write(&writer.sequencer()) + "19")).await).await.0, 204);
    for reader in [&younger, &older] {
        assert_eq!(answer(send(server, &read(reader)).await).await.0, 412);
    }
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(
        answer(send(server, &read(&reader.sequencer())).await).await,
        (200, "19".to_owned())
    );
    reader.release().await.unwrap();
}

#[tokio::test]
async fn permits_are_refused() {
    let (shop, _) = Shop::new();
    let server = serve(fenced(&shop)).await;
    let permit = shop.keeper.semaphore("stock", 2).unwrap().acquire().await.unwrap();
    let (status, text) = answer(send(server, &read(&permit.sequencer())).await).await;
    assert_eq!(status, 412);
    assert!(text.contains("cannot be checked by a gate: permits are held side by side"), "{text}");
    permit.release().await.unwrap();
}

#[tokio::test]
async fn the_sequencer_of_another_lock_is_refused() {
    let (shop, _) = Shop::new();
    let server = serve(fenced(&shop)).await;
    let guard = shop.keeper.mutex("another").unwrap().lock().await.unwrap();
    let (status, text) = answer(send(server, &read(&guard.sequencer())).await).await;
    assert_eq!(status, 412);
    assert!(
        text.contains("belongs to another lock: this resource is protected by \"stock\""),
        "{text}"
    );
    guard.release().await.unwrap();
}
