//! A client that wants a lock, of any program.

/// A contender, which wants one lock at a time.
pub(crate) trait Contender {
    /// Asks for the lock with this name.
    fn ask(&mut self, name: &str);

    /// Waits until the contender has the lock; returns what the contender says of the lock.
    fn held(&mut self) -> String;

    /// Whether the contender has answered since it asked.
    fn has_answered(&mut self) -> bool;

    /// Gives the lock back.
    fn release(&mut self);

    /// Begins to increment the number at a key this many times, each time under the lock.
    fn count(&mut self, name: &str, counter: &str, times: u32);

    /// Waits until the contender has counted.
    fn counted(&mut self);

    /// Ends as by `kill -9`: without a message.
    fn die(self: Box<Self>);
}

/// A contender that need not wait.
pub(crate) trait Tries: Contender {
    /// Whether the contender gets the lock at once. It keeps the lock.
    fn takes_at_once(&mut self, name: &str) -> bool;

    /// As [`takes_at_once`](Self::takes_at_once), but the contender releases the lock again.
    fn gets_at_once(&mut self, name: &str) -> bool {
        let is_free = self.takes_at_once(name);
        if is_free {
            self.release();
        }
        is_free
    }

    /// Lets the life of the held lock begin again, where the program does not do so by itself.
    fn extend(&mut self);
}
