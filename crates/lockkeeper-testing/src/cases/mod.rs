//! The cases: the duties of every store. Each case is a few lines, and its doc comment says what it
//! asserts.
//!
//! To add a case, write it here and enter it in `suite.rs`. Every store then runs it.

pub mod admin;
pub mod amend;
pub mod asking;
pub mod breaking;
pub mod cancel;
pub mod claim;
pub mod delay;
pub mod detached;
pub mod election;
pub mod expiry;
pub mod hold;
pub mod identity;
pub mod line;
pub mod lives;
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
pub mod sharing;
pub mod sizes;
pub mod storm;
pub mod tasks;
mod together;
pub mod token;
pub mod unfair;
pub mod wait;
pub mod weights;
pub mod withdraw;
