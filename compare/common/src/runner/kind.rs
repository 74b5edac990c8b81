//! The compared clients.

/// A client: its name, and its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The name in the program.
    pub name: &'static str,
    /// The name in the tables.
    pub label: &'static str,
    /// The program.
    pub program: Program,
}

/// A program that has clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// `client`.
    Rust,
    /// `go-client`.
    Go,
    /// All clients are objects of one process.
    Java,
    /// `python/client.py`.
    Python,
    /// `node/client.mjs`.
    Node,
}

impl Kind {
    /// A client.
    pub const fn new(name: &'static str, label: &'static str, program: Program) -> Self {
        Self { name, label, program }
    }

    /// Whether the client has to compile before it is fast.
    pub fn is_jvm(self) -> bool {
        self.program == Program::Java
    }

    /// Whether the client is lockkeeper, which need not wait for its releases.
    pub fn is_lockkeeper(self) -> bool {
        self.name.starts_with("lockkeeper")
    }
}
