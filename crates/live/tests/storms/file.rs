//! A file store whose processes are killed, and stopped for longer than a lease.

use std::time::Duration;

use lockkeeper_testing::Seeded;

use crate::play::{Round, Storm, plain};

const STORM: Storm = Storm {
    test: "file::processes_are_killed_and_stopped",
    tasks: 8,
    pause: Duration::from_millis(3),
    ttl: Duration::from_secs(2),
    lingers: Duration::from_secs(20),
    at_most: Duration::MAX,
};

/// The longest pause between two faults.
const PAUSE: u64 = 400;

/// No lock has two holders at once, tokens rise, and every waiter gets its lock.
#[test]
fn processes_are_killed_and_stopped() {
    if STORM.is_played_here(plain) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}", folder.path().join("locks.db").display());
    let (mut kills, mut stops) = (0, 0);
    let fault = |round: &mut Round<'_>, draw: &mut Seeded| {
        std::thread::sleep(Duration::from_millis(draw.below(PAUSE)));
        if draw.happens(700) {
            round.kill_one(draw);
            kills += 1;
        } else {
            let time = Duration::from_millis(draw.below(3000));
            round.stop_one(draw, time);
            stops += 1;
        }
    };
    STORM.play(&url, &[], fault, Storm::nobody_beside_another);
    eprintln!("{kills} processes were killed, {stops} stood still");
}
