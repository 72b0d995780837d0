//! What a machine has, as plain facts, and how they are found out.
//!
//! Drivers are only asked by builds that link their backend. The operating system is asked by every build, so that one
//! without GPU support can still say that a GPU lies idle and what would use it.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use candle_core::Device;
use serde::Serialize;

use super::{Attempt, Opened, Target};

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
}

/// State of one kind of GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Backend {
    /// This build does not contain it.
    NotCompiled,
    /// Contained, but no device of it can be had.
    Unavailable {
        /// Why.
        reason: String,
    },
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

/// The GPU features that this build contains: `gpu`, `metal`, both or none.
pub fn features() -> Vec<&'static str> {
    let features = [("gpu", cfg!(feature = "gpu")), ("metal", cfg!(feature = "metal"))];
    features
        .into_iter()
        .filter_map(|(name, compiled)| compiled.then_some(name))
        .collect()
}

impl Machine {
    /// Looks at this machine.
    pub fn probe() -> Self {
        let cuda_visible_devices = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        Self {
            cuda: guarded(cuda_devices).unwrap_or_else(|error| Backend::Unavailable {
                reason: cuda_reason(&error, cuda_visible_devices.as_deref()),
            }),
            metal: guarded(metal_devices).unwrap_or_else(|reason| Backend::Unavailable { reason }),
            gpus: gpus_below(Path::new("/")),
            cuda_visible_devices,
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
            Backend::Unavailable { reason } => Err(reason.clone()),
            Backend::Present { devices } if index < devices.len() => Ok(()),
            Backend::Present { devices } => {
                let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
                let visible = match (target, &self.cuda_visible_devices) {
                    (Target::Cuda(_), Some(list)) => format!(" (CUDA_VISIBLE_DEVICES is \"{list}\")"),
                    _ => String::new(),
                };
                Err(format!("no such device, there is only {}{visible}", names.join(", ")))
            }
        }
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
    pub(super) fn no_gpu_support(&self) -> String {
        if self.gpus.contains(&Vendor::Apple) {
            self.no_metal_support()
        } else {
            self.no_cuda_support()
        }
    }

    fn no_cuda_support(&self) -> String {
        let seen = if self.gpus.contains(&Vendor::Nvidia) {
            "an NVIDIA GPU is present, but "
        } else {
            ""
        };
        format!("{seen}this build has no CUDA support: build with --features gpu")
    }

    fn no_metal_support(&self) -> String {
        if self.gpus.contains(&Vendor::Apple) {
            "an Apple GPU is present, but this build has no Metal support: build with --features metal".to_owned()
        } else {
            "this build has no Metal support, which needs a Mac: build there with --features metal".to_owned()
        }
    }
}

/// Opens a device that [`Machine::offers`].
pub(super) fn open(target: Target) -> Attempt<Opened> {
    match target {
        Target::Cpu => Ok(Opened {
            device: Device::Cpu,
            capability: None,
        }),
        Target::Cuda(index) => {
            let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            let opened = guarded(|| {
                let device = Device::new_cuda(index).map_err(|error| error.to_string())?;
                let capability = capability(&device);
                Ok(Opened { device, capability })
            });
            opened.map_err(|error| cuda_reason(&error, visible.as_deref()))
        }
        Target::Metal(index) => guarded(|| {
            let device = Device::new_metal(index).map_err(|error| first_line(&error.to_string()).to_owned())?;
            Ok(Opened {
                device,
                capability: None,
            })
        }),
    }
}

#[cfg(feature = "gpu")]
fn cuda_devices() -> Attempt<Backend> {
    use candle_core::cuda_backend::cudarc::driver::result;
    let error = |error: result::DriverError| error.to_string();
    result::init().map_err(error)?;
    let mut devices = Vec::new();
    for index in 0..result::device::get_count().map_err(error)? {
        let device = result::device::get(index).map_err(error)?;
        devices.push(Found {
            name: format!("cuda:{index}"),
            description: result::device::get_name(device).map_err(error)?,
        });
    }
    if devices.is_empty() {
        return Err("CUDA_ERROR_NO_DEVICE".to_owned());
    }
    Ok(Backend::Present { devices })
}

#[cfg(not(feature = "gpu"))]
fn cuda_devices() -> Attempt<Backend> {
    Ok(Backend::NotCompiled)
}

#[cfg(feature = "metal")]
fn metal_devices() -> Attempt<Backend> {
    // Candle opens a device by its position in this list and does not check the bound.
    let count = <candle_core::MetalDevice as std::ops::Deref>::Target::all().len();
    if count == 0 {
        return Err("Metal shows no GPU".to_owned());
    }
    let found = |index| Found {
        name: format!("metal:{index}"),
        description: "Apple GPU".to_owned(),
    };
    Ok(Backend::Present {
        devices: (0..count).map(found).collect(),
    })
}

#[cfg(not(feature = "metal"))]
fn metal_devices() -> Attempt<Backend> {
    Ok(Backend::NotCompiled)
}

#[cfg(feature = "gpu")]
fn capability(device: &Device) -> Option<(u32, u32)> {
    let stream = device.as_cuda_device().ok()?.cuda_stream();
    let (major, minor) = stream.context().compute_capability().ok()?;
    Some((major.try_into().ok()?, minor.try_into().ok()?))
}

#[cfg(not(feature = "gpu"))]
fn capability(_: &Device) -> Option<(u32, u32)> {
    None
}

/// Turns a panic inside a driver binding into a reason. (The process's panic hook still sees it.)
pub(super) fn guarded<T>(call: impl FnOnce() -> Attempt<T>) -> Attempt<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(format!("the driver binding panicked: {}", first_line(text)))
    })
}

/// What an error of the CUDA driver means to a user; `visible` is `CUDA_VISIBLE_DEVICES`.
pub(super) fn cuda_reason(error: &str, visible: Option<&str>) -> String {
    let has = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if has(&["ERROR_NO_DEVICE"]) {
        match visible {
            Some("") => "no CUDA device is visible: CUDA_VISIBLE_DEVICES is empty".to_owned(),
            Some(list) => format!("no CUDA device is visible: CUDA_VISIBLE_DEVICES is \"{list}\""),
            None => "no NVIDIA driver or no NVIDIA GPU was found".to_owned(),
        }
    } else if has(&["INSUFFICIENT_DRIVER", "DRIVER_MISMATCH", "UNSUPPORTED_PTX_VERSION"]) {
        let cure = "update the driver or build with an older CUDA toolkit";
        format!("the NVIDIA driver does not fit this build's CUDA version: {cure}")
    } else if has(&["OUT_OF_MEMORY"]) {
        "the GPU has not enough free memory".to_owned()
    } else {
        first_line(error).to_owned()
    }
}

/// Candle appends a backtrace to its errors where one is asked for.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// GPUs that the operating system shows below `root`, without asking a driver.
pub(super) fn gpus_below(root: &Path) -> Vec<Vendor> {
    let mut gpus = pci_gpus(&root.join("sys/bus/pci/devices"));
    let marks = [
        // A container shows the driver's files where it hides the bus.
        ("proc/driver/nvidia/version", Vendor::Nvidia),
        ("dev/nvidia0", Vendor::Nvidia),
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

fn pci_gpus(bus: &Path) -> Vec<Vendor> {
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
