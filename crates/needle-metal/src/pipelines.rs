//! Compiled kernels of one device.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use candle_core::{MetalDevice, MetalError, Result, bail};
use candle_metal_kernels::metal::{ComputePipeline, Library};
use needle_kernels::{Launch, Module};
use objc2_metal::{MTLCompileOptions, MTLComputePipelineState};

/// SIMD groups must be of this width: on Apple's GPUs they are.
const SIMD: usize = needle_kernels::ops::SIMD as usize;

/// Kernels of one device, compiled when they are first asked for.
pub struct Pipelines {
    device: MetalDevice,
    compiled: Mutex<Compiled>,
}

#[derive(Default)]
struct Compiled {
    libraries: HashMap<Module, Library>,
    pipelines: HashMap<String, ComputePipeline>,
}

impl Pipelines {
    /// None yet.
    pub fn new(device: &MetalDevice) -> Self {
        Self {
            device: device.clone(),
            compiled: Mutex::default(),
        }
    }

    /// The device that the kernels are compiled for.
    pub fn device(&self) -> &MetalDevice {
        &self.device
    }

    /// The kernel of a launch.
    ///
    /// # Errors
    /// When Metal refuses the text, or the GPU cannot run the kernel as it is launched.
    pub(crate) fn pipeline<B>(&self, launch: &Launch<B>) -> Result<ComputePipeline> {
        let mut compiled = self.compiled();
        if let Some(pipeline) = compiled.pipelines.get(&launch.kernel) {
            return Ok(pipeline.clone());
        }
        let library = match compiled.libraries.get(&launch.module) {
            Some(library) => library.clone(),
            None => {
                let library = self.compile(launch.module)?;
                compiled.libraries.insert(launch.module, library.clone());
                library
            }
        };
        let function = library.get_function(&launch.kernel, None).map_err(MetalError::from)?;
        let device = self.device.metal_device();
        let pipeline = device
            .new_compute_pipeline_state_with_function(&function)
            .map_err(MetalError::from)?;
        let width = pipeline.as_ref().threadExecutionWidth();
        let most = pipeline.max_total_threads_per_threadgroup();
        if width != SIMD || most < launch.threads as usize {
            let (kernel, threads) = (&launch.kernel, launch.threads);
            bail!("{kernel}: needs SIMD groups of {SIMD} and {threads} threads, this GPU has {width} and {most}");
        }
        compiled.pipelines.insert(launch.kernel.clone(), pipeline.clone());
        Ok(pipeline)
    }

    fn compile(&self, module: Module) -> Result<Library> {
        let options = MTLCompileOptions::new();
        // Fast mathematics is Metal's default and may reorder sums; our tolerances are those of exact ones.
        #[allow(deprecated)]
        options.setFastMathEnabled(false);
        let library = self
            .device
            .metal_device()
            .new_library_with_source(&module.metal(), Some(&options));
        Ok(library.map_err(MetalError::from)?)
    }

    // What a panicking thread left is a map of finished entries: it can be used.
    fn compiled(&self) -> MutexGuard<'_, Compiled> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
