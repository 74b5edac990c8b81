//! The cases: what every store has to do. Each is a few lines, and says in its first what it asserts.
//!
//! A new case is written here and entered in `suite.rs`; every store then has it.

pub mod admin;
pub mod amend;
pub mod asking;
pub mod breaking;
pub mod cancel;
pub mod claim;
pub mod delay;
pub mod detached;
pub mod election;
pub mod hold;
pub mod life;
pub mod line;
pub mod loss;
pub mod min_hold;
pub mod model;
pub mod multi;
pub mod mutex;
pub mod names;
pub mod reentrant;
pub mod renew;
pub mod rw_lock;
pub mod semaphore;
pub mod session;
pub mod sizes;
pub mod storm;
pub mod tasks;
mod together;
pub mod token;
pub mod unfair;
pub mod wait;
pub mod weights;
pub mod withdraw;
