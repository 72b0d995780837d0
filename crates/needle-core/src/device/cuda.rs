//! What the answers of CUDA's libraries mean to a user: a device that can be used, or a reason and what would change it.
//!
//! Pure: [`super::driver`] asks, tests state the answers.

use super::{
    Refusal,
    machine::{Backend, CudaVersions, Found, Vendor},
    system::System,
};

/// Major and minor: of CUDA, or of a compute capability.
pub(super) type Version = (u32, u32);

/// What the libraries say.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    /// The first library that is not there.
    pub(super) missing: Option<String>,
    /// The toolkit of this build.
    pub(super) toolkit: Version,
    /// What the build's kernels are compiled for.
    pub(super) kernels: Option<Kernels>,
    /// The newest CUDA that the driver supports.
    pub(super) driver: Option<Version>,
    /// The version of cuBLAS.
    pub(super) cublas: Option<String>,
    /// The devices, or the driver's error.
    pub(super) devices: Result<Vec<Gpu>, String>,
}

/// The GPUs that compiled kernels run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernels {
    /// The capability that they are compiled for.
    pub(super) capability: Version,
    /// Whether they run on that one alone, as those with an `a` behind their capability do, and not on newer ones too.
    pub(super) only: bool,
}

/// A device as the driver describes it.
#[derive(Clone, Debug)]
pub(super) struct Gpu {
    pub(super) name: String,
    pub(super) memory_bytes: Option<u64>,
    pub(super) capability: Option<Version>,
}

impl Answers {
    pub(super) fn versions(&self) -> CudaVersions {
        CudaVersions {
            toolkit: Some(dotted(self.toolkit)),
            kernels: self.kernels.map(|kernels| kernels.name()),
            driver: self.driver.map(dotted),
            driver_release: None,
            cublas: self.cublas.clone(),
        }
    }
}

impl Kernels {
    /// Reads what a PTX text is for: its line `.target sm_80`, or `.target sm_90a`.
    #[cfg(any(feature = "gpu", test))]
    pub(super) fn of_ptx(text: &str) -> Option<Self> {
        let target = text.lines().find_map(|line| line.strip_prefix(".target sm_"))?;
        let digits: String = target.chars().take_while(char::is_ascii_digit).collect();
        let number: u32 = digits.parse().ok()?;
        Some(Self {
            capability: (number / 10, number % 10),
            only: target[digits.len()..].starts_with(['a', 'f']),
        })
    }

    fn name(self) -> String {
        let (major, minor) = self.capability;
        format!("sm_{major}{minor}{}", if self.only { "a" } else { "" })
    }

    fn refuse(self, capability: Version) -> Option<Refusal> {
        let (needed, found) = (dotted(self.capability), dotted(capability));
        let reason = match self.only {
            _ if capability == self.capability => return None,
            false if capability > self.capability => return None,
            true => format!(
                "compute capability {found} is not supported by this build, whose kernels are for {needed} alone"
            ),
            false => format!("compute capability {found} is not supported by this build, whose kernels need {needed}"),
        };
        let (major, minor) = capability;
        Some(Refusal::of(reason).cured_by(format!(
            "CUDA_COMPUTE_CAP={major}{minor} cargo install --path crates/needle-cli --features gpu"
        )))
    }
}

/// The devices that can be had, or why none can.
pub(super) fn judge(answers: Answers, system: &System, visible: Option<&str>) -> Backend {
    if let Some(library) = &answers.missing {
        return Backend::Unavailable(library_missing(library, answers.toolkit, system));
    }
    if let Some(driver) = answers.driver.filter(|driver| *driver < answers.toolkit) {
        return Backend::Unavailable(driver_too_old(driver, answers.toolkit));
    }
    let gpus = match answers.devices {
        Ok(gpus) if gpus.is_empty() => return Backend::Unavailable(explain("CUDA_ERROR_NO_DEVICE", visible)),
        Ok(gpus) => gpus,
        Err(error) => return Backend::Unavailable(explain(&error, visible)),
    };
    let found = |(index, gpu): (usize, Gpu)| Found {
        name: format!("cuda:{index}"),
        description: gpu.name,
        memory_bytes: gpu.memory_bytes,
        capability: gpu.capability.map(dotted),
        refusal: (gpu.capability.zip(answers.kernels)).and_then(|(capability, kernels)| kernels.refuse(capability)),
    };
    Backend::Present {
        devices: gpus.into_iter().enumerate().map(found).collect(),
    }
}

fn library_missing(library: &str, toolkit: Version, system: &System) -> Refusal {
    let gpu = system.gpus.contains(&Vendor::Nvidia);
    if !library.starts_with("libcuda.") {
        let (major, minor) = toolkit;
        return Refusal::of(format!("the CUDA {major} library {library} was not found"))
            .cured_by(format!("sudo apt-get install cuda-libraries-{major}-{minor}"));
    }
    match (gpu, system.in_container) {
        (true, true) => Refusal::of(format!(
            "an NVIDIA GPU is present, but this container has no driver library ({library})"
        ))
        .cured_by("docker run --gpus all …"),
        (true, false) => Refusal::of(format!(
            "an NVIDIA GPU is present, but its driver library ({library}) was not found"
        ))
        .cured_by(install_driver(toolkit)),
        (false, _) => Refusal::of(format!(
            "no NVIDIA driver library ({library}) and no NVIDIA GPU was found"
        )),
    }
}

fn driver_too_old(driver: Version, toolkit: Version) -> Refusal {
    let (driver, needed) = (dotted(driver), dotted(toolkit));
    Refusal::of(format!(
        "the NVIDIA driver is too old: it supports CUDA {driver}, this build needs {needed}; update it or build with CUDA {driver}"
    ))
    .cured_by(install_driver(toolkit))
}

/// The first driver of each CUDA version, the newest first.
const DRIVERS: [(Version, u32); 11] = [
    ((13, 1), 590),
    ((13, 0), 580),
    ((12, 9), 575),
    ((12, 8), 570),
    ((12, 6), 560),
    ((12, 5), 555),
    ((12, 4), 550),
    ((12, 3), 545),
    ((12, 2), 535),
    ((12, 1), 530),
    ((12, 0), 525),
];

fn install_driver(toolkit: Version) -> String {
    let known = DRIVERS.iter().find(|(version, _)| *version <= toolkit);
    format!(
        "sudo apt-get install nvidia-driver-{}",
        known.map_or(525, |(_, driver)| *driver)
    )
}

/// What an error of the CUDA driver means; `visible` is `CUDA_VISIBLE_DEVICES`.
pub(super) fn explain(error: &str, visible: Option<&str>) -> Refusal {
    let has = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if has(&["ERROR_NO_DEVICE", "ERROR_INVALID_DEVICE"]) {
        let unset = "unset CUDA_VISIBLE_DEVICES";
        match visible {
            Some("") => Refusal::of("no CUDA device is visible: CUDA_VISIBLE_DEVICES is empty").cured_by(unset),
            Some(list) => Refusal::of(format!(
                "no CUDA device is visible: CUDA_VISIBLE_DEVICES is \"{list}\", which names none of this machine's"
            ))
            .cured_by(unset),
            None => Refusal::of("the NVIDIA driver finds no GPU").cured_by("nvidia-smi"),
        }
    } else if has(&["INSUFFICIENT_DRIVER", "UNSUPPORTED_PTX_VERSION", "COMPAT_NOT_SUPPORTED"]) {
        Refusal::of("the NVIDIA driver is too old for this build: update it or build with an older CUDA toolkit")
    } else if has(&["DRIVER_MISMATCH"]) {
        Refusal::of("the NVIDIA driver was updated since the system started: restart it").cured_by("sudo reboot")
    } else if has(&["OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED"]) {
        Refusal::of("out of memory: other programs leave too little on this GPU").cured_by("nvidia-smi")
    } else if has(&["NO_BINARY_FOR_GPU", "INVALID_PTX", "ARCH_MISMATCH"]) {
        Refusal::of(
            "the kernels of this build are not for this GPU: set CUDA_COMPUTE_CAP to its compute capability and build again",
        )
    } else if has(&["DEVICES_UNAVAILABLE", "DEVICE_UNAVAILABLE"]) {
        Refusal::of("another program has this GPU to itself").cured_by("nvidia-smi")
    } else if has(&["SYSTEM_NOT_READY"]) {
        Refusal::of("the GPU's services are not running: the fabric manager, on machines that have one")
            .cured_by("sudo systemctl start nvidia-fabricmanager")
    } else {
        Refusal::of(super::first_line(error))
    }
}

fn dotted((major, minor): Version) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which all is well.
    fn answers() -> Answers {
        Answers {
            missing: None,
            toolkit: (13, 0),
            kernels: Kernels::of_ptx(".version 9.0\n.target sm_80\n.address_size 64"),
            driver: Some((13, 1)),
            cublas: Some("13.1.0".into()),
            devices: Ok(vec![gpu((9, 0))]),
        }
    }

    fn gpu(capability: Version) -> Gpu {
        Gpu {
            name: "GPU".into(),
            memory_bytes: Some(1 << 34),
            capability: Some(capability),
        }
    }

    fn system(gpus: &[Vendor]) -> System {
        System {
            gpus: gpus.to_vec(),
            ..System::default()
        }
    }

    /// Reason and command.
    fn refused(answers: Answers, system: &System, visible: Option<&str>) -> (String, Option<String>) {
        match judge(answers, system, visible) {
            Backend::Unavailable(refusal) => (refusal.reason, refusal.enable),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_answers_is_listed() {
        let Backend::Present { devices } = judge(answers(), &system(&[]), None) else {
            panic!("no device")
        };
        assert_eq!(
            (devices[0].name.as_str(), devices[0].capability.as_deref()),
            ("cuda:0", Some("9.0"))
        );
        assert_eq!(devices[0].refusal, None);
        let versions = answers().versions();
        assert_eq!(
            [versions.toolkit, versions.kernels, versions.driver, versions.cublas].map(Option::unwrap),
            ["13.0", "sm_80", "13.1", "13.1.0"]
        );
    }

    #[test]
    fn a_missing_driver_is_told_from_a_missing_runtime() {
        let without = |library: &str| Answers {
            missing: Some(library.into()),
            devices: Err("CUDA_ERROR_NO_DEVICE".into()),
            ..answers()
        };
        let driver = || without("libcuda.so.1");
        assert_eq!(
            refused(driver(), &system(&[]), None),
            (
                "no NVIDIA driver library (libcuda.so.1) and no NVIDIA GPU was found".into(),
                None
            )
        );
        assert_eq!(
            refused(driver(), &system(&[Vendor::Nvidia]), None),
            (
                "an NVIDIA GPU is present, but its driver library (libcuda.so.1) was not found".into(),
                Some("sudo apt-get install nvidia-driver-580".into())
            )
        );
        let container = System {
            in_container: true,
            ..system(&[Vendor::Nvidia])
        };
        assert_eq!(
            refused(driver(), &container, None),
            (
                "an NVIDIA GPU is present, but this container has no driver library (libcuda.so.1)".into(),
                Some("docker run --gpus all …".into())
            )
        );
        assert_eq!(
            refused(without("libcublas.so.13"), &system(&[Vendor::Nvidia]), None),
            (
                "the CUDA 13 library libcublas.so.13 was not found".into(),
                Some("sudo apt-get install cuda-libraries-13-0".into())
            )
        );
    }

    #[test]
    fn a_driver_older_than_the_toolkit_is_refused() {
        let old = |driver| Answers {
            driver: Some(driver),
            ..answers()
        };
        assert_eq!(
            refused(old((12, 4)), &system(&[]), None),
            (
                "the NVIDIA driver is too old: it supports CUDA 12.4, this build needs 13.0; update it or build with CUDA 12.4".into(),
                Some("sudo apt-get install nvidia-driver-580".into())
            )
        );
        assert!(matches!(
            judge(old((13, 0)), &system(&[]), None),
            Backend::Present { .. }
        ));
    }

    #[test]
    fn nothing_visible_is_the_variables_fault() {
        let hidden = || Answers {
            devices: Err("DriverError(CUDA_ERROR_NO_DEVICE, \"no CUDA-capable device is detected\")".into()),
            ..answers()
        };
        let unset = Some("unset CUDA_VISIBLE_DEVICES".to_owned());
        assert_eq!(
            refused(hidden(), &system(&[]), Some("")),
            (
                "no CUDA device is visible: CUDA_VISIBLE_DEVICES is empty".into(),
                unset.clone()
            )
        );
        assert_eq!(
            refused(hidden(), &system(&[]), Some("9")),
            (
                "no CUDA device is visible: CUDA_VISIBLE_DEVICES is \"9\", which names none of this machine's".into(),
                unset
            )
        );
        assert_eq!(
            refused(hidden(), &system(&[]), None).0,
            "the NVIDIA driver finds no GPU"
        );
        let empty = Answers {
            devices: Ok(Vec::new()),
            ..answers()
        };
        assert_eq!(refused(empty, &system(&[]), None).0, "the NVIDIA driver finds no GPU");
    }

    #[test]
    fn a_gpu_that_the_kernels_are_not_for_is_listed_with_the_reason() {
        let refusal = |ptx: &str, capability| {
            let answers = Answers {
                kernels: Kernels::of_ptx(ptx),
                devices: Ok(vec![gpu(capability)]),
                ..answers()
            };
            let Backend::Present { mut devices } = judge(answers, &system(&[]), None) else {
                panic!("no device")
            };
            devices.remove(0).refusal
        };
        assert_eq!(refusal(".target sm_80", (8, 0)), None);
        assert_eq!(refusal(".target sm_80", (12, 0)), None);
        assert_eq!(refusal(".target sm_90a", (9, 0)), None);
        let old = refusal(".target sm_80", (7, 5)).unwrap();
        assert_eq!(
            (old.reason.as_str(), old.enable.as_deref()),
            (
                "compute capability 7.5 is not supported by this build, whose kernels need 8.0",
                Some("CUDA_COMPUTE_CAP=75 cargo install --path crates/needle-cli --features gpu")
            )
        );
        assert_eq!(
            refusal(".target sm_90a", (10, 0)).unwrap().reason,
            "compute capability 10.0 is not supported by this build, whose kernels are for 9.0 alone"
        );
        assert_eq!(Kernels::of_ptx(""), None);
    }

    #[test]
    fn driver_errors_are_explained() {
        for (error, words) in [
            ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "since the system started"),
            ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "too old"),
            ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
            ("CUBLAS_STATUS_ALLOC_FAILED", "out of memory"),
            ("CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_COMPUTE_CAP"),
            ("CUDA_ERROR_DEVICES_UNAVAILABLE", "another program"),
            ("CUDA_ERROR_SYSTEM_NOT_READY", "fabric manager"),
        ] {
            let reason = explain(error, None).reason;
            assert!(reason.contains(words), "{error}: {reason}");
        }
        assert_eq!(explain("something else\n  at backtrace", None).reason, "something else");
    }
}
