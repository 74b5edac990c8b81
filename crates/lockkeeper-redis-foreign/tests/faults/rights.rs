//! A user with the rights that `doctor` prints, and no others.

use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper::backend::redis_foreign::Layout;
use lockkeeper::store::Level;
use lockkeeper_live::Redis;

use crate::doctor::{examined, find};
use crate::support::{TIME_LIMIT, within};

/// The rule that `doctor` prints for the locks below `shop:`.
async fn rule(server: &Redis, layout: Layout) -> Vec<String> {
    let url = format!("{}?layout={}&prefix=shop:", server.url(), layout.name());
    let rule = find(&examined(&url).await, "rights").remedy.unwrap();
    let words = rule.split(' ').map(|word| match word {
        "NAME" => layout.name(),
        ">PASSWORD" => "nopass",
        word => word,
    });
    words.map(str::to_owned).collect()
}

/// Takes and releases a lock of this layout, for itself and for a waiter.
async fn use_of(keeper: &Keeper, layout: Layout, name: &str) -> lockkeeper::Result<()> {
    let attempt = || match layout {
        Layout::RedissonSemaphore => Ok(keeper.semaphore(name, 1)?.acquire()),
        _ => keeper.mutex(name).map(|mutex| mutex.lock()),
    };
    let guard = within(TIME_LIMIT, attempt()?.into_future()).await?;
    let waiting = tokio::spawn(attempt()?.into_future());
    assert!(!waiting.is_finished());
    guard.release().await?;
    within(TIME_LIMIT, waiting).await.unwrap()?.release().await?;
    let detached = attempt()?.detached(Duration::from_secs(5));
    keeper.adopt(detached.await?)?.release().await
}

#[tokio::test]
async fn the_rule_for_a_prefix_is_enough_for_its_locks_and_for_no_others() {
    let server = Redis::start().unwrap();
    for layout in Layout::ALL {
        let rule = rule(&server, layout).await;
        let has = |word: &str| rule.iter().any(|of| of == word);
        assert!(has("~shop:*") && !has("~*") && !has("&*"), "{rule:?}");
        let words: Vec<_> = rule.iter().map(String::as_str).collect();
        server.run(&words).unwrap();
        let user = format!("redis://{}@{}", layout.name(), server.address());
        let url = |prefix: &str| format!("{user}?layout={}&prefix={prefix}", layout.name());
        let keeper = lockkeeper::connect(&url("shop:")).await.unwrap();
        for name in ["stock", "{stock}:of"] {
            use_of(&keeper, layout, name).await.unwrap();
        }
        let rights = find(&examined(&url("shop:")).await, "rights");
        assert_eq!(rights.level, Level::Ok, "{rights:?}");
        let other = lockkeeper::connect(&url("other:")).await.unwrap();
        let refused = use_of(&other, layout, "stock").await.unwrap_err();
        assert_eq!(refused.kind(), lockkeeper::ErrorKind::Denied, "{refused}");
    }
}
