//! Data of others around the locks of a store, which the harnesses of the contract and the fault
//! suite put there.

mod etcd;
mod redis;
mod redlock;
