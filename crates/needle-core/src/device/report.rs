//! What `needle devices` prints: what is built in, what is there, what `auto` takes and why, what would change it.

use serde::Serialize;

use super::{
    Selected, Target, best,
    machine::{self, Backend, Found, Machine, Vendor},
};

/// All that can be said about this machine's devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// CUDA and Metal. The CPU is always there.
    pub backends: Vec<BackendReport>,
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
    /// The command that would make a GPU of this kind usable that is seen but not built for.
    pub enable: Option<&'static str>,
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
}

/// Looks at this machine and tries what `auto` would.
pub fn report() -> Report {
    let machine = Machine::probe();
    let selected = best(&machine, machine::open);
    Report::new(&machine, &selected)
}

impl Report {
    pub(super) fn new(machine: &Machine, selected: &Selected) -> Self {
        let reason = match &selected.notice {
            Some(notice) => notice.clone(),
            None if selected.device.is_cpu() => "no GPU support is built in, and no GPU was seen".to_owned(),
            None => "the first GPU".to_owned(),
        };
        Self {
            backends: vec![
                backend(machine, Target::Cuda(0), "cuda", &machine.cuda),
                backend(machine, Target::Metal(0), "metal", &machine.metal),
            ],
            gpus: machine.gpus.clone(),
            unsupported: machine.unsupported(),
            auto: Auto {
                device: selected.name.clone(),
                dtype: selected.dtype.as_str(),
                reason,
            },
        }
    }
}

fn backend(machine: &Machine, first: Target, name: &'static str, backend: &Backend) -> BackendReport {
    let compiled = *backend != Backend::NotCompiled;
    let enable = match first {
        Target::Metal(_) => "cargo install --path crates/needle-cli --features metal",
        _ => "cargo install --path crates/needle-cli --features gpu",
    };
    BackendReport {
        name,
        compiled,
        devices: match backend {
            Backend::Present { devices } => devices.clone(),
            Backend::NotCompiled | Backend::Unavailable { .. } => Vec::new(),
        },
        reason: machine.offers(first).err(),
        enable: (!compiled && machine.is_missed(first)).then_some(enable),
    }
}
