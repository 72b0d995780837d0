//! The choice of a device over machines that are stated, not found.

use std::{fs, path::PathBuf};

use super::{machine::*, report::Report, *};

fn plain() -> Machine {
    Machine {
        cuda: Backend::NotCompiled,
        metal: Backend::NotCompiled,
        gpus: Vec::new(),
        cuda_visible_devices: None,
    }
}

fn present(kind: &str, count: usize) -> Backend {
    let found = |index| Found {
        name: format!("{kind}:{index}"),
        description: "GPU".into(),
    };
    Backend::Present {
        devices: (0..count).map(found).collect(),
    }
}

/// Stands in for a driver that opens everything, on the CPU.
fn opens(_: Target) -> Attempt<Opened> {
    Ok(Opened {
        device: Device::Cpu,
        capability: Some((8, 0)),
    })
}

fn refuses(target: Target) -> Attempt<Opened> {
    Err(format!("{target} is out of order"))
}

fn reason(spec: DeviceSpec, machine: &Machine) -> String {
    spec.select(machine, opens).unwrap_err().to_string()
}

#[test]
fn words_and_back() {
    for (text, spec, canonical) in [
        ("auto", DeviceSpec::Auto, "auto"),
        ("cpu", DeviceSpec::Cpu, "cpu"),
        ("cuda", DeviceSpec::Cuda(0), "cuda:0"),
        ("cuda:3", DeviceSpec::Cuda(3), "cuda:3"),
        ("gpu", DeviceSpec::Gpu(0), "gpu:0"),
        ("gpu:1", DeviceSpec::Gpu(1), "gpu:1"),
        ("metal:2", DeviceSpec::Metal(2), "metal:2"),
    ] {
        assert_eq!(text.parse::<DeviceSpec>().unwrap(), spec);
        assert_eq!(spec.to_string(), canonical);
        assert_eq!(canonical.parse::<DeviceSpec>().unwrap(), spec);
    }
    for text in [
        "", "CPU", "cpu:0", "auto:0", "cuda:", "cuda:-1", "cuda:x", "cuda0", "rocm", "gpu:1:2", " cpu",
    ] {
        let error = text.parse::<DeviceSpec>().unwrap_err().to_string();
        assert_eq!(
            error,
            format!("device {text}: expected auto, cpu, cuda[:n], gpu[:n] or metal[:n]")
        );
    }
}

#[test]
fn dtypes() {
    assert_eq!(parse_dtype("bf16").unwrap(), DType::BF16);
    assert_eq!(
        parse_dtype("f64").unwrap_err().to_string(),
        "dtype f64: expected f32, f16 or bf16"
    );
    assert_eq!(default_dtype(Target::Cpu, None), DType::F32);
    assert_eq!(default_dtype(Target::Cuda(0), Some((7, 5))), DType::F16);
    assert_eq!(default_dtype(Target::Cuda(0), Some((8, 0))), DType::BF16);
    assert_eq!(default_dtype(Target::Cuda(0), Some((12, 1))), DType::BF16);
    assert_eq!(default_dtype(Target::Cuda(0), None), DType::F16);
    assert_eq!(default_dtype(Target::Metal(0), None), DType::F16);
}

#[test]
fn auto_prefers_cuda_then_metal_then_the_cpu() {
    let both = Machine {
        cuda: present("cuda", 1),
        metal: present("metal", 1),
        ..plain()
    };
    let selected = DeviceSpec::Auto.select(&both, opens).unwrap();
    assert_eq!(
        (selected.name.as_str(), selected.dtype, selected.notice),
        ("cuda:0", DType::BF16, None)
    );

    let broken = Machine {
        cuda: Backend::Unavailable {
            reason: "no driver".into(),
        },
        ..both
    };
    let selected = DeviceSpec::Auto.select(&broken, opens).unwrap();
    assert_eq!(
        (selected.name.as_str(), selected.notice.as_deref()),
        ("metal:0", Some("no driver"))
    );

    let selected = DeviceSpec::Auto.select(&plain(), opens).unwrap();
    assert_eq!(
        (selected.name.as_str(), selected.dtype, selected.notice),
        ("cpu", DType::F32, None)
    );
}

#[test]
fn auto_falls_back_with_every_reason() {
    let both = Machine {
        cuda: present("cuda", 1),
        metal: present("metal", 1),
        ..plain()
    };
    let selected = DeviceSpec::Auto.select(&both, refuses).unwrap();
    let notice = "cuda:0 is out of order; metal:0 is out of order";
    assert_eq!(
        (selected.name.as_str(), selected.notice.as_deref()),
        ("cpu", Some(notice))
    );
}

#[test]
fn idle_gpus_are_pointed_out() {
    let with = |gpus: &[Vendor]| Machine {
        gpus: gpus.to_vec(),
        ..plain()
    };
    let notice = |gpus: &[Vendor]| DeviceSpec::Auto.select(&with(gpus), opens).unwrap().notice.unwrap();
    assert_eq!(
        notice(&[Vendor::Nvidia]),
        "an NVIDIA GPU is present, but this build has no CUDA support: build with --features gpu"
    );
    assert_eq!(
        notice(&[Vendor::Apple]),
        "an Apple GPU is present, but this build has no Metal support: build with --features metal"
    );
    assert_eq!(
        notice(&[Vendor::Amd]),
        "AMD GPU present, only CUDA and Metal are supported"
    );
    assert_eq!(
        notice(&[Vendor::Amd, Vendor::Intel]),
        "AMD and Intel GPU present, only CUDA and Metal are supported"
    );
}

#[test]
fn a_named_device_is_that_device_or_an_error() {
    let machine = Machine {
        cuda: present("cuda", 2),
        cuda_visible_devices: Some("4,5".into()),
        ..plain()
    };
    assert_eq!(DeviceSpec::Cuda(1).select(&machine, opens).unwrap().name, "cuda:1");
    assert_eq!(
        reason(DeviceSpec::Cuda(2), &machine),
        "device cuda:2: no such device, there is only cuda:0, cuda:1 (CUDA_VISIBLE_DEVICES is \"4,5\")"
    );
    assert_eq!(
        reason(DeviceSpec::Metal(0), &machine),
        "device metal:0: this build has no Metal support, which needs a Mac: build there with --features metal"
    );
    let error = DeviceSpec::Cuda(0).select(&machine, refuses).unwrap_err();
    assert_eq!(error.to_string(), "device cuda:0: cuda:0 is out of order");
    assert_eq!(DeviceSpec::Cpu.select(&machine, refuses).unwrap().notice, None);
}

#[test]
fn gpu_is_the_kind_that_is_built_in() {
    let cuda = Machine {
        cuda: present("cuda", 1),
        ..plain()
    };
    let metal = Machine {
        metal: present("metal", 1),
        ..plain()
    };
    let neither_answers = Backend::Unavailable {
        reason: "no driver".into(),
    };
    let both = Machine {
        cuda: neither_answers.clone(),
        ..metal.clone()
    };
    assert_eq!(DeviceSpec::Gpu(0).select(&cuda, opens).unwrap().name, "cuda:0");
    assert_eq!(DeviceSpec::Gpu(0).select(&metal, opens).unwrap().name, "metal:0");
    assert_eq!(DeviceSpec::Gpu(0).select(&both, opens).unwrap().name, "metal:0");
    let broken = Machine {
        cuda: neither_answers,
        ..plain()
    };
    assert_eq!(reason(DeviceSpec::Gpu(0), &broken), "device gpu:0: no driver");
    assert_eq!(
        reason(DeviceSpec::Gpu(0), &plain()),
        "device gpu:0: this build has no CUDA support: build with --features gpu"
    );
    assert!(
        reason(
            DeviceSpec::Gpu(0),
            &Machine {
                gpus: vec![Vendor::Apple],
                ..plain()
            }
        )
        .contains("--features metal")
    );
}

#[test]
fn driver_errors_are_explained() {
    let no_device = "DriverError(CUDA_ERROR_NO_DEVICE, \"no CUDA-capable device is detected\")";
    assert_eq!(
        cuda_reason(no_device, None),
        "no NVIDIA driver or no NVIDIA GPU was found"
    );
    assert_eq!(
        cuda_reason(no_device, Some("")),
        "no CUDA device is visible: CUDA_VISIBLE_DEVICES is empty"
    );
    assert_eq!(
        cuda_reason(no_device, Some("9")),
        "no CUDA device is visible: CUDA_VISIBLE_DEVICES is \"9\""
    );
    assert!(cuda_reason("CUDA_ERROR_INSUFFICIENT_DRIVER", None).contains("update the driver"));
    assert!(cuda_reason("CUDA_ERROR_OUT_OF_MEMORY", None).contains("memory"));
    assert_eq!(cuda_reason("something else\n  at backtrace", None), "something else");
}

#[test]
fn a_panic_becomes_a_reason() {
    let number = 7;
    let fails: fn() -> Attempt<()> = || panic!("no symbol\nmore");
    assert_eq!(guarded(fails).unwrap_err(), "the driver binding panicked: no symbol");
    let formats = || -> Attempt<()> { panic!("code {number}") };
    assert_eq!(guarded(formats).unwrap_err(), "the driver binding panicked: code 7");
    assert_eq!(guarded(|| Ok(1)), Ok(1));
}

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
    assert_eq!(gpus_below(&root.0), [Vendor::Nvidia, Vendor::Intel]);
    let root = Root::new(
        "container",
        &[("proc/driver/nvidia/version", "580"), ("dev/nvidia0", "")],
    );
    assert_eq!(gpus_below(&root.0), [Vendor::Nvidia]);
    assert!(gpus_below(&root.0.join("nowhere")).is_empty());
}

#[test]
fn the_report_says_what_would_help() {
    let machine = Machine {
        gpus: vec![Vendor::Nvidia, Vendor::Amd],
        ..plain()
    };
    let report = Report::new(&machine, &DeviceSpec::Auto.select(&machine, opens).unwrap());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["auto"]["device"], "cpu");
    assert_eq!(json["auto"]["dtype"], "f32");
    assert_eq!(json["gpus"], serde_json::json!(["nvidia", "amd"]));
    assert_eq!(json["backends"][0]["compiled"], false);
    assert_eq!(
        json["backends"][0]["enable"],
        "cargo install --path crates/needle-cli --features gpu"
    );
    assert!(json["backends"][1]["enable"].is_null());
    assert_eq!(
        report.unsupported.as_deref(),
        Some("AMD GPU present, only CUDA and Metal are supported")
    );

    let machine = Machine {
        cuda: present("cuda", 2),
        ..plain()
    };
    let report = Report::new(&machine, &DeviceSpec::Auto.select(&machine, opens).unwrap());
    assert_eq!((report.auto.device.as_str(), report.auto.dtype), ("cuda:0", "bf16"));
    assert_eq!(
        (report.backends[0].devices.len(), &report.backends[0].reason),
        (2, &None)
    );
}

#[test]
fn this_machine_can_be_described_and_computes() {
    let report = report();
    let selected = DeviceSpec::Auto.open().unwrap();
    assert_eq!(report.auto.device, selected.name);
    assert_eq!(DeviceSpec::Cpu.open().unwrap().name, "cpu");
    let compiled: Vec<bool> = report.backends.iter().map(|backend| backend.compiled).collect();
    assert_eq!(compiled, [features().contains(&"gpu"), features().contains(&"metal")]);
}
