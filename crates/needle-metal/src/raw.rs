//! A launch on raw bytes: what a check needs to run needle-kernels' cases on the GPU.

use candle_core::{Result, bail};
use needle_kernels::Launch;

use crate::{Pipelines, launch::launch, storage::Place};

/// Copies `buffers` to the device, runs `case`, whose buffers are numbers of theirs, and copies them back.
///
/// # Errors
/// When there is no such buffer or kernel, or the device refuses.
pub fn run_on_bytes(pipelines: &Pipelines, case: &Launch<usize>, buffers: &mut [Vec<u8>]) -> Result<()> {
    let device = pipelines.device();
    let copies = buffers
        .iter()
        .map(|bytes| device.new_buffer_with_data(bytes))
        .collect::<Result<Vec<_>>>()?;
    let placed = case.try_map(|&number| match copies.get(number) {
        Some(buffer) => Ok(Place {
            buffer,
            offset_bytes: 0,
        }),
        None => bail!("{}: there is no buffer {number}", case.kernel),
    })?;
    launch(pipelines, Ok(placed))?;
    device.flush_and_wait_current()?;
    for (bytes, copy) in buffers.iter_mut().zip(&copies) {
        // SAFETY: the buffer is shared memory of as many bytes, and the launch that wrote it has ended.
        unsafe { std::ptr::copy_nonoverlapping(copy.contents(), bytes.as_mut_ptr(), bytes.len()) };
    }
    Ok(())
}
