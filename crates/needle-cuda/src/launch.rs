//! The only place where a launch becomes a CUDA launch.

use candle_core::{
    CudaDevice, Result,
    cuda_backend::{
        WrapErr,
        cudarc::driver::{CudaFunction, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg},
    },
};
use needle_kernels::{Launch, Params, Unsupported};

use crate::{
    ptx::ptx,
    storage::{Uses, unsupported},
};

const PARAMS_BYTES: usize = 96;

/// A parameter struct by value. The driver copies as many bytes as the compiled kernel declares, and a test holds the
/// kernel's struct to the launch's length.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct ParamBytes([u8; PARAMS_BYTES]);

// SAFETY: plain bytes, read by the driver during the call.
unsafe impl DeviceRepr for ParamBytes {}

impl ParamBytes {
    pub(crate) fn of(params: &Params) -> Self {
        let mut bytes = [0; PARAMS_BYTES];
        bytes.iter_mut().zip(params.bytes()).for_each(|(to, from)| *to = *from);
        Self(bytes)
    }
}

/// The compiled kernel of a launch; candle keeps the module under its name.
pub(crate) fn function<B>(device: &CudaDevice, launch: &Launch<B>) -> Result<CudaFunction> {
    let function = device.get_or_load_custom_func(&launch.kernel, launch.module.name(), ptx(launch.module))?;
    Ok(function.into_cuda_function())
}

/// Puts a launch into the device's stream; `uses` are the buffers whose addresses it holds.
pub(crate) fn launch(
    device: &CudaDevice,
    launch: std::result::Result<Launch<u64>, Unsupported>,
    uses: Uses<'_>,
) -> Result<()> {
    let launch = launch.map_err(unsupported)?;
    let function = function(device, &launch)?;
    let addresses: Vec<u64> = launch.args.iter().map(|arg| *arg.buffer()).collect();
    let params = ParamBytes::of(&launch.params);
    enqueue(&device.cuda_stream(), &function, &addresses, &params, config(&launch))?;
    drop(uses);
    Ok(())
}

pub(crate) fn config<B>(launch: &Launch<B>) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (launch.grid.0, launch.grid.1, 1),
        block_dim: (launch.threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// Puts a kernel into a stream.
pub(crate) fn enqueue(
    stream: &CudaStream,
    function: &CudaFunction,
    addresses: &[u64],
    params: &ParamBytes,
    config: LaunchConfig,
) -> Result<()> {
    let mut builder = stream.launch_builder(function);
    for address in addresses {
        builder.arg(address);
    }
    builder.arg(params);
    // SAFETY: number, order and sizes of the arguments are those of the kernel's text, to which needle-kernels' tests hold
    // every launch; the buffers are as large as its shapes say, and stay alive because the stream frees in order.
    unsafe { builder.launch(config) }.w()?;
    Ok(())
}
