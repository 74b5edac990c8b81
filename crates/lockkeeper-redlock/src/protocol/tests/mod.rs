//! The rules of the nodes and of the clients, checked against all orders of events within bounds.

mod decisions;
mod model;
mod mutants;
mod world;
