//! The stores of this crate. Each has the same files: `mod` is the `Store`, `builder` opens it,
//! `layout` has its data and the operations on the data, and `wait` wakes its waiters.

#[cfg(feature = "etcd")]
pub use lockkeeper_etcd as etcd;
#[cfg(all(feature = "file", target_os = "linux"))]
pub use lockkeeper_file as file;
#[cfg(feature = "redis")]
pub use lockkeeper_redis as redis;
#[cfg(feature = "redis")]
pub use lockkeeper_redis_foreign as redis_foreign;
#[cfg(feature = "redlock")]
pub use lockkeeper_redlock as redlock;
pub mod memory;
