//! The one source of randomness: the operating system.

use crate::exit::{Exit, Failure};

/// An unpredictable number.
pub(crate) fn number() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(Exit::Internal, format!("no random numbers: {error}")))?;
    Ok(u64::from_ne_bytes(bytes))
}
