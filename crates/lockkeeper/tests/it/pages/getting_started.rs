//! The programs of docs/getting-started.md. The programs would leave a file where the tests run, so
//! they are only compiled.
#![allow(dead_code, reason = "compiled, and not run")]

#[tokio::main]
async fn main() -> lockkeeper::Result<()> {
    let keeper = lockkeeper::connect("file:first-locks.db").await?;
    let guard = keeper.mutex("hello")?.lock().await?;
    println!("I hold the lock, my token is {}", guard.token());
    guard.release().await
}

async fn write_report() -> lockkeeper::Result<u32> {
    Ok(7)
}

async fn report(keeper: lockkeeper::Keeper) -> lockkeeper::Result<u32> {
    let guard = keeper.mutex("report")?.lock().await?;
    let report = guard.scope(write_report()).await?; // stops at its next await when the lock is lost
    guard.release().await?;
    Ok(report)
}
