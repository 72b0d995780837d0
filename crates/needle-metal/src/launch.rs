//! The only place where a launch becomes a Metal dispatch.

use candle_core::Result;
use candle_metal_kernels::metal::ComputeCommandEncoder;
use needle_kernels::{Arg, Launch, Unsupported};
use objc2_metal::MTLSize;

use crate::{
    pipelines::Pipelines,
    storage::{Place, unsupported},
};

/// Puts a launch into the device's encoder.
pub(crate) fn launch(pipelines: &Pipelines, launch: std::result::Result<Launch<Place<'_>>, Unsupported>) -> Result<()> {
    let launch = launch.map_err(unsupported)?;
    let pipeline = pipelines.pipeline(&launch)?;
    let guard = pipelines.device().command_encoder()?;
    let encoder: &ComputeCommandEncoder = guard.as_ref();
    encoder.set_compute_pipeline_state(&pipeline);
    for (slot, arg) in launch.args.iter().enumerate() {
        let Place { buffer, offset_bytes } = *arg.buffer();
        // Candle's buffers are not tracked by Metal: what is read and what is written here decides where candle puts its
        // barriers and fences. A buffer that is both must be told as both.
        if !matches!(arg, Arg::Out(_)) {
            encoder.set_input_buffer(slot, Some(buffer), offset_bytes);
        }
        if arg.is_written() {
            encoder.set_output_buffer(slot, Some(buffer), offset_bytes);
        }
    }
    let params = launch.params.bytes();
    encoder.set_bytes_directly(launch.args.len(), params.len(), params.as_ptr().cast());
    let size = |width: u32, height: u32| MTLSize {
        width: width as usize,
        height: height as usize,
        depth: 1,
    };
    encoder.dispatch_thread_groups(size(launch.grid.0, launch.grid.1), size(launch.threads, 1));
    Ok(())
}
