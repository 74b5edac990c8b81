//! The time that a program computed, and all that it started.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// How often the processes are read.
const LOOK: Duration = Duration::from_millis(500);

/// A tick of `/proc/PID/stat`: Linux shows 100 a second to every program.
const TICK: Duration = Duration::from_millis(10);

/// The time of a program and its descendants. A process that ends moves its time to the parent that
/// waits for it, so the largest sum is the time so far. What runs for less than half a second may
/// be missing.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    last: Option<Instant>,
    most: Duration,
}

impl Cpu {
    /// Reads the processes, if the last reading is not a recent one.
    pub(crate) fn look(&mut self, program: u32) {
        if self.last.is_none_or(|last| last.elapsed() >= LOOK) {
            self.last = Some(Instant::now());
            self.most = self.most.max(of_family(program, &processes()));
        }
    }

    /// The time so far.
    pub(crate) fn time(&self) -> Duration {
        self.most
    }
}

/// A line of the process table.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    /// Of the process and of the children that it has waited for.
    time: Duration,
}

/// None where the system has no `/proc`.
fn processes() -> HashMap<u32, Process> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter_map(|id| {
            Some((id, process(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?))
        })
        .collect()
}

/// Reads a line of `/proc/PID/stat`: the name in parentheses may have spaces.
fn process(stat: &str) -> Option<Process> {
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |field: usize| fields.get(field)?.parse::<u32>().ok();
    let ticks = (11..15).map(number).sum::<Option<u32>>()?;
    Some(Process { parent: number(1)?, time: ticks * TICK })
}

/// The times of a process and of all its descendants.
fn of_family(ancestor: u32, processes: &HashMap<u32, Process>) -> Duration {
    let parent = |id: &u32| processes.get(id).map(|process| process.parent);
    let is_of_it = |id: u32| {
        std::iter::successors(Some(id), parent).take(processes.len()).any(|id| id == ancestor)
    };
    processes.iter().filter(|(id, _)| is_of_it(**id)).map(|(_, process)| process.time).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "42 (a ) b (c) S 7 42 42 0 -1 4194304 1 2 3 4 100 20 3000 400 20 0 1 0 99 1 1";
        let time = Duration::from_millis(35_200);
        assert_eq!(process(stat), Some(Process { parent: 7, time }));
        assert_eq!(process("42 (a) S 7"), None);
    }

    #[test]
    fn the_time_of_a_program_is_that_of_all_its_descendants() {
        let second = |parent| Process { parent, time: Duration::from_secs(1) };
        let processes = HashMap::from([
            (1, second(0)),
            (5, second(1)),
            (6, second(5)),
            (7, second(6)),
            (8, second(1)),
        ]);
        assert_eq!(of_family(5, &processes), Duration::from_secs(3));
        assert_eq!(of_family(9, &processes), Duration::ZERO);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_child_has_computed_is_counted() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sh -c 'while :; do :; done'; :"])
            .spawn()
            .unwrap();
        let (id, start, mut cpu) = (child.id(), Instant::now(), Cpu::default());
        while cpu.time() < 3 * TICK {
            assert!(start.elapsed() < Duration::from_secs(500), "no time was seen");
            cpu.last = None;
            cpu.look(id);
        }
        // The shell and the shell in it.
        let family =
            processes().into_iter().filter(|(_, process)| process.parent == id).map(|(id, _)| id);
        for id in family.chain([id]).map(|id| id.to_string()) {
            std::process::Command::new("kill").args(["-KILL", &id]).status().unwrap();
        }
        child.wait().unwrap();
    }
}
