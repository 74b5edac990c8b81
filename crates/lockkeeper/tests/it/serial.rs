//! Infos and events as JSON.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper::{Break, Keeper, MemoryStore, Target};
use serde_json::{Value, json};

#[tokio::test]
async fn an_event_is_a_line_of_json() {
    let lines = Arc::new(Mutex::new(Vec::<Value>::new()));
    let written = Arc::clone(&lines);
    let keeper = Keeper::builder(MemoryStore::new())
        .owner("me")
        .on_event(move |event| written.lock().unwrap().push(serde_json::to_value(event).unwrap()));
    let keeper = keeper.connect().await.unwrap();
    let guard = keeper.mutex("deploy").unwrap().lock().await.unwrap();
    let token = guard.token();
    assert!(keeper.mutex("deploy").unwrap().try_lock().await.unwrap().is_none());
    keeper
        .admin()
        .unwrap()
        .break_lock("deploy", Target::Token(token), "stuck", Break::Now)
        .await
        .unwrap();
    guard.lost().await;
    let lines = lines.lock().unwrap();
    let of = |event: &str| {
        lines.iter().find(|line| line["event"] == event).unwrap_or_else(|| panic!("{lines:?}"))
    };
    let acquired = of("acquired");
    assert_eq!((&acquired["lock"], &acquired["mode"]), (&json!("deploy"), &json!("exclusive")));
    assert_eq!(acquired["token"], json!(token.to_string()));
    assert!(acquired["waited_ms"].is_u64());
    let missed = of("not_acquired");
    assert_eq!(missed["outcome"], json!("busy"));
    assert!(
        missed["error"].as_str().unwrap().contains("others hold it, or wait for it"),
        "{missed}"
    );
    let lost = json!({
        "event": "lost", "lock": "deploy", "token": token.to_string(), "reason": "removed", "by": "me", "why": "stuck",
    });
    assert_eq!(of("lost"), &lost);
}

#[tokio::test]
async fn an_info_is_json_without_inner_numbers() {
    let keeper = Keeper::memory();
    let guard = keeper.mutex("deploy").unwrap().lock().reason("why").await.unwrap();
    let info = serde_json::to_value(keeper.inspect("deploy").await.unwrap()).unwrap();
    assert_eq!((&info["lock"], &info["mode"]), (&json!("deploy"), &json!("exclusive")));
    let holder = &info["holders"][0];
    assert_eq!(
        (&holder["token"], &holder["reason"]),
        (&json!(guard.token().to_string()), &json!("why"))
    );
    assert!(holder["held_ms"].is_u64() && holder.get("permits").is_none(), "{info}");
    let pool = keeper.semaphore("pool", 3).unwrap();
    let two = pool.acquire_many(2).await.unwrap();
    let info = serde_json::to_value(keeper.inspect("pool").await.unwrap()).unwrap();
    assert_eq!((&info["holders"][0]["permits"], &info["capacity"]), (&json!(2), &json!(3)));
    two.release().await.unwrap();
    let leadership =
        keeper.election("jobs").unwrap().campaign("me").wait(Duration::from_secs(9)).await.unwrap();
    let leader = keeper.election("jobs").unwrap().leader().await.unwrap().unwrap();
    assert_eq!(serde_json::to_value(leader).unwrap()["value"], "me");
    leadership.resign().await.unwrap();
    guard.release().await.unwrap();
}
