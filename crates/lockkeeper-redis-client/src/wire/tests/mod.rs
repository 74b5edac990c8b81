//! Against a peer in this process, which can hold back and cut at every byte.

mod decoding;
mod ends;
mod greeting;
mod loss;
mod messages;
mod order;
mod queue;
mod steps;
