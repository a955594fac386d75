//! What processes cost, as Linux counts it.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// The time that all threads of a process have spent on a core so far.
///
/// # Errors
///
/// When there is no such process.
pub fn cpu(pid: i32) -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end meanwhile.
        let Ok(stat) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        let spent = stat.split(' ').next().and_then(|spent| spent.parse::<u64>().ok());
        nanos += spent.context("`schedstat` begins with nanoseconds")?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// The memory that a process has in use, in MB.
///
/// # Errors
///
/// When there is no such process.
pub fn memory_mb(pid: i32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: u32 = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .context("`status` tells the resident memory")?
        .trim()
        .parse()?;
    Ok(f64::from(kilobytes) / 1024.0)
}

/// The processor time of all children that were waited for so far, and of theirs.
///
/// # Errors
///
/// When the system does not tell.
pub fn cpu_of_children() -> anyhow::Result<Duration> {
    /// Of Linux on every architecture.
    const TICKS_PER_SECOND: u64 = 100;

    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name before is in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(')').context("a name in parentheses")?;
    let children: Vec<u64> = fields.split_whitespace().skip(13).take(2).flat_map(str::parse).collect();
    Ok(Duration::from_millis(children.iter().sum::<u64>() * 1000 / TICKS_PER_SECOND))
}

/// The machine, for whoever reads the figures.
pub fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |model| model.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores, {model}, Linux {}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_costs_more() {
        let me = i32::try_from(std::process::id()).expect("a small number");
        let before = cpu(me).expect("this process");
        let mut sum = 0_u64;
        while cpu(me).expect("this process") < before + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(memory_mb(me).expect("this process") > 1.0);
    }

    #[test]
    fn children_are_counted_when_they_are_gone() {
        let before = cpu_of_children().expect("counted");
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").args(["-c", busy]).status().expect("`sh` starts");
        assert!(status.success());
        assert!(cpu_of_children().expect("counted") > before);
    }
}
