//! The machine of the measurement.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Prevents idle processors from being halted until it is dropped, if this user may. To wake a
/// processor costs more than most of the measured steps, and less on a machine that is busy with
/// other work.
pub(crate) fn keep_awake() -> Option<File> {
    let mut latency = File::options().write(true).open("/dev/cpu_dma_latency").ok()?;
    latency.write_all(&0_u32.to_ne_bytes()).ok()?;
    Some(latency)
}

pub(crate) fn description(is_awake: bool) -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("?", |(_, m)| m);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    let idle = if is_awake { "kept polling" } else { "halted as usual" };
    format!(
        "{cores} × {model}, Linux {}, files on {}; idle processors {idle}; load {load} at the start.",
        kernel.trim(),
        file_system(&std::env::temp_dir())
    )
}

/// The type of the file system where temporary files are.
fn file_system(dir: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let holding = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?)).filter(|(at, _)| dir.starts_with(at))
    });
    holding.max_by_key(|(at, _)| at.len()).map_or("?", |(_, kind)| kind).to_owned()
}
