//! What a machine has, as plain facts, and whether a device can be taken from it.

use serde::Serialize;

use super::{Attempt, Refusal, Target, cuda, driver, system};

/// What there is to choose from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// NVIDIA GPUs through CUDA.
    pub cuda: Backend,
    /// Apple GPUs through Metal.
    pub metal: Backend,
    /// Makers of the GPUs that the operating system shows, whether or not anything here can use them.
    pub gpus: Vec<Vendor>,
    /// The variable `CUDA_VISIBLE_DEVICES`, which hides and renumbers CUDA devices.
    pub cuda_visible_devices: Option<String>,
    /// What CUDA this build and this machine have.
    pub versions: CudaVersions,
}

/// State of one kind of GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Backend {
    /// This build does not contain it.
    NotCompiled,
    /// Contained, but no device of it can be had.
    Unavailable(Refusal),
    /// Contained, and these devices answer.
    Present {
        /// The devices, at the position of their number.
        devices: Vec<Found>,
    },
}

/// One device that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The name to ask for it by, such as `cuda:0`.
    pub name: String,
    /// What its driver calls it.
    pub description: String,
    /// Its memory; on Apple GPUs, what a program may use of the memory that they share with the CPU.
    pub memory_bytes: Option<u64>,
    /// The compute capability of an NVIDIA GPU, such as `9.0`.
    pub capability: Option<String>,
    /// Why this build cannot use it all the same.
    pub refusal: Option<Refusal>,
}

/// Versions of CUDA, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CudaVersions {
    /// The toolkit that this build was made with.
    pub toolkit: Option<String>,
    /// What the build's kernels are compiled for, such as `sm_80`.
    pub kernels: Option<String>,
    /// The newest CUDA that the driver supports.
    pub driver: Option<String>,
    /// The version of the driver itself, such as `580.95.05`.
    pub driver_release: Option<String>,
    /// The version of cuBLAS, the part of the runtime that computes products.
    pub cublas: Option<String>,
}

/// Makers of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// NVIDIA: usable through CUDA.
    Nvidia,
    /// AMD: not supported.
    Amd,
    /// Intel: not supported.
    Intel,
    /// Apple: usable through Metal.
    Apple,
}

/// The GPU features that this build contains: `gpu`, `metal` or none.
pub fn features() -> Vec<&'static str> {
    let features = [("gpu", cfg!(feature = "gpu")), ("metal", cfg!(feature = "metal"))];
    features
        .into_iter()
        .filter_map(|(name, compiled)| compiled.then_some(name))
        .collect()
}

impl Machine {
    /// Looks at this machine. Only builds that link a backend ask its driver; the operating system is asked by every build,
    /// so that one without GPU support can still say that a GPU lies idle and what would use it.
    pub fn probe() -> Self {
        let system = system::look("/".as_ref());
        let cuda_visible_devices = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let (cuda, mut versions) = match driver::guarded(driver::ask_cuda) {
            Ok(None) => (Backend::NotCompiled, CudaVersions::default()),
            Ok(Some(answers)) => {
                let versions = answers.versions();
                (cuda::judge(answers, &system, cuda_visible_devices.as_deref()), versions)
            }
            Err(refusal) => (Backend::Unavailable(refusal), CudaVersions::default()),
        };
        versions.driver_release.clone_from(&system.driver_release);
        Self {
            cuda,
            metal: driver::guarded(driver::ask_metal).unwrap_or_else(Backend::Unavailable),
            gpus: system.gpus,
            cuda_visible_devices,
            versions,
        }
    }

    /// Whether `target` is there to be opened, and if not, why.
    pub(super) fn offers(&self, target: Target) -> Attempt<()> {
        let (backend, index) = match target {
            Target::Cpu => return Ok(()),
            Target::Cuda(index) => (&self.cuda, index),
            Target::Metal(index) => (&self.metal, index),
        };
        match backend {
            Backend::NotCompiled => Err(match target {
                Target::Metal(_) => self.no_metal_support(),
                _ => self.no_cuda_support(),
            }),
            Backend::Unavailable(refusal) => Err(refusal.clone()),
            Backend::Present { devices } => match devices.get(index) {
                Some(found) => found.refusal.clone().map_or(Ok(()), Err),
                None => Err(self.no_such_device(target, devices)),
            },
        }
    }

    /// The CUDA device that `auto` tries: the first one that this build can use.
    pub(super) fn first_cuda(&self) -> Target {
        let usable = match &self.cuda {
            Backend::Present { devices } => devices.iter().position(|found| found.refusal.is_none()),
            Backend::NotCompiled | Backend::Unavailable(_) => None,
        };
        Target::Cuda(usable.unwrap_or(0))
    }

    /// Whether a user would expect `target` here: it is built in, or its GPU is seen.
    pub(super) fn is_missed(&self, target: Target) -> bool {
        match target {
            Target::Cpu => false,
            Target::Cuda(_) => self.cuda != Backend::NotCompiled || self.gpus.contains(&Vendor::Nvidia),
            Target::Metal(_) => self.metal != Backend::NotCompiled || self.gpus.contains(&Vendor::Apple),
        }
    }

    /// The sentence for GPUs that nothing here can use.
    pub(super) fn unsupported(&self) -> Option<String> {
        let makers: Vec<&str> = [(Vendor::Amd, "AMD"), (Vendor::Intel, "Intel")]
            .into_iter()
            .filter_map(|(vendor, name)| self.gpus.contains(&vendor).then_some(name))
            .collect();
        (!makers.is_empty()).then(|| {
            format!(
                "{} GPU present, only CUDA and Metal are supported",
                makers.join(" and ")
            )
        })
    }

    /// Why `gpu` means nothing to a build without either kind.
    pub(super) fn no_gpu_support(&self) -> Refusal {
        if self.gpus.contains(&Vendor::Apple) {
            self.no_metal_support()
        } else {
            self.no_cuda_support()
        }
    }

    fn no_cuda_support(&self) -> Refusal {
        let build = "cargo install --path crates/needle-cli --features gpu";
        if self.gpus.contains(&Vendor::Nvidia) {
            Refusal::of("an NVIDIA GPU is present, but this build has no CUDA support: build with --features gpu")
                .cured_by(build)
        } else {
            Refusal::of("this build has no CUDA support: build with --features gpu")
        }
    }

    fn no_metal_support(&self) -> Refusal {
        if self.gpus.contains(&Vendor::Apple) {
            Refusal::of("an Apple GPU is present, but this build has no Metal support: build with --features metal")
                .cured_by("cargo install --path crates/needle-cli --features metal")
        } else {
            Refusal::of("this build has no Metal support, which needs a Mac: build there with --features metal")
        }
    }

    fn no_such_device(&self, target: Target, devices: &[Found]) -> Refusal {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        let visible = match (target, &self.cuda_visible_devices) {
            (Target::Cuda(_), Some(list)) => format!(" (CUDA_VISIBLE_DEVICES is \"{list}\")"),
            _ => String::new(),
        };
        Refusal::of(format!("no such device, there is only {}{visible}", names.join(", ")))
    }
}
