//! The etcd store: consensus, leases, revisions, watches. It needs etcd 3.5.14 or newer; see
//! `lockkeeper::doctor` for what older versions do to leases.
//!
//! A claim is a key on the lease of its session. The revision that created the key is the claim's
//! place in line and its token. Locks live as long as a majority of the members keeps its data:
//! neither a restart nor a change of the leader loses a lock.
//!
//! The algorithm is that of Go's `concurrency` package, run by the client, with four additions:
//! - A waiter looks at its own key after every wait.
//! - Every release names one claim and no other.
//! - A waiter begins to wait with a watch that etcd serves at once.
//! - A renewal asks for the keys of its claims.
//!
//! `client` has the connections and the state of an open store, and `contract` its operations. Each
//! operation is a module of its own: `claim`, `withdraw`, `renew`, `wait`, `amend`. They
//! share one question, which `look` asks etcd and `status` and `neighbours` answer: what blocks
//! this claim, and what wakes it?
#![forbid(unsafe_code)]

mod admin;
mod amend;
mod builder;
#[doc(hidden)]
pub mod checks;
mod claim;
mod client;
mod compare;
mod contract;
mod doctor;
mod driver;
mod fault;
mod grants;
mod identity;
mod keep;
mod layout;
mod leases;
mod letting_go;
mod line;
mod look;
mod marker;
mod neighbours;
mod notices;
mod opening;
mod order;
mod register;
mod renew;
mod session_life;
mod sessions;
mod shared;
mod slots;
mod status;
mod sweep;
mod timer;
mod timers;
mod tombstones;
mod wait;
mod wall_clock;
mod wire;
mod withdraw;

pub use self::builder::EtcdStoreBuilder;
pub use self::checks::Check;
pub use self::client::EtcdStore;
pub use self::compare::EtcdCompare;
pub use self::driver::DRIVER;
pub use self::layout::Layout;
pub use self::register::EtcdRegister;
use lockkeeper_core::kit::{net, random, runtime};
use lockkeeper_core::{
    Effect, Error, ErrorKind, LockName, Open, Result, Secret, Tls, duration, name, registers,
    store, time, url,
};
