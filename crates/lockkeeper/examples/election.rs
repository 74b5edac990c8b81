//! Three nodes, of which one at a time does work that only one node may do. The leader is killed,
//! and the next node in line leads at once. An observer knows the address of the leader at all
//! times.
//!
//! ```sh
//! cargo run -p lockkeeper --example election
//! ```

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockkeeper::{FileStore, Keeper, Leader, Leadership, Observer, Result};
use tokio::task::JoinSet;

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
/// How long a node leads in this example.
const TERM: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(file) = std::env::args_os().nth(1) {
        return lead_until_killed(Path::new(&file)).await;
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("locks.db");
    let mut observer = connect(&file, "observer").await?.election("scheduler")?.observe();
    assert!(observer.next().await?.is_none());

    let mut process = Command::new(std::env::current_exe()?).arg(&file).spawn()?;
    let first = observer.next().await?.ok_or("nobody leads")?;
    println!("  observer: {} leads, at {}", first.owner, first.text());
    let mut others = JoinSet::new();
    for node in &NODES[1..] {
        others.spawn(serve(connect(&file, node).await?, node));
    }
    process.kill()?;
    process.wait()?;
    println!("node-1 is killed");

    let mut leaders = observe(observer, first).await?;
    for served in others.join_all().await {
        served?;
    }
    assert!(
        leaders.is_sorted_by(|one, next| one.token < next.token),
        "each leader has a higher token"
    );
    leaders.sort_by(|one, next| one.owner.cmp(&next.owner));
    assert!(leaders.iter().map(|leader| leader.owner.as_str()).eq(NODES), "each has led once");
    Ok(())
}

/// The program of the first node's process.
async fn lead_until_killed(file: &Path) -> Result<(), Box<dyn Error>> {
    let leadership = lead(&connect(file, NODES[0]).await?, NODES[0]).await?;
    println!("node-1: I lead, with the token {}", leadership.token());
    leadership.lost().await;
    Ok(())
}

async fn connect(file: &Path, node: &str) -> Result<Keeper> {
    Keeper::builder(FileStore::new(file)).owner(node).connect().await
}

/// The value is the address of the leader.
async fn lead(keeper: &Keeper, node: &str) -> Result<Leadership> {
    keeper
        .election("scheduler")?
        .campaign(format!("{node}:8080"))
        .wait(Duration::from_secs(30))
        .await
}

async fn serve(keeper: Keeper, node: &str) -> Result<()> {
    let leadership = lead(&keeper, node).await?;
    println!("{node}: I lead, with the token {}", leadership.token());
    // Ends early if the leadership is lost: another node leads then.
    leadership.guard().while_held(tokio::time::sleep(TERM)).await?;
    println!("{node} resigns");
    leadership.resign().await
}

/// Observes until all nodes have led and no node leads any more.
async fn observe(mut observer: Observer, first: Leader) -> Result<Vec<Leader>> {
    let mut leaders = vec![first];
    loop {
        match observer.next().await? {
            Some(leader) => {
                println!("  observer: {} leads, at {}", leader.owner, leader.text());
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
