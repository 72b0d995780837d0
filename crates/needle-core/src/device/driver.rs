//! The only code that touches a GPU's driver: asking what is there, and opening a device.
//!
//! Whatever a binding does, a panic included, comes back as a reason.

use std::panic::{AssertUnwindSafe, catch_unwind};

use candle_core::{Device, Tensor};

use super::{
    Attempt, Opened, Refusal, Target,
    cuda::{Answers, explain},
    first_line,
    machine::Backend,
};

/// Opens a device that the machine offers, and computes on it once: a driver refuses kernels only when they are loaded.
pub(super) fn open(target: Target) -> Attempt<Opened> {
    match target {
        Target::Cpu => Ok(Opened {
            device: Device::Cpu,
            capability: None,
        }),
        Target::Cuda(index) => {
            let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            guarded(|| {
                let device = Device::new_cuda_with_stream(index)
                    .map_err(|error| explain(&error.to_string(), visible.as_deref()))?;
                compute(&device).map_err(|error| explain(&error.to_string(), visible.as_deref()))?;
                let capability = capability(&device);
                Ok(Opened { device, capability })
            })
        }
        Target::Metal(index) => guarded(|| {
            let refused = |error: candle_core::Error| Refusal::of(first_line(&error.to_string()));
            let device = Device::new_metal(index).map_err(refused)?;
            compute(&device).map_err(refused)?;
            Ok(Opened {
                device,
                capability: None,
            })
        }),
    }
}

fn compute(device: &Device) -> candle_core::Result<()> {
    let found = Tensor::new(&[3f32], device)?.affine(2.0, 1.0)?.to_vec1::<f32>()?;
    if found != [7.0] {
        candle_core::bail!("the device computes 3 · 2 + 1 = {found:?}");
    }
    Ok(())
}

/// Turns a panic inside a driver binding into a reason. (The process's panic hook still sees it.)
pub(super) fn guarded<T>(call: impl FnOnce() -> Attempt<T>) -> Attempt<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(Refusal::of(format!(
            "the driver binding panicked: {}",
            first_line(text)
        )))
    })
}

/// What CUDA's libraries say; nothing in a build without them.
#[cfg(feature = "gpu")]
pub(super) fn ask_cuda() -> Attempt<Option<Answers>> {
    asking::cuda().map(Some)
}

/// What CUDA's libraries say; nothing in a build without them.
#[cfg(not(feature = "gpu"))]
pub(super) fn ask_cuda() -> Attempt<Option<Answers>> {
    Ok(None)
}

#[cfg(feature = "gpu")]
mod asking {
    use candle_core::cuda_backend::{
        cudarc::{
            cublas::sys::{cublasGetProperty, cublasStatus_t, libraryPropertyType},
            driver::{
                result::{self, DriverError},
                sys::{self, CUdevice_attribute as Attribute},
            },
        },
        kernels,
    };

    use super::super::{
        Attempt,
        cuda::{Answers, Gpu, Kernels, Version},
    };

    pub(super) fn cuda() -> Attempt<Answers> {
        let missing = needle_cuda::missing_library();
        Ok(Answers {
            missing: missing.map(str::to_owned),
            toolkit: toolkit(),
            kernels: Kernels::of_ptx(kernels::AFFINE.ptx()),
            driver: missing.is_none().then(driver).flatten(),
            cublas: missing.is_none().then(cublas).flatten(),
            devices: match missing {
                Some(library) => Err(format!("no {library}")),
                None => devices().map_err(|error| error.to_string()),
            },
        })
    }

    fn toolkit() -> Version {
        let mut numbers = needle_cuda::TOOLKIT.split('.').map_while(|number| number.parse().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    fn driver() -> Option<Version> {
        let mut version = 0;
        // SAFETY: the driver writes one integer.
        let status = unsafe { sys::cuDriverGetVersion(&raw mut version) };
        status.result().ok()?;
        let version = u32::try_from(version).ok()?;
        Some((version / 1000, version % 1000 / 10))
    }

    fn cublas() -> Option<String> {
        let property = |which| {
            let mut value = 0;
            // SAFETY: cuBLAS writes one integer.
            let status = unsafe { cublasGetProperty(which, &raw mut value) };
            (status == cublasStatus_t::CUBLAS_STATUS_SUCCESS).then_some(value)
        };
        let [major, minor, patch] = [
            property(libraryPropertyType::MAJOR_VERSION)?,
            property(libraryPropertyType::MINOR_VERSION)?,
            property(libraryPropertyType::PATCH_LEVEL)?,
        ];
        Some(format!("{major}.{minor}.{patch}"))
    }

    fn devices() -> Result<Vec<Gpu>, DriverError> {
        result::init()?;
        (0..result::device::get_count()?).map(device).collect()
    }

    fn device(index: i32) -> Result<Gpu, DriverError> {
        let device = result::device::get(index)?;
        // SAFETY: the device comes from the driver.
        let attribute = |which| unsafe { result::device::get_attribute(device, which) }.ok();
        let number = |which| attribute(which).and_then(|value| u32::try_from(value).ok());
        let major = number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        let minor = number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        Ok(Gpu {
            name: result::device::get_name(device)?,
            // SAFETY: as above.
            memory_bytes: unsafe { result::device::total_mem(device) }
                .ok()
                .map(|bytes| bytes as u64),
            capability: major.zip(minor),
        })
    }
}

/// The Apple GPUs.
#[cfg(feature = "metal")]
pub(super) fn ask_metal() -> Attempt<Backend> {
    use super::machine::Found;
    // Candle opens a device by its position in this list and does not check the bound.
    let devices = <candle_core::MetalDevice as std::ops::Deref>::Target::all();
    if devices.is_empty() {
        return Err(Refusal::of("Metal shows no GPU"));
    }
    let found = |(index, device): (usize, &<candle_core::MetalDevice as std::ops::Deref>::Target)| Found {
        name: format!("metal:{index}"),
        description: format!("Apple GPU ({})", device.architecture_name()),
        memory_bytes: Some(device.recommended_max_working_set_size() as u64),
        capability: None,
        refusal: None,
    };
    Ok(Backend::Present {
        devices: devices.iter().enumerate().map(found).collect(),
    })
}

/// The Apple GPUs.
#[cfg(not(feature = "metal"))]
pub(super) fn ask_metal() -> Attempt<Backend> {
    Ok(Backend::NotCompiled)
}

/// Memory of an NVIDIA GPU that nothing uses now, in bytes; `None` for other devices.
#[cfg(feature = "gpu")]
pub fn free_memory(device: &Device) -> Option<u64> {
    let stream = device.as_cuda_device().ok()?.cuda_stream();
    let (free_bytes, _) = stream.context().mem_get_info().ok()?;
    Some(free_bytes as u64)
}

/// Memory of an NVIDIA GPU that nothing uses now, in bytes; `None` for other devices.
#[cfg(not(feature = "gpu"))]
pub fn free_memory(_: &Device) -> Option<u64> {
    None
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
