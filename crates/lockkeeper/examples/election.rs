//! Three nodes, of which one at a time does the work that must be done once. The leader is killed, and the next in line
//! leads as soon as the lease of the dead one has ended. Somebody else watches, and always knows whom to ask.
//!
//! ```sh
//! cargo run -p lockkeeper --example election
//! ```

use std::error::Error;
use std::time::Duration;

use lockkeeper::{Keeper, Leader, Leadership, MemoryStore, Observer, Result};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
/// How long nobody leads after a leader was killed, at most.
const LEASE: Duration = Duration::from_secs(2);
/// How long a node leads in this example.
const TERM: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryStore::new();
    // A runtime of its own stands for a process of its own.
    let process = Builder::new_current_thread().enable_all().build()?;
    let leadership = process.block_on(lead(&store, "node-1"))?;
    println!("node-1: I lead, with the token {}", leadership.guard().token());

    // What would run at its end does not run when a process is killed.
    std::mem::forget(leadership);
    drop(process);
    println!("node-1 is killed");

    let leaders = Builder::new_current_thread().enable_all().build()?.block_on(go_on(&store))?;
    let mut names: Vec<_> = leaders.iter().map(|leader| leader.owner.as_str()).collect();
    assert_eq!(names[0], "node-1");
    names.sort_unstable();
    assert_eq!(names, NODES, "each has led once");
    assert!(leaders.is_sorted_by(|one, next| one.token < next.token), "each leader has a higher token");
    Ok(())
}

async fn connect(store: &MemoryStore, node: &str) -> Result<Keeper> {
    Keeper::builder(store.clone()).owner(node).ttl(LEASE).connect().await
}

/// The value says how to reach the leader.
async fn lead(store: &MemoryStore, node: &str) -> Result<Leadership> {
    let campaign = connect(store, node).await?.election("scheduler")?.campaign(format!("{node}:8080"));
    campaign.wait(Duration::from_secs(30)).await
}

/// The other nodes, and the one who watches; returns all leaders that were seen.
async fn go_on(store: &MemoryStore) -> Result<Vec<Leader>> {
    let observer = connect(store, "observer").await?.election("scheduler")?.observe();
    let mut nodes = JoinSet::new();
    for node in &NODES[1..] {
        nodes.spawn(serve(store.clone(), node));
    }
    let leaders = observe(observer).await?;
    for served in nodes.join_all().await {
        served?;
    }
    Ok(leaders)
}

async fn serve(store: MemoryStore, node: &str) -> Result<()> {
    let leadership = lead(&store, node).await?;
    println!("{node}: I lead, with the token {}", leadership.guard().token());
    // Ends early if the leadership is lost: then somebody else leads.
    leadership.guard().scope(tokio::time::sleep(TERM)).await?;
    println!("{node} resigns");
    leadership.resign().await.map(drop)
}

/// Until all have led, and nobody leads any more.
async fn observe(mut observer: Observer) -> Result<Vec<Leader>> {
    let mut leaders = Vec::new();
    loop {
        match observer.next().await? {
            Some(leader) => {
                println!("  observer: {} leads, at {}", leader.owner, String::from_utf8_lossy(&leader.value));
                leaders.push(leader);
            }
            None => {
                println!("  observer: nobody leads");
                if leaders.len() == NODES.len() {
                    return Ok(leaders);
                }
            }
        }
    }
}
