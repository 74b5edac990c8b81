//! The stores. Each room has the same files: `mod` is the `Store`, `builder` opens it, `layout`
//! is what it keeps and the operations on it, `wait` is how its waiters wake up.

#[cfg(feature = "etcd")]
pub use lockkeeper_etcd as etcd;
#[cfg(all(feature = "file", target_os = "linux"))]
pub use lockkeeper_file as file;
#[cfg(feature = "redis")]
pub use lockkeeper_redis as redis;
pub mod memory;
#[cfg(test)]
mod promises;
