//! Stores with one flaw each.
