//! A list of lines that are too many bytes for one answer.

use lockkeeper::store::{ClaimId, Store as _};
use lockkeeper_live::Redis;
use tokio::task::JoinSet;

use crate::support::{Claimant, LONG, store};

const LINES: usize = 60;
const CLAIMS: usize = 500;

/// How often the server has read all claims of a line.
fn reads(server: &Redis) -> u64 {
    let stat = server.info("cmdstat_hgetall").unwrap_or_default();
    let calls = stat.split(',').find_map(|part| part.strip_prefix("calls="));
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// Each request of the list reads the lines that it shows, and one line more. The server does
/// nothing else while it reads a line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_long_lines_reads_each_of_them_about_once() {
    let server = Redis::start().unwrap();
    let store = store(server.address()).await;
    let mut claimant = Claimant::new(&store, "x", 20 * LONG).await;
    claimant.claim.wait_ttl = 20 * LONG;
    claimant.claim.meta.reason = Some("why ".repeat(75).into());
    for line in 0..LINES {
        let mut joined = JoinSet::new();
        for _ in 0..CLAIMS {
            let mut one = claimant.clone();
            one.claim.key.name = format!("line-{line}").parse().unwrap();
            one.claim.key.id = ClaimId::random();
            joined.spawn(async move { drop(one.send().await.unwrap()) });
        }
        joined.join_all().await;
    }
    let before = reads(&server);
    let lines = store.admin().unwrap().lines("", None, 1000).await.unwrap();
    assert_eq!(lines.len(), LINES);
    assert!(lines.iter().all(|(_, line)| line.as_ref().unwrap().entries.len() == CLAIMS));
    let read = reads(&server) - before;
    assert!(read <= 2 * LINES as u64, "{read} reads of {LINES} lines");
}
