//! Data of others, put around the locks behind the back of their stores.

pub(crate) mod etcd;
pub(crate) mod redis;
