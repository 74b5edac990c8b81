//! Two shops sell from one stock in Redis. The stock and the list of orders change in one step. So
//! nothing is sold twice, though no shop holds a lock. Then an inventory counts the stock again
//! under a lock; its token keeps an inventory that was overtaken from writing.
//!
//! The example starts a Redis server of its own, and ends it.
//!
//! ```sh
//! cargo run -p lockkeeper-live --example two_shops
//! ```

use std::error::Error;

use lockkeeper::fence::redis::FencedKey;
use lockkeeper::optimistic::Policy;
use lockkeeper::optimistic::redis::{Changes, Transactions, Watched};
use lockkeeper::{ErrorKind, Keeper, RedisStore, Result};
use lockkeeper_live::Redis;
use tokio::task::JoinSet;

const STOCK: &str = "{chairs}:left";
const ORDERS: &str = "{chairs}:orders";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Redis::start()?;
    let store = RedisStore::from_url(&server.url().parse()?)?.connect().await?;
    sell(&server, &store).await?;
    count(&server, &store).await?;
    Ok(())
}

/// Two shops with 40 customers each want 60 chairs.
async fn sell(server: &Redis, store: &RedisStore) -> Result<(), Box<dyn Error>> {
    server.run(&["SET", STOCK, "60"])?;
    let transactions = store.transactions();
    let mut shops = JoinSet::new();
    for shop in ["north", "south"] {
        let transactions = transactions.clone();
        shops.spawn(async move {
            let mut sold = 0;
            for _ in 0..40 {
                sold += u32::from(sell_one(&transactions, shop).await?);
            }
            Ok::<_, lockkeeper::Error>((shop, sold))
        });
    }
    let mut total = 0;
    for shop in shops.join_all().await {
        let (shop, sold) = shop?;
        println!("{shop} sold {sold}");
        total += sold;
    }
    let (left, orders): (u32, u32) =
        (server.query(&["GET", STOCK])?, server.query(&["LLEN", ORDERS])?);
    println!("{left} are left, and there are {orders} orders");
    assert_eq!((total, left, orders), (60, 0, 60));
    Ok(())
}

/// Whether there was one.
async fn sell_one(transactions: &Transactions, shop: &'static str) -> Result<bool> {
    let done = transactions.watch([STOCK]).run(async |watched: Watched| {
        let left = watched.read(&["GET", STOCK]).await?.number().unwrap_or(0);
        Ok::<_, lockkeeper::Error>(match left {
            0 => Changes::none(),
            _ => Changes::none().and(&["DECR", STOCK]).and(&["RPUSH", ORDERS, shop]),
        })
    });
    Ok(!done.await?.is_empty())
}

/// An inventory whose lock goes to another client before it writes.
async fn count(server: &Redis, store: &RedisStore) -> Result<(), Box<dyn Error>> {
    let keeper = Keeper::builder(store.clone()).connect().await?;
    let (lock, stock) = (keeper.mutex("inventory")?, FencedKey::new(STOCK)?);
    let write = |holder, counted: &'static str| {
        let fenced =
            store.transactions().fenced(&stock, &holder).policy(Policy::default().attempts(3));
        fenced.run(move |_| {
            let changes = Changes::none().and(&["SET", STOCK, counted]);
            async move { Ok::<_, lockkeeper::Error>(changes) }
        })
    };
    let first = lock.lock().await?;
    let late = first.sequencer();
    first.release().await?;
    let second = lock.lock().await?;
    write(second.sequencer(), "12").await?;
    let Err(error) = write(late, "99").await else { panic!("it was overtaken") };
    println!("the inventory that was overtaken receives an error: {error}");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(server.query::<u32>(&["GET", STOCK])?, 12);
    second.release().await?;
    Ok(())
}
