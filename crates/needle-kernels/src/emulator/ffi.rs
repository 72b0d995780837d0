//! The C++ side of the emulator.

use std::ffi::{CStr, CString, c_char, c_int};

use super::{Fault, FaultKind, Memory, Schedule, Signature, Trace};
use crate::launch::Launch;

#[repr(C)]
struct NkBuffer {
    data: *mut u64,
    defined: *mut u8,
    bytes: usize,
}

#[repr(C)]
struct NkLaunch {
    name: *const c_char,
    grid_x: u32,
    grid_y: u32,
    threads: u32,
    buffer_count: u32,
    buffers: *const NkBuffer,
    params: *const u8,
    params_bytes: usize,
    seed: u64,
    skip_barrier: i64,
}

const TEXT_BYTES: usize = 1024;

#[repr(C)]
struct NkResult {
    kind: c_int,
    barriers: u64,
    shuffles: u64,
    loads: u64,
    stores: u64,
    shared_bytes: u64,
    text: [c_char; TEXT_BYTES],
}

unsafe extern "C" {
    fn nk_launch(launch: *const NkLaunch, result: *mut NkResult);
    fn nk_kernels(out: *mut c_char, bytes: usize) -> usize;
}

pub(super) fn launch(launch: &Launch<usize>, memory: &mut Memory, schedule: Schedule) -> Result<Trace, Fault> {
    let fault = |kind, message: String| Fault {
        kernel: launch.kernel.clone(),
        kind,
        message,
    };
    let Ok(name) = CString::new(launch.kernel.as_str()) else {
        return Err(fault(FaultKind::Usage, "a name with a zero byte".into()));
    };
    let mut buffers = Vec::with_capacity(launch.args.len());
    for arg in &launch.args {
        if *arg.buffer() >= memory.count() {
            return Err(fault(FaultKind::Usage, format!("there is no buffer {}", arg.buffer())));
        }
        let (data, defined, bytes) = memory.raw(*arg.buffer());
        buffers.push(NkBuffer { data, defined, bytes });
    }
    let call = NkLaunch {
        name: name.as_ptr(),
        grid_x: launch.grid.0,
        grid_y: launch.grid.1,
        threads: launch.threads,
        buffer_count: buffers.len() as u32,
        buffers: buffers.as_ptr(),
        params: launch.params.bytes().as_ptr(),
        params_bytes: launch.params.bytes().len(),
        seed: schedule.seed,
        skip_barrier: schedule.without_barrier.map_or(-1, i64::from),
    };
    let mut result = NkResult {
        kind: 0,
        barriers: 0,
        shuffles: 0,
        loads: 0,
        stores: 0,
        shared_bytes: 0,
        text: [0; TEXT_BYTES],
    };
    // SAFETY: every pointer in `call` outlives the call; the buffers' lengths are those of their allocations, which
    // nothing else uses meanwhile because `memory` is borrowed mutably; the emulator checks each access against them and
    // writes a terminated text into `result`.
    unsafe { nk_launch(&call, &mut result) };
    // SAFETY: `text` was zeroed and the emulator terminates what it writes.
    let text = unsafe { CStr::from_ptr(result.text.as_ptr()) }
        .to_string_lossy()
        .into_owned();
    let kind = match result.kind {
        0 => {
            return Ok(Trace {
                barriers: result.barriers,
                shuffles: result.shuffles,
                loads: result.loads,
                stores: result.stores,
                shared_bytes: result.shared_bytes,
                sites: text.lines().map(str::to_owned).collect(),
            });
        }
        2 => FaultKind::Bounds,
        3 => FaultKind::Undefined,
        4 => FaultKind::Race,
        5 => FaultKind::Divergence,
        _ => FaultKind::Usage,
    };
    Err(fault(kind, text))
}

pub(super) fn signatures() -> Vec<Signature> {
    // SAFETY: with no place to write to, the function only measures.
    let bytes = unsafe { nk_kernels(std::ptr::null_mut(), 0) };
    let mut text = vec![0u8; bytes];
    // SAFETY: `text` has as many bytes as are passed.
    unsafe { nk_kernels(text.as_mut_ptr().cast(), bytes) };
    let text = String::from_utf8_lossy(text.strip_suffix(&[0]).unwrap_or(&text)).into_owned();
    text.lines().filter_map(signature).collect()
}

fn signature(line: &str) -> Option<Signature> {
    let mut fields = line.split(' ');
    Some(Signature {
        name: fields.next()?.to_owned(),
        threads: fields.next()?.parse().ok()?,
        buffers: fields.next()?.parse().ok()?,
        params_bytes: fields.next()?.parse().ok()?,
        written: fields.next()?.parse().ok()?,
    })
}
