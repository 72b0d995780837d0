//! A launch on raw bytes: what a check needs to run needle-kernels' cases on the GPU.

use candle_core::{CudaDevice, Result};
use needle_kernels::Launch;

use crate::{
    launch::{ParamBytes, config, enqueue, function},
    storage::address,
};

/// Copies `buffers` to the device, runs `launch`, whose buffers are numbers of theirs, and copies them back.
///
/// # Errors
/// When there is no such buffer or kernel, or the device refuses.
pub fn run_on_bytes(device: &CudaDevice, launch: &Launch<usize>, buffers: &mut [Vec<u8>]) -> Result<()> {
    let stream = device.cuda_stream();
    let copies = buffers
        .iter()
        .map(|bytes| device.clone_htod(&bytes[..]))
        .collect::<Result<Vec<_>>>()?;
    let addressed = launch.try_map(|&number| match copies.get(number) {
        Some(bytes) => Ok(address(bytes, &stream)),
        None => candle_core::bail!("{}: there is no buffer {number}", launch.kernel),
    })?;
    let addresses: Vec<u64> = addressed.args.iter().map(|arg| *arg.buffer()).collect();
    let params = ParamBytes::of(&launch.params);
    enqueue(&stream, &function(device, launch)?, &addresses, &params, config(launch))?;
    for (bytes, copy) in buffers.iter_mut().zip(&copies) {
        *bytes = device.clone_dtoh(copy)?;
    }
    Ok(())
}
