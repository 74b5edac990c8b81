//! The stores. Each room has the same files: `mod` is the [`Store`](crate::store::Store), `builder` opens it, `layout`
//! is what it keeps and the operations on it, `wait` is how its waiters wake up.

pub mod memory;
