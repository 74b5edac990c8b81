//! Who is compared.

/// A client: its name, and the program that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// As the program calls it.
    pub name: &'static str,
    /// As the tables do.
    pub label: &'static str,
    /// Where it is.
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
}

impl Kind {
    /// A client.
    pub const fn new(name: &'static str, label: &'static str, program: Program) -> Self {
        Self { name, label, program }
    }

    /// Whether it has to compile before it is fast.
    pub fn is_jvm(self) -> bool {
        self.program == Program::Java
    }

    /// Whether it is lockkeeper, for which a release need not be awaited.
    pub fn is_lockkeeper(self) -> bool {
        self.name.starts_with("lockkeeper")
    }
}
