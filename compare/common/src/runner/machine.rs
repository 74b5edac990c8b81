//! The machine of the measurement.

use std::fs::{self, File};
use std::io::Write;

/// Keeps idle processors awake until the result is dropped, if the user has the right. To wake a
/// processor costs as much as a whole request to Redis, and less on a busy machine.
pub fn keep_awake() -> Option<File> {
    let mut latency = File::options().write(true).open("/dev/cpu_dma_latency").ok()?;
    latency.write_all(&0_u32.to_ne_bytes()).ok()?;
    Some(latency)
}

/// Processors, kernel, and the state of idle processors.
pub fn description(is_awake: bool) -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("?", |(_, m)| m);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let idle = if is_awake {
        "kept polling"
    } else {
        "halted as usual, so that each wake-up costs more than a request (only root may change that)"
    };
    format!(
        "{cores} × {model}, Linux {}, all on loopback; idle processors {idle}; load {} at the start.",
        kernel.trim(),
        load()
    )
}

/// The load of the last minute.
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("?").to_owned()
}
