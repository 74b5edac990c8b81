//! A lock that is held, as text.

use lockkeeper::Mode;

/// One lock that the command runs under.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) name: String,
    pub(crate) token: String,
    pub(crate) sequencer: String,
    pub(crate) mode: &'static str,
}

/// The word for a mode, for people and programs.
pub(crate) fn mode_word(mode: &Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        Mode::Permits(_) => "permits",
    }
}
