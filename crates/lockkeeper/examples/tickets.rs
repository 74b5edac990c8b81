//! A payment provider serves three requests at a time, and four ticket offices sell tickets: a
//! semaphore of three permits that all offices share.
//!
//! One office is killed while it holds a permit. The permit comes back when its lease ends, without
//! any action.
//!
//! ```sh
//! cargo run -p lockkeeper --example tickets
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper::{Keeper, MemoryStore, Result};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

const PERMITS: u32 = 3;
const OFFICES: u32 = 4;
const CUSTOMERS: u32 = 8;
const LEASE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryStore::new();
    be_killed(&store)?;
    Builder::new_current_thread().enable_all().build()?.block_on(sell_all(store))?;
    Ok(())
}

async fn sell_all(store: MemoryStore) -> Result<()> {
    let looking = office(&store).await?;
    println!(
        "held by the office that was killed: {} of {PERMITS} permits",
        looking.inspect("payment").await?.holders.len()
    );

    let provider = Provider::default();
    let mut sales = JoinSet::new();
    for number in 1..=OFFICES {
        let office = office(&store).await?;
        for _ in 0..CUSTOMERS {
            sales.spawn(sell(office.clone(), number, provider.clone()));
        }
    }
    for sold in sales.join_all().await {
        sold?;
    }

    let (served, most) =
        (provider.served.load(Ordering::Relaxed), provider.most.load(Ordering::Relaxed));
    println!("{served} tickets sold; the provider had never more than {most} requests at a time");
    assert_eq!((served, most), (OFFICES * CUSTOMERS, PERMITS));
    assert!(!looking.inspect("payment").await?.is_held());
    Ok(())
}

/// One office. In a real system each office is a process.
async fn office(store: &MemoryStore) -> Result<Keeper> {
    Keeper::builder(store.clone()).ttl(LEASE).connect().await
}

async fn sell(office: Keeper, number: u32, provider: Provider) -> Result<()> {
    let permit =
        office.semaphore("payment", PERMITS)?.acquire().wait(Duration::from_secs(30)).await?;
    permit.while_held(provider.pay(number)).await?;
    permit.release().await
}

/// An office takes a permit, and is gone: no process renews or releases the permit.
fn be_killed(store: &MemoryStore) -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let permit = runtime
        .block_on(async { office(store).await?.semaphore("payment", PERMITS)?.acquire().await })?;
    // The code at the end of a guard does not run when a process is killed.
    std::mem::forget(permit);
    Ok(())
}

/// Counts the requests that it serves at the same time.
#[derive(Clone, Default)]
struct Provider {
    now: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
    served: Arc<AtomicU32>,
}

impl Provider {
    async fn pay(&self, office: u32) {
        let at_once = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        if self.most.fetch_max(at_once, Ordering::Relaxed) < at_once {
            println!(
                "office {office} makes it {at_once} at a time, after {} tickets",
                self.served.load(Ordering::Relaxed)
            );
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::Relaxed);
    }
}
