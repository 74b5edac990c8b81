//! Measures clients in turn.

pub mod alone;
mod bench;
pub mod crowd;
mod figures;
pub mod held;
mod kind;
pub mod machine;
mod options;
mod process;
mod report;

pub use self::bench::{Bench, Counts, Seen, Servers, Spec};
pub use self::figures::{Rounds, Spans, Turns};
pub use self::kind::{Kind, Program};
pub use self::options::{Options, Usage};
pub use self::process::{Process, cpu, ending_with_us, free_port};
pub use self::report::{Goal, Report, goals};
