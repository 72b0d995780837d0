//! Choosing where a model computes: the user's words, the device they lead to, and the reason for every fall back.
//!
//! `auto` takes CUDA, then Metal, then the CPU, and says why it had to fall back. A device asked for by name is that device
//! or an error. The choice is made over a [`Machine`], plain facts that tests can state; only opening touches a driver.

#[cfg(all(feature = "gpu", target_vendor = "apple"))]
compile_error!("feature gpu: Apple's systems have no CUDA; take feature metal alone");
#[cfg(all(feature = "metal", not(target_vendor = "apple")))]
compile_error!("feature metal: only Apple's systems have Metal; take feature gpu alone, or neither for the CPU");

mod cuda;
mod driver;
mod examine;
mod machine;
mod memory;
mod refusal;
mod report;
mod system;

use std::{fmt, str::FromStr};

use candle_core::{DType, Device};
use serde::{Serialize, Serializer};

pub use self::{
    driver::free_memory,
    examine::{Check, examine},
    machine::{Backend, CudaVersions, Found, Machine, Vendor, features},
    memory::peak_ram_mb,
    refusal::Refusal,
    report::{Auto, BackendReport, Report, report},
};
use crate::error::{Error, Result};

/// A device as the user asks for it: `auto`, `cpu`, `cuda[:n]`, `gpu[:n]` or `metal[:n]`, `n` from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceSpec {
    /// The best there is: CUDA, then Metal, then the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The NVIDIA GPU of this number, as `CUDA_VISIBLE_DEVICES` counts them.
    Cuda(usize),
    /// The GPU of this number of whichever kind this build supports.
    Gpu(usize),
    /// The Apple GPU of this number.
    Metal(usize),
}

impl DeviceSpec {
    /// Opens the device on this machine.
    ///
    /// # Errors
    /// [`Error::Device`] with the reason, when a device asked for by name cannot be had. `auto` and `cpu` never fail.
    pub fn open(self) -> Result<Selected> {
        match self {
            // Whoever asks for the CPU may do so because a driver misbehaves: leave them all alone.
            Self::Cpu => Ok(Selected::cpu()),
            _ => self.select(&Machine::probe(), driver::open),
        }
    }

    /// Decides over the facts in `machine`; `open` has the last word on each candidate.
    fn select(self, machine: &Machine, open: impl Fn(Target) -> Attempt<Opened>) -> Result<Selected> {
        let target = match (self, &machine.cuda, &machine.metal) {
            (Self::Auto, _, _) => return Ok(best(machine, open)),
            (Self::Cpu, _, _) => return Ok(Selected::cpu()),
            (Self::Cuda(index), _, _) => Target::Cuda(index),
            (Self::Metal(index), _, _) => Target::Metal(index),
            (Self::Gpu(_), Backend::NotCompiled, Backend::NotCompiled) => {
                return Err(self.refused(machine.no_gpu_support()));
            }
            (Self::Gpu(index), Backend::Present { .. }, _) | (Self::Gpu(index), _, Backend::NotCompiled) => {
                Target::Cuda(index)
            }
            (Self::Gpu(index), _, _) => Target::Metal(index),
        };
        let opened = machine.offers(target).and_then(|()| open(target));
        Ok(Selected::new(target, opened.map_err(|refusal| self.refused(refusal))?))
    }

    fn refused(self, refusal: Refusal) -> Error {
        Error::Device {
            device: self.to_string(),
            reason: refusal.reason,
        }
    }
}

/// A step towards a device: what it yields, or the reason why not.
type Attempt<T> = std::result::Result<T, Refusal>;

/// The first of CUDA, Metal and the CPU that opens, with the reasons against the earlier ones.
fn best(machine: &Machine, open: impl Fn(Target) -> Attempt<Opened>) -> Selected {
    let mut reasons = Vec::new();
    for target in [machine.first_cuda(), Target::Metal(0)] {
        match machine.offers(target).and_then(|()| open(target)) {
            Ok(opened) => return Selected::new(target, opened).noting(reasons),
            Err(refusal) => reasons.extend(machine.is_missed(target).then_some(refusal.reason)),
        }
    }
    reasons.extend(machine.unsupported());
    Selected::cpu().noting(reasons)
}

impl FromStr for DeviceSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, index) = match text.split_once(':') {
            Some((kind, index)) => (kind, index.parse().ok()),
            None => (text, Some(0)),
        };
        match (kind, index) {
            ("auto", _) if text == kind => Ok(Self::Auto),
            ("cpu", _) if text == kind => Ok(Self::Cpu),
            ("cuda", Some(index)) => Ok(Self::Cuda(index)),
            ("gpu", Some(index)) => Ok(Self::Gpu(index)),
            ("metal", Some(index)) => Ok(Self::Metal(index)),
            _ => Err(Error::Device {
                device: text.to_owned(),
                reason: "expected auto, cpu, cuda[:n], gpu[:n] or metal[:n]".to_owned(),
            }),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Gpu(index) => write!(f, "gpu:{index}"),
            Self::Metal(index) => write!(f, "metal:{index}"),
        }
    }
}

impl Serialize for DeviceSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An open device and what to say about it.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The device, for candle.
    pub device: Device,
    /// Its name in the words of [`DeviceSpec`]: `cpu`, `cuda:0`, `metal:0`.
    pub name: String,
    /// The type that weights and activations have there unless the user asks for another one.
    pub dtype: DType,
    /// Why `auto` took nothing better, where something better is built in or seen.
    pub notice: Option<String>,
}

impl Selected {
    fn new(target: Target, opened: Opened) -> Self {
        Self {
            device: opened.device,
            name: target.to_string(),
            dtype: default_dtype(target, opened.capability),
            notice: None,
        }
    }

    fn cpu() -> Self {
        Self::new(
            Target::Cpu,
            Opened {
                device: Device::Cpu,
                capability: None,
            },
        )
    }

    fn noting(mut self, reasons: Vec<String>) -> Self {
        self.notice = (!reasons.is_empty()).then(|| reasons.join("; "));
        self
    }
}

/// Says of an error of a GPU's driver, met while computing on `selected`, what it means; leaves others as they are.
pub(crate) fn explained(error: Error, selected: &Selected) -> Error {
    match error {
        Error::Candle(error) if !selected.device.is_cpu() && error.to_string().contains("CUDA_ERROR") => {
            Error::Device {
                device: selected.name.clone(),
                reason: cuda::explain(&error.to_string(), None).reason,
            }
        }
        other => other,
    }
}

/// Reads a data type of weights and activations: `f32`, `f16` or `bf16`.
///
/// # Errors
/// [`Error::Unsupported`] names the word and the three that are known.
pub fn parse_dtype(text: &str) -> Result<DType> {
    match text {
        "f32" => Ok(DType::F32),
        "f16" => Ok(DType::F16),
        "bf16" => Ok(DType::BF16),
        _ => Err(Error::Unsupported(format!("dtype {text}: expected f32, f16 or bf16"))),
    }
}

/// A device that can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Cpu,
    Cuda(usize),
    Metal(usize),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => DeviceSpec::Cpu.fmt(f),
            Self::Cuda(index) => DeviceSpec::Cuda(*index).fmt(f),
            Self::Metal(index) => DeviceSpec::Metal(*index).fmt(f),
        }
    }
}

/// What opening yields: the device, and the compute capability (major, minor) of a CUDA one.
#[derive(Debug)]
struct Opened {
    device: Device,
    capability: Option<(u32, u32)>,
}

/// bf16 has f32's range and needs no care with overflow, but NVIDIA computes in it from capability 8.0 on and Metal's
/// support depends on the chip; CPUs are fastest and exact in f32.
fn default_dtype(target: Target, capability: Option<(u32, u32)>) -> DType {
    match (target, capability) {
        (Target::Cpu, _) => DType::F32,
        (Target::Cuda(_), Some((8.., _))) => DType::BF16,
        (Target::Cuda(_) | Target::Metal(_), _) => DType::F16,
    }
}

/// Candle appends a backtrace to its errors where one is asked for.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
