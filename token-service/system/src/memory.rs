//! The memory that the operating system lets this process use.

use std::path::Path;

/// The memory limit of this process, in bytes: the smallest of the limits of its control groups (version 1 or 2), and the
/// memory of the machine. `None` where the system tells neither.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    limit_of(|path| std::fs::read_to_string(path).ok())
}

fn limit_of(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|group| {
        let (_number, group) = group.split_once(':')?;
        let (controllers, group) = group.split_once(':')?;
        let (root, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|one| one == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            return None;
        };
        // A group above may have a smaller limit. In a container, the root is the container's own group.
        let groups = Path::new(group.trim_start_matches('/')).ancestors();
        let limits = groups.filter_map(|group| {
            let limit = read(&Path::new(root).join(group).join(file))?;
            limit.trim().parse().ok()
        });
        limits.min()
    });
    let machine = read(Path::new("/proc/meminfo"));
    let machine = machine.as_deref().and_then(|text| {
        let total = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = total.trim().strip_suffix(" kB")?.parse().ok()?;
        kib.checked_mul(1024)
    });
    limits.chain(machine).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        limit_of(|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn the_smallest_limit_counts() {
        let machine = ("/proc/meminfo", "MemTotal:  2097152 kB\nMemFree: 1 kB\n");
        let version_2 = ("/proc/self/cgroup", "0::/system.slice/gatepass\n");
        let of = |slice, service| {
            limit(&[
                machine,
                version_2,
                ("/sys/fs/cgroup/system.slice/memory.max", slice),
                ("/sys/fs/cgroup/system.slice/gatepass/memory.max", service),
            ])
        };
        assert_eq!(of("max\n", "536870912\n"), Some(512 * MIB));
        assert_eq!(of("268435456\n", "536870912\n"), Some(256 * MIB));
        assert_eq!(of("max\n", "max\n"), Some(2048 * MIB));
        let container = [
            machine,
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "134217728\n"),
        ];
        assert_eq!(limit(&container), Some(128 * MIB));
        let version_1 = [
            machine,
            (
                "/proc/self/cgroup",
                "9:cpu,cpuacct:/a\n4:memory:/docker/1\n0::/\n",
            ),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
        ];
        assert_eq!(limit(&version_1), Some(256 * MIB));
        assert_eq!(limit(&[machine]), Some(2048 * MIB));
        assert_eq!(limit(&[]), None);
        assert!(memory_limit().is_none_or(|limit| limit > MIB));
    }
}
