//! The orders of the runner to a client: one line on the client's standard input each, with an
//! answer of one line on its standard output.
//!
//! `README.md` lists the words; the clients in the other languages read the same.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// One order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Lock and release until the end.
    Go(Go),
    /// Take locks, and keep them until `Drop`.
    Hold(Hold),
    /// Release the held locks.
    Drop,
}

/// Lock and release, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Go {
    /// The name of the lock; with `own` the beginning of the names of the locks.
    pub lock: String,
    /// Each task has a lock of its own.
    pub own: bool,
    /// How many client objects of this process take part.
    pub clients: usize,
    /// How many tasks of each client object.
    pub tasks: usize,
    /// Whether a task waits for the answer to its release.
    pub awaited: bool,
    /// How long a lock is held, in nanoseconds.
    pub hold: u64,
    /// The interval between the beginnings of two cycles, in nanoseconds; 0: without a pause.
    pub every: u64,
    /// The largest number of cycles of a task; 0: no limit.
    pub most: u64,
    /// No cycle begins after this time of CLOCK_MONOTONIC.
    pub end: u64,
    /// A task that still waits this long after the end gives up.
    pub limit: u64,
    /// The file for the cycles.
    pub trace: String,
}

/// Take locks, and keep them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The beginning of the names of the locks; the name of the lock for a kind with several
    /// holders.
    pub lock: String,
    /// The number of locks.
    pub count: usize,
}

impl Go {
    /// The lock of a task.
    pub fn name(&self, client: usize, task: usize) -> String {
        if self.own { format!("{}-{client}-{task}", self.lock) } else { self.lock.clone() }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Go(go) => {
                let Go { lock, own, clients, tasks, awaited, hold, every, most, end, limit, trace } =
                    go;
                let [own, awaited] = [own, awaited].map(|word| u8::from(*word));
                write!(
                    f,
                    "go lock={lock} own={own} clients={clients} tasks={tasks} awaited={awaited} hold={hold} "
                )?;
                write!(f, "every={every} most={most} end={end} limit={limit} trace={trace}")
            }
            Self::Hold(Hold { lock, count }) => write!(f, "hold lock={lock} count={count}"),
            Self::Drop => f.write_str("drop"),
        }
    }
}

impl FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let verb = words.next();
        let words = Words(words.filter_map(|word| word.split_once('=')).collect());
        Ok(match verb {
            Some("go") => Self::Go(Go {
                lock: words.get("lock")?,
                own: words.get::<u8>("own")? == 1,
                clients: words.get("clients")?,
                tasks: words.get("tasks")?,
                awaited: words.get::<u8>("awaited")? == 1,
                hold: words.get("hold")?,
                every: words.get("every")?,
                most: words.get("most")?,
                end: words.get("end")?,
                limit: words.get("limit")?,
                trace: words.get("trace")?,
            }),
            Some("hold") => {
                Self::Hold(Hold { lock: words.get("lock")?, count: words.get("count")? })
            }
            Some("drop") => Self::Drop,
            _ => bail!("no such order: {line}"),
        })
    }
}

struct Words<'a>(HashMap<&'a str, &'a str>);

impl Words<'_> {
    fn get<T: FromStr>(&self, key: &str) -> Result<T> {
        let word = self.0.get(key).with_context(|| format!("{key}= is missing"))?;
        word.parse().ok().with_context(|| format!("{key}={word} cannot be read"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() -> Result<()> {
        let go = Go {
            lock: "x".to_owned(),
            own: true,
            clients: 1,
            tasks: 64,
            awaited: false,
            hold: 1,
            every: 2,
            most: 5,
            end: 3,
            limit: 4,
            trace: "/tmp/trace".to_owned(),
        };
        for order in
            [Order::Go(go), Order::Hold(Hold { lock: "x".to_owned(), count: 3 }), Order::Drop]
        {
            assert_eq!(order.to_string().parse::<Order>()?, order);
        }
        Ok(())
    }

    #[test]
    fn an_order_without_a_word_names_the_word() {
        let error = "hold lock=x".parse::<Order>().err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("count= is missing"));
    }
}
