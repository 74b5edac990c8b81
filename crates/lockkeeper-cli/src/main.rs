//! The command line of lockkeeper.
fn main() {}
