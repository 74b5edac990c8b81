//! What the runner tells a client: one line on its standard input, answered by one line of its
//! standard output.
//!
//! `README.md` lists the words; the clients in Go, Java and Python read the same.

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
    /// Give back what is held.
    Drop,
}

/// Lock and release, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Go {
    /// The lock; with `own` what the names of the locks begin with.
    pub lock: String,
    /// Each task has a lock of its own.
    pub own: bool,
    /// How many client objects of this process take part.
    pub clients: usize,
    /// How many tasks of each client object.
    pub tasks: usize,
    /// Whether a release is waited for.
    pub awaited: bool,
    /// How long a lock is held, in nanoseconds.
    pub hold: u64,
    /// A cycle begins each so many nanoseconds; 0: as soon as the last one is over.
    pub every: u64,
    /// A task begins no more cycles than these; 0: until the end.
    pub most: u64,
    /// Nobody begins a cycle after this time of CLOCK_MONOTONIC.
    pub end: u64,
    /// Who still waits so long after the end gives up.
    pub patience: u64,
    /// Where the cycles are written to.
    pub trace: String,
}

/// Take locks, and keep them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What the names of the locks begin with; of a kind of which many may hold one lock, its name.
    pub lock: String,
    /// How many.
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
                let Go {
                    lock,
                    own,
                    clients,
                    tasks,
                    awaited,
                    hold,
                    every,
                    most,
                    end,
                    patience,
                    trace,
                } = go;
                let [own, awaited] = [own, awaited].map(|word| u8::from(*word));
                write!(
                    f,
                    "go lock={lock} own={own} clients={clients} tasks={tasks} awaited={awaited} hold={hold} "
                )?;
                write!(f, "every={every} most={most} end={end} patience={patience} trace={trace}")
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
                patience: words.get("patience")?,
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
            patience: 4,
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
