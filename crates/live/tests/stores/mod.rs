//! Stores under test on real servers, in every way of connection.
#![allow(dead_code, reason = "each test program uses some of them")]

pub(crate) mod crowd;
pub(crate) mod etcd;
pub(crate) mod redis;
pub(crate) mod servers;
