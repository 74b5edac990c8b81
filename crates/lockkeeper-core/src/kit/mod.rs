//! For authors of stores: the code that several stores need.
//!
//! | for | look at |
//! |---|---|
//! | a store whose server pushes | [`WaitingClaims`], [`WatchedNames`] |
//! | a store whose server reports nothing by itself | [`crate::store::poll`] |
//! | a store whose server knows no sessions | [`SessionClaims`] |
//! | the keepers that listen to a store | [`Listeners`] |
//! | a state that another task changes | [`watchful()`], [`watchful_until`] |
//! | attempts that fail | [`Backoff`] |
//! | a fork of the process | [`Process`] |
//! | addresses, login, TLS and times of a URL | `Hosts`, `Limits` (feature `net`) |
//! | connections | `net` (feature `net`) |
//! | the checks of `doctor` | [`checks!`], [`Examination`] |
//! | tasks and threads, random numbers | [`runtime`], [`random`] |

mod backoff;
mod doctor;
#[cfg(feature = "net")]
mod hosts;
mod listeners;
#[cfg(feature = "net")]
pub mod net;
mod process;
mod pushes;
pub mod random;
pub mod runtime;
#[cfg(feature = "testing")]
pub mod seeded;
pub mod serial;
mod session_claims;
mod watchful;

pub use self::backoff::Backoff;
pub use self::doctor::{
    Check, Doctor, Examination, Probing, Row, examine, fail, judge, judged, named, ok, warn,
    warn_if,
};
#[cfg(feature = "net")]
pub use self::hosts::{Hosts, Limits, wrong_param};
pub use self::listeners::Listeners;
pub use self::process::Process;
pub use self::pushes::{Known, Sent, WaitingClaims, WatchedNames, Watching};
pub use self::session_claims::SessionClaims;
pub use self::watchful::{watchful, watchful_until};
pub use crate::checks;
