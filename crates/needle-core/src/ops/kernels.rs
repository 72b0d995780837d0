//! Which form the operations take on a device, with what the device has compiled for them.

use std::fmt;
#[cfg(feature = "metal")]
use std::sync::Arc;

use candle_core::Device;

/// Which form an operation takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpForm {
    /// One kernel an operation, wherever the device has one and no gradient is asked for.
    #[default]
    Fused,
    /// The definitions in tensor operations, everywhere.
    Composed,
}

/// The operations of one device. Cheap to clone.
#[derive(Clone)]
pub struct Kernels {
    form: OpForm,
    #[cfg(feature = "metal")]
    pipelines: Option<Arc<needle_metal::Pipelines>>,
}

impl Kernels {
    /// The operations of a device, in one form.
    #[allow(unused_variables)]
    pub fn of(device: &Device, form: OpForm) -> Self {
        Self {
            form,
            #[cfg(feature = "metal")]
            pipelines: match device {
                Device::Metal(device) => Some(Arc::new(needle_metal::Pipelines::new(device))),
                _ => None,
            },
        }
    }

    /// The form.
    pub fn form(&self) -> OpForm {
        self.form
    }

    /// What Metal has compiled; `None` on another device.
    #[cfg(feature = "metal")]
    pub(super) fn pipelines(&self) -> Option<&Arc<needle_metal::Pipelines>> {
        self.pipelines.as_ref()
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels")
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}
