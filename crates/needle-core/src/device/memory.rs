//! The process's memory, as the operating system counts it.

/// Largest resident memory of the process so far, in megabytes (10⁶ bytes); `None` where the system does not tell.
pub fn peak_ram_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_running_process_has_memory() {
        assert!(super::peak_ram_mb().is_some_and(|mb| mb > 1.0));
    }
}
