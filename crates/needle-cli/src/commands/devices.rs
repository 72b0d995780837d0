//! `needle devices`: what is built in, what is there, what `auto` takes and why.

use std::io::{self, Write};

use anyhow::Result;
use needle_core::device::{self, BackendReport, CudaVersions, Found, Report};

use crate::args::DevicesArgs;

pub(crate) fn run(args: &DevicesArgs) -> Result<()> {
    let report = device::report();
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
        return Ok(());
    }
    write(&mut out, &report)?;
    Ok(())
}

/// The report as lines, the name of what each is about in front.
pub(super) fn write(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let auto = &report.auto;
    let free = auto.free_bytes.map(|bytes| format!(", {} free", gib(bytes)));
    let free = free.unwrap_or_default();
    writeln!(out, "auto   {} {}{free}: {}", auto.device, auto.dtype, auto.reason)?;
    writeln!(out, "cpu    always there")?;
    for backend in &report.backends {
        write_backend(out, backend)?;
        if backend.name == "cuda" {
            for line in versions(&report.versions) {
                writeln!(out, "       {line}")?;
            }
        }
    }
    if let Some(list) = &report.cuda_visible_devices {
        writeln!(out, "note   CUDA_VISIBLE_DEVICES is \"{list}\"")?;
    }
    if let Some(note) = &report.unsupported {
        writeln!(out, "note   {note}")?;
    }
    Ok(())
}

fn write_backend(out: &mut impl Write, backend: &BackendReport) -> io::Result<()> {
    let built = if backend.compiled { "built in" } else { "not built in" };
    let state = match (&backend.reason, backend.devices.len()) {
        (Some(reason), _) => reason.clone(),
        (None, 1) => "one device".to_owned(),
        (None, count) => format!("{count} devices"),
    };
    writeln!(out, "{:<6} {built}; {state}", backend.name)?;
    if let Some(command) = &backend.enable {
        writeln!(out, "       to use it: {command}")?;
    }
    for found in &backend.devices {
        writeln!(out, "       {}", described(found))?;
        if let Some(refusal) = &found.refusal {
            writeln!(out, "         not used: {}", refusal.reason)?;
            if let Some(command) = &refusal.enable {
                writeln!(out, "         to use it: {command}")?;
            }
        }
    }
    Ok(())
}

fn described(found: &Found) -> String {
    let memory = found.memory_bytes.map(|bytes| format!(", {}", gib(bytes)));
    let capability = found
        .capability
        .as_ref()
        .map(|version| format!(", compute capability {version}"));
    let [memory, capability] = [memory, capability].map(Option::unwrap_or_default);
    format!("{} {}{memory}{capability}", found.name, found.description)
}

fn versions(versions: &CudaVersions) -> Vec<String> {
    let built = versions.toolkit.as_ref().map(|toolkit| {
        let kernels = versions
            .kernels
            .as_ref()
            .map(|kernels| format!(", kernels for {kernels}"));
        format!("built with CUDA {toolkit}{}", kernels.unwrap_or_default())
    });
    let driver = match (&versions.driver_release, &versions.driver) {
        (Some(release), Some(cuda)) => Some(format!("driver {release}, up to CUDA {cuda}")),
        (None, Some(cuda)) => Some(format!("driver for CUDA up to {cuda}")),
        (Some(release), None) => Some(format!("driver {release}")),
        (None, None) => None,
    };
    let cublas = versions.cublas.as_ref().map(|version| format!("cuBLAS {version}"));
    [built, driver, cublas].into_iter().flatten().collect()
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use needle_core::device::{Auto, Refusal, Vendor};

    use super::*;

    fn printed(report: &Report) -> String {
        let mut out = Vec::new();
        write(&mut out, report).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn backend(name: &'static str, compiled: bool, reason: &str, enable: Option<&str>) -> BackendReport {
        BackendReport {
            name,
            compiled,
            devices: Vec::new(),
            reason: Some(reason.into()),
            enable: enable.map(Into::into),
        }
    }

    #[test]
    fn a_machine_whose_gpu_lies_idle() {
        let report = Report {
            backends: vec![
                backend("cuda", false, "this build has no CUDA support", Some("cargo install")),
                backend("metal", false, "this build has no Metal support", None),
            ],
            versions: CudaVersions {
                driver_release: Some("580.95.05".into()),
                ..CudaVersions::default()
            },
            cuda_visible_devices: Some(String::new()),
            gpus: vec![Vendor::Nvidia, Vendor::Amd],
            unsupported: Some("AMD GPU present".into()),
            auto: Auto {
                device: "cpu".into(),
                dtype: "f32",
                reason: "no CUDA support".into(),
                free_bytes: None,
            },
        };
        let expected = "\
auto   cpu f32: no CUDA support
cpu    always there
cuda   not built in; this build has no CUDA support
       to use it: cargo install
       driver 580.95.05
metal  not built in; this build has no Metal support
note   CUDA_VISIBLE_DEVICES is \"\"
note   AMD GPU present
";
        assert_eq!(printed(&report), expected);
    }

    #[test]
    fn a_machine_with_two_gpus_of_which_one_is_too_old() {
        let found = |name: &str, capability: &str, gib: u64| Found {
            name: name.into(),
            description: "NVIDIA GPU".into(),
            memory_bytes: Some(gib << 30),
            capability: Some(capability.into()),
            refusal: None,
        };
        let old = Found {
            refusal: Some(Refusal {
                reason: "too old".into(),
                enable: Some("CUDA_COMPUTE_CAP=61 cargo install".into()),
            }),
            ..found("cuda:1", "6.1", 8)
        };
        let report = Report {
            backends: vec![
                BackendReport {
                    name: "cuda",
                    compiled: true,
                    devices: vec![found("cuda:0", "9.0", 140), old],
                    reason: None,
                    enable: None,
                },
                backend("metal", false, "this build has no Metal support", None),
            ],
            versions: CudaVersions {
                toolkit: Some("13.0".into()),
                kernels: Some("sm_80".into()),
                driver: Some("13.0".into()),
                driver_release: Some("580.95.05".into()),
                cublas: Some("13.0.2".into()),
            },
            cuda_visible_devices: None,
            gpus: vec![Vendor::Nvidia],
            unsupported: None,
            auto: Auto {
                device: "cuda:0".into(),
                dtype: "bf16",
                reason: "the first GPU".into(),
                free_bytes: Some(139 << 30),
            },
        };
        let expected = "\
auto   cuda:0 bf16, 139.0 GiB free: the first GPU
cpu    always there
cuda   built in; 2 devices
       cuda:0 NVIDIA GPU, 140.0 GiB, compute capability 9.0
       cuda:1 NVIDIA GPU, 8.0 GiB, compute capability 6.1
         not used: too old
         to use it: CUDA_COMPUTE_CAP=61 cargo install
       built with CUDA 13.0, kernels for sm_80
       driver 580.95.05, up to CUDA 13.0
       cuBLAS 13.0.2
metal  not built in; this build has no Metal support
";
        assert_eq!(printed(&report), expected);
    }
}
