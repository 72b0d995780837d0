//! A kernel launch as a value: which kernel, how many threads, which buffers, which parameters. The emulator and the GPU
//! backends run the same value, so that grid arithmetic, argument order and parameter layout are tested without a GPU.

use crate::text::Module;

/// One buffer argument. The kinds are part of the launch because Metal must be told what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg<B> {
    /// Only read.
    In(B),
    /// Only written; what was there before is not read.
    Out(B),
    /// Read and written, or written in part.
    InOut(B),
}

impl<B> Arg<B> {
    /// The buffer.
    pub fn buffer(&self) -> &B {
        let (Self::In(buffer) | Self::Out(buffer) | Self::InOut(buffer)) = self;
        buffer
    }

    /// Whether the kernel writes it.
    pub fn is_written(&self) -> bool {
        !matches!(self, Self::In(_))
    }
}

/// One launch: a grid of blocks, the buffers in the kernel's order, then the parameter struct by value.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch<B> {
    /// Where the kernel is.
    pub module: Module,
    /// The kernel's name in it.
    pub kernel: String,
    /// Blocks along x and y.
    pub grid: (u32, u32),
    /// Threads a block, a multiple of 32; the block is one-dimensional.
    pub threads: u32,
    /// Shared memory a block, in bytes; declared in the kernel's text, none is asked for at launch.
    pub shared_bytes: u32,
    /// The buffers.
    pub args: Vec<Arg<B>>,
    /// The parameters.
    pub params: Params,
}

impl<B> Launch<B> {
    /// The same launch on other buffers.
    ///
    /// # Errors
    /// The first that `f` gives.
    pub fn try_map<C, E>(&self, mut f: impl FnMut(&B) -> Result<C, E>) -> Result<Launch<C>, E> {
        let arg = |arg: &Arg<B>| {
            Ok(match arg {
                Arg::In(buffer) => Arg::In(f(buffer)?),
                Arg::Out(buffer) => Arg::Out(f(buffer)?),
                Arg::InOut(buffer) => Arg::InOut(f(buffer)?),
            })
        };
        Ok(Launch {
            module: self.module,
            kernel: self.kernel.clone(),
            grid: self.grid,
            threads: self.threads,
            shared_bytes: self.shared_bytes,
            args: self.args.iter().map(arg).collect::<Result<_, E>>()?,
            params: self.params,
        })
    }
}

/// Bytes of the largest parameter struct.
const PARAMS_MAX: usize = 96;

/// A parameter struct: 4-byte fields in order, so that CUDA, Metal and the host lay it out alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    bytes: [u8; PARAMS_MAX],
    len: usize,
}

impl Params {
    /// A struct of whole numbers.
    pub fn words(words: &[u32]) -> Self {
        Fields::new().u32s(words).done()
    }

    /// The struct's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Writes the fields of a parameter struct one after the other.
pub(crate) struct Fields(Params);

impl Fields {
    pub(crate) fn new() -> Self {
        Self(Params {
            bytes: [0; PARAMS_MAX],
            len: 0,
        })
    }

    pub(crate) fn u32(self, value: u32) -> Self {
        self.word(value.to_ne_bytes())
    }

    pub(crate) fn f32(self, value: f32) -> Self {
        self.word(value.to_ne_bytes())
    }

    pub(crate) fn u32s(self, values: &[u32]) -> Self {
        values.iter().fold(self, |fields, &value| fields.u32(value))
    }

    pub(crate) fn done(self) -> Params {
        self.0
    }

    // A field too many is a mistake in this crate: the emulator then sees too short a struct and refuses the launch.
    fn word(mut self, bytes: [u8; 4]) -> Self {
        if let Some(place) = self.0.bytes.get_mut(self.0.len..self.0.len + 4) {
            place.copy_from_slice(&bytes);
            self.0.len += 4;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_each_other() {
        let params = Fields::new().u32(7).f32(1.5).u32s(&[1, 2]).done();
        let expected: Vec<u8> = [7, 1.5f32.to_bits(), 1, 2]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        assert_eq!(params.bytes(), expected);
    }
}
