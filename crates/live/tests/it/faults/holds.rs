//! A minimum hold while clocks go back, waiters come and go, and administrators break what it keeps.

use std::time::Duration;

use lockkeeper::store::{Amended, Renewal};
use lockkeeper_live::Redis;

use super::{Claimant, LONG, name, store};

/// Longer than a test takes, and other than every lease.
const HOLD: Duration = Duration::from_secs(60);

/// The clock goes back by an hour, and the holder is renewed until its minimum hold has passed once more. Its release
/// frees the lock.
#[tokio::test]
async fn a_clock_that_goes_back_stretches_a_minimum_hold_by_no_more_than_its_length() {
    const HOUR: i64 = 3600;
    let server = Redis::builder().with_clock().start().unwrap();
    let claimant = Claimant::new(&store(server.address()).await, &name(), LONG).await;
    claimant.granted().await;
    assert_eq!(claimant.keep(HOLD).await.unwrap(), Amended::Done);
    for passed in (0..=70).step_by(10) {
        server.set_clock_offset(passed - HOUR).unwrap();
        assert!(matches!(claimant.renew().await.unwrap(), Renewal::Held { .. }));
    }
    claimant.release().await;
    claimant.sees(&[]).await;
}
