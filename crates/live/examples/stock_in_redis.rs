//! The lock is in etcd, the data in Redis: four shops sell from one stock. Redis checks each change
//! with the fencing token. So a shop that was stopped, and still takes itself for the holder, sells
//! nothing.
//!
//! The example starts an etcd and a Redis server of its own, and ends them.
//!
//! ```sh
//! cargo run -p lockkeeper-live --example stock_in_redis
//! ```

use std::error::Error;

use lockkeeper::fence::redis::{Answer, Call, FencedKey};
use lockkeeper::{EtcdStore, Keeper, Sequencer};
use lockkeeper_live::{Etcd, Redis};
use tokio::task::JoinSet;

/// The stock, and the key with the last holder's token.
const STOCK: &str = "stock:chairs";
const CHAIRS: u32 = 40;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (etcd, redis) = (Etcd::start()?, Redis::start()?);
    redis.run(&["SET", STOCK, &CHAIRS.to_string()])?;
    let mut shops = JoinSet::new();
    for shop in ["north", "south", "east", "west"] {
        let (url, server) = (etcd.url(), redis.url());
        // Each shop is a client of its own, as if in a process of its own.
        shops.spawn(
            async move { sell(shop, &url, &server).await.map_err(|error| error.to_string()) },
        );
    }
    let mut sold = 0;
    for shop in shops.join_all().await {
        sold += shop?;
    }
    println!("{sold} chairs are sold, {} are left", redis.query::<u32>(&["GET", STOCK])?);
    assert_eq!((sold, redis.query::<u32>(&["GET", STOCK])?), (CHAIRS, 0));
    refused(&etcd, &redis).await
}

/// Sells until the stock is empty: reads the stock and writes the rest, under the lock.
async fn sell(shop: &str, etcd: &str, redis: &str) -> Result<u32, Box<dyn Error>> {
    let keeper = keeper(etcd).await?;
    let (lock, stock) = (keeper.mutex("chairs")?, FencedKey::new(STOCK)?);
    let mut data = redis::Client::open(redis)?.get_connection()?;
    let mut sold = 0;
    loop {
        let guard = lock.lock().await?;
        // The first access with a token shuts out all earlier holders, so a read sends the token
        // too.
        let left: u32 = asked(&mut data, &stock.read(&guard.sequencer(), &["GET"])?)?;
        if left == 0 {
            guard.release().await?;
            println!("{shop} has sold {sold}");
            return Ok(sold);
        }
        asked::<()>(
            &mut data,
            &stock.write(&guard.sequencer(), &["SET", &(left - 1).to_string()])?,
        )?;
        sold += 1;
        guard.release().await?;
    }
}

/// An operator deletes the lock of a holder that does not know it yet, and the next holder begins.
/// From now on Redis refuses the requests of the first holder by its token, and etcd refuses its
/// transactions.
async fn refused(etcd: &Etcd, redis: &Redis) -> Result<(), Box<dyn Error>> {
    let keeper = keeper(&etcd.url()).await?;
    let (lock, stock) = (keeper.mutex("chairs")?, FencedKey::new(STOCK)?);
    let mut data = redis::Client::open(redis.url())?.get_connection()?;
    let late = lock.lock().await?;
    let holds = lockkeeper::etcd::compare(&late)?;
    etcd.control().delete(&holds.key)?;
    let next = self::keeper(&etcd.url()).await?.mutex("chairs")?.lock().await?;
    asked::<Option<u32>>(&mut data, &stock.read(&next.sequencer(), &["GET"])?)?;
    let write = write_of(&stock, &late.sequencer())?;
    let printed: (u32, String) = send(&mut data, &write)?;
    println!("the late one, token {}, is refused: token {} was there", late.token(), printed.1);
    assert_eq!(
        Answer::of(printed.0.into(), Some(&printed.1))?,
        Answer::Stale { seen: next.token() }
    );
    assert!(
        etcd.control()
            .get(&holds.key)?
            .is_none_or(|there| there.create_revision != holds.create_revision)
    );
    next.release().await?;
    Ok(())
}

fn write_of(stock: &FencedKey, holder: &Sequencer) -> lockkeeper::Result<Call> {
    stock.write(holder, &["SET", "1000"])
}

async fn keeper(url: &str) -> lockkeeper::Result<Keeper> {
    Keeper::builder(EtcdStore::from_url(&url.parse()?)?.connect().await?).connect().await
}

/// The answer of the command; an error if the holder has lost the lock.
fn asked<T: redis::FromRedisValue>(
    data: &mut redis::Connection,
    call: &Call,
) -> Result<T, Box<dyn Error>> {
    let (passed, answer): (u32, T) = send(data, call)?;
    match passed {
        1 => Ok(answer),
        _ => Err("the lock is another's".into()),
    }
}

fn send<T: redis::FromRedisValue>(
    data: &mut redis::Connection,
    call: &Call,
) -> redis::RedisResult<T> {
    let mut command = redis::cmd("EVAL");
    command.arg(call.script).arg(call.keys.len()).arg(&call.keys);
    for arg in &call.args {
        command.arg(arg.as_slice());
    }
    command.query(data)
}
