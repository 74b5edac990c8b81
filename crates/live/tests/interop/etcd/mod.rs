//! The clients of etcd, each with a lease of its own.

mod etcdctl;
mod kind;
mod pairs;
mod tries;
mod us;
