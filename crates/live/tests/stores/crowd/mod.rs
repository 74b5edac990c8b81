//! Foreign data around the locks, written without their stores.

pub(crate) mod etcd;
pub(crate) mod redis;
