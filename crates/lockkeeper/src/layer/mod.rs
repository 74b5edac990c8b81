//! Stores around stores. Each passes every operation on to the store inside, and changes one
//! aspect.

#[cfg(feature = "testing")]
mod chaos;
#[cfg(feature = "testing")]
mod faults;
mod prefix;
mod traced;

#[cfg(feature = "testing")]
pub use chaos::Chaos;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use faults::FaultPlan;
#[cfg(feature = "testing")]
pub use faults::{Fault, Faults, Operation};
pub use prefix::Prefix;
pub use traced::Traced;
