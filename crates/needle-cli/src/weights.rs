//! Where the weights are: the file that was named, or the hub's, cached or downloaded once.

use std::path::PathBuf;

use needle_core::hub::{Hub, HubOptions, ModelRequest, ModelSource};
use needle_core::{Generation, Result};

use crate::progress::Progress;

/// `model` is what `--model` said; without it, the published weights of the generation. `demo` is the caller's.
///
/// A file that exists wins over a name of the hub. A cached file costs no question to anybody.
pub(crate) fn locate(model: Option<&str>, generation: Generation, progress: &Progress) -> Result<PathBuf> {
    let source = match model {
        Some(text) => ModelSource::parse(text)?,
        None => ModelSource::Hub(ModelRequest::base(generation)),
    };
    match source {
        ModelSource::File(path) => Ok(path),
        ModelSource::Hub(request) => {
            let hub = Hub::new(HubOptions::from_env()?)?;
            Ok(hub.resolve(&request, &mut |event| progress.show(event))?.path)
        }
    }
}
