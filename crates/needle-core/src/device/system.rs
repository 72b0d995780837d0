//! What the operating system shows of GPUs, without asking a driver.

use std::{fs, path::Path};

use super::machine::Vendor;

/// What there is to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct System {
    /// Makers of the GPUs, each once.
    pub(super) gpus: Vec<Vendor>,
    /// The version of NVIDIA's kernel module.
    pub(super) driver_release: Option<String>,
    /// Whether this is a container, to which its host lends GPUs or not.
    pub(super) in_container: bool,
}

/// Looks below `root`.
pub(super) fn look(root: &Path) -> System {
    let marks = [".dockerenv", "run/.containerenv"];
    System {
        gpus: gpus(root),
        driver_release: driver_release(root),
        in_container: marks.iter().any(|mark| root.join(mark).exists()),
    }
}

fn gpus(root: &Path) -> Vec<Vendor> {
    let mut gpus = on_bus(&root.join("sys/bus/pci/devices"));
    let marks = [
        // A container shows the driver's files where it hides the bus.
        ("proc/driver/nvidia/version", Vendor::Nvidia),
        ("dev/nvidia0", Vendor::Nvidia),
        ("usr/lib/wsl/lib/libcuda.so.1", Vendor::Nvidia),
        ("Windows/System32/nvcuda.dll", Vendor::Nvidia),
        ("dev/kfd", Vendor::Amd),
        ("System/Library/Frameworks/Metal.framework", Vendor::Apple),
    ];
    gpus.extend(
        marks
            .into_iter()
            .filter(|(path, _)| root.join(path).exists())
            .map(|(_, vendor)| vendor),
    );
    gpus.sort_unstable();
    gpus.dedup();
    gpus
}

fn on_bus(bus: &Path) -> Vec<Vendor> {
    let devices = fs::read_dir(bus).into_iter().flatten().flatten();
    let vendor = |device: fs::DirEntry| {
        let read = |name| fs::read_to_string(device.path().join(name)).ok();
        let display_controller = read("class")?.starts_with("0x03");
        match read("vendor")?.trim() {
            "0x10de" if display_controller => Some(Vendor::Nvidia),
            "0x1002" if display_controller => Some(Vendor::Amd),
            "0x8086" if display_controller => Some(Vendor::Intel),
            _ => None,
        }
    };
    devices.filter_map(vendor).collect()
}

/// The first word of the driver's own line that looks like its version: `… Kernel Module for x86_64  580.95.05  Release …`.
fn driver_release(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("proc/driver/nvidia/version")).ok()?;
    let is_release = |word: &&str| word.contains('.') && word.chars().all(|char| char.is_ascii_digit() || char == '.');
    Some(text.lines().next()?.split_whitespace().find(is_release)?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder laid out like a system's root, removed at the end.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("needle-device-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn gpus_are_seen_without_a_driver() {
        let bus = "sys/bus/pci/devices";
        let root = Root::new(
            "bus",
            &[
                (&format!("{bus}/0000:00:02.0/class"), "0x030000\n"),
                (&format!("{bus}/0000:00:02.0/vendor"), "0x8086\n"),
                (&format!("{bus}/0000:01:00.0/class"), "0x030200\n"),
                (&format!("{bus}/0000:01:00.0/vendor"), "0x10de\n"),
                // A network card of the same maker is no GPU.
                (&format!("{bus}/0000:02:00.0/class"), "0x020000\n"),
                (&format!("{bus}/0000:02:00.0/vendor"), "0x1002\n"),
            ],
        );
        let seen = look(&root.0);
        assert_eq!(
            (seen.gpus.as_slice(), seen.in_container),
            ([Vendor::Nvidia, Vendor::Intel].as_slice(), false)
        );
        assert_eq!(look(&root.0.join("nowhere")), System::default());
    }

    #[test]
    fn a_container_and_its_driver_are_recognised() {
        let line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\nGCC version:  12.2.0\n";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build\n";
        for (name, line, release) in [("closed", line, "580.95.05"), ("open", open, "575.57.08")] {
            let root = Root::new(name, &[("proc/driver/nvidia/version", line), (".dockerenv", "")]);
            let expected = System {
                gpus: vec![Vendor::Nvidia],
                driver_release: Some(release.into()),
                in_container: true,
            };
            assert_eq!(look(&root.0), expected);
        }
    }
}
