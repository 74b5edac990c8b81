//! The write of a round with replicas: see `replicas.rs`.

use super::scripts;
use crate::wire::Request;

/// Writes the mark for so many milliseconds, also on a server without memory for other writes.
pub(crate) fn mark_even_if_full(mark: &[u8], ms: &[u8]) -> Request {
    Request::eval(&scripts::MARK, &[mark], &[ms])
}
