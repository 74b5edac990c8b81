//! Faults that were found and mended, each with the steps that showed it.

use std::time::Duration;

use lockkeeper_live::Way;

use crate::support::{
    LONG, behind_proxies, holders, keeper, line_key, lock, name, tried, until, until_holding,
    within,
};

/// An attempt is turned away by two servers, and its connection to the third one is cut before the
/// withdrawal. The claim there is withdrawn as soon as the server can be reached again.
#[tokio::test]
async fn a_withdrawal_that_fails_at_once_is_sent_again() {
    let ((servers, proxies), name) = (behind_proxies(3), name());
    let (direct, behind) =
        (keeper(&servers.url(), LONG).await, keeper(&servers.url_through(&proxies), LONG).await);
    let held = lock(&direct, &name).await;
    until_holding(&servers, &name, 3).await;
    let third = &servers.nodes()[2];
    third.run(&["DEL", &line_key(&name)]).unwrap();
    for proxy in &proxies[..2] {
        proxy.delay(Way::ToClient, Duration::from_millis(200));
    }
    proxies[2].hold(Way::ToClient);
    let attempt = async { tried(&behind, &name).await.unwrap() };
    let cut = async {
        until(|| holders(third, &name).len() == 1).await;
        proxies[2].refuse();
        proxies[2].cut();
    };
    let (got, ()) = tokio::join!(attempt, cut);
    assert!(got.is_none(), "it is held");
    proxies.iter().for_each(|proxy| proxy.heal());
    proxies[2].accept().unwrap();
    within(Duration::from_secs(5), until(|| holders(third, &name).is_empty())).await;
    held.release().await.unwrap();
}
