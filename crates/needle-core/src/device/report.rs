//! What `needle devices` prints: what is built in, what is there, what `auto` takes and why, what would change it.

use serde::Serialize;

use super::{
    Selected, Target, best, driver,
    machine::{Backend, CudaVersions, Found, Machine, Vendor},
};

/// All that can be said about this machine's devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// CUDA and Metal. The CPU is always there.
    pub backends: Vec<BackendReport>,
    /// What CUDA this build and this machine have.
    pub versions: CudaVersions,
    /// The variable `CUDA_VISIBLE_DEVICES`.
    pub cuda_visible_devices: Option<String>,
    /// Makers of the GPUs that the operating system shows.
    pub gpus: Vec<Vendor>,
    /// The sentence for GPUs that nothing here can use.
    pub unsupported: Option<String>,
    /// What `auto` takes.
    pub auto: Auto,
}

/// One kind of GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackendReport {
    /// `cuda` or `metal`.
    pub name: &'static str,
    /// Whether this build contains it.
    pub compiled: bool,
    /// Its devices that answer.
    pub devices: Vec<Found>,
    /// Why none answers.
    pub reason: Option<String>,
    /// The command that would make a GPU of this kind usable, where one is seen or the build is made for one.
    pub enable: Option<String>,
}

/// The choice that `auto` makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Auto {
    /// The device, such as `cpu` or `cuda:0`.
    pub device: String,
    /// The type of weights and activations there: `f32`, `f16` or `bf16`.
    pub dtype: &'static str,
    /// Why this device.
    pub reason: String,
    /// Memory of a GPU that nothing uses now.
    pub free_bytes: Option<u64>,
}

/// Looks at this machine and tries what `auto` would.
pub fn report() -> Report {
    let machine = Machine::probe();
    let selected = best(&machine, driver::open);
    Report::new(&machine, &selected)
}

impl Report {
    pub(super) fn new(machine: &Machine, selected: &Selected) -> Self {
        let reason = match &selected.notice {
            Some(notice) => notice.clone(),
            None if selected.device.is_cpu() => "no GPU support is built in, and no GPU was seen".to_owned(),
            None => "the first GPU that this build can use".to_owned(),
        };
        Self {
            backends: vec![
                backend(machine, Target::Cuda(0), "cuda", &machine.cuda),
                backend(machine, Target::Metal(0), "metal", &machine.metal),
            ],
            versions: machine.versions.clone(),
            cuda_visible_devices: machine.cuda_visible_devices.clone(),
            gpus: machine.gpus.clone(),
            unsupported: machine.unsupported(),
            auto: Auto {
                device: selected.name.clone(),
                dtype: selected.dtype.as_str(),
                reason,
                free_bytes: driver::free_memory(&selected.device),
            },
        }
    }
}

fn backend(machine: &Machine, first: Target, name: &'static str, backend: &Backend) -> BackendReport {
    let devices = match backend {
        Backend::Present { devices } => devices.clone(),
        Backend::NotCompiled | Backend::Unavailable(_) => Vec::new(),
    };
    let refusal = if devices.is_empty() {
        machine.offers(first).err()
    } else {
        None
    };
    BackendReport {
        name,
        compiled: *backend != Backend::NotCompiled,
        devices,
        reason: refusal.as_ref().map(|refusal| refusal.reason.clone()),
        enable: refusal.and_then(|refusal| refusal.enable),
    }
}
