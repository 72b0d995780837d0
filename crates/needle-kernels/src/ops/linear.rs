//! Products with a weight matrix, dense or packed, for a few rows: decoding, and packed weights in prefill.

use super::{EPSILON, SIMD, floats};
use crate::{
    error::{Unsupported, indexable, within},
    launch::{Arg, Fields, Launch, Params},
    storage::{Elem, Format, Matrix},
    text::Module,
};

const OPERATION: &str = "linear";
const SIMDS: u32 = 8;
const CHUNK: u32 = 512;
/// From here on a block takes eight rows of the input at once.
const MANY: u32 = 4;

/// `rows` rows of the input, a matrix `[n_out, n_in]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearShape {
    /// Rows of the input.
    pub rows: u32,
    /// Columns of the matrix; even for 16-bit weights.
    pub n_in: u32,
    /// Rows of the matrix.
    pub n_out: u32,
}

impl LinearShape {
    /// Rows of the input that a block takes.
    fn batch(self) -> u32 {
        if self.rows < MANY { 1 } else { 8 }
    }

    fn grid(self, batch: u32) -> (u32, u32) {
        let rows_out = if batch == 1 { SIMDS } else { 2 * SIMDS };
        (self.n_out.div_ceil(rows_out), self.rows.div_ceil(batch))
    }

    fn check(self, format: Format, lanes: u32, batch: u32) -> Result<(), Unsupported> {
        let Self { rows, n_in, n_out } = self;
        format.check(OPERATION, n_in)?;
        within(OPERATION, "rows", rows, 1, 65_535 * batch)?;
        within(OPERATION, "the input width", n_in, 1, 1 << 20)?;
        within(OPERATION, "the output width", n_out, 1, 1 << 24)?;
        within(OPERATION, "lanes", lanes, 1, 64)?;
        indexable(OPERATION, "the input", &[rows, lanes, n_in])?;
        indexable(OPERATION, "the output", &[rows, n_out])?;
        indexable(OPERATION, "the matrix", &[n_out, format.padded(n_in)])
    }

    pub(super) fn params(self, format: Format, lanes: u32) -> Params {
        self.fields(Fields::new(), format, lanes).done()
    }

    pub(super) fn fields(self, fields: Fields, format: Format, lanes: u32) -> Fields {
        let Self { rows, n_in, n_out } = self;
        fields
            .u32s(&[rows, n_in, n_out, lanes, format.padded(n_in), format.group_shift()])
            .f32(EPSILON)
    }
}

/// `y = x·Wᵀ`.
pub struct Linear<B> {
    /// `[rows, n_in]`, read.
    pub x: B,
    /// `W: [n_out, n_in]`, read.
    pub weight: Matrix<B>,
    /// `[rows, n_out]`, written.
    pub y: B,
}

impl<B> Linear<B> {
    /// The launch for activations of `elem`: float32, or with packed weights any.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape or storage without a kernel.
    pub fn launch(self, elem: Elem, shape: LinearShape) -> Result<Launch<B>, Unsupported> {
        let format = self.weight.format();
        // Half-precision activations come in prefill alone, many at a time.
        let batch = if elem == Elem::F32 { shape.batch() } else { 8 };
        shape.check(format, 1, batch)?;
        if elem != Elem::F32 && matches!(format, Format::Dense(_)) {
            return Err(Unsupported {
                operation: OPERATION,
                what: "bytes of an activation before dense weights",
                expected: "4".into(),
                found: elem.size_bytes() as u64,
            });
        }
        let kernel = match format {
            Format::Dense(weight) => format!("linear_{}_x{batch}", weight.name()),
            Format::Packed { bits, .. } => format!("packed_{}_{}_x{batch}", bits.count(), elem.name()),
        };
        let args = args([self.x].map(Arg::In), self.weight, self.y);
        Ok(launch(
            kernel,
            format,
            args,
            shape.grid(batch),
            batch,
            shape.params(format, 1),
        ))
    }
}

/// `y = zcrms(mean over lanes(x); s)·Wᵀ`, float32 activations.
pub struct NormLinear<B> {
    /// `[rows, lanes, n_in]` float32, read.
    pub x: B,
    /// `[n_in]` float32, read.
    pub s: B,
    /// `W: [n_out, n_in]`, read.
    pub weight: Matrix<B>,
    /// `[rows, n_out]` float32, written.
    pub y: B,
}

impl<B> NormLinear<B> {
    /// The launch; `lanes` is 1 for an input without lanes.
    ///
    /// # Errors
    /// [`Unsupported`] for a shape or storage without a kernel.
    pub fn launch(self, shape: LinearShape, lanes: u32) -> Result<Launch<B>, Unsupported> {
        let format = self.weight.format();
        let batch = shape.batch();
        shape.check(format, lanes, batch)?;
        let kernel = match format {
            Format::Dense(weight) => format!("norm_linear_{}_x{batch}", weight.name()),
            Format::Packed { bits, .. } => format!("norm_packed_{}_f32_x{batch}", bits.count()),
        };
        let args = args([self.x, self.s].map(Arg::In), self.weight, self.y);
        Ok(launch(
            kernel,
            format,
            args,
            shape.grid(batch),
            batch,
            shape.params(format, lanes),
        ))
    }
}

fn args<B, const N: usize>(inputs: [Arg<B>; N], weight: Matrix<B>, output: B) -> Vec<Arg<B>> {
    let mut args = Vec::from(inputs);
    push_weight(&mut args, weight);
    args.push(Arg::Out(output));
    args
}

pub(super) fn push_weight<B>(args: &mut Vec<Arg<B>>, weight: Matrix<B>) {
    match weight {
        Matrix::Dense { values, .. } => args.push(Arg::In(values)),
        Matrix::Packed {
            codes, norms, levels, ..
        } => args.extend([codes, norms, levels].map(Arg::In)),
    }
}

/// Entries of the codebook in shared memory; a dense kernel declares one that it does not use.
pub(super) fn book_len(format: Format) -> u32 {
    match format {
        Format::Dense(_) => 1,
        Format::Packed { bits, .. } => bits.level_count(),
    }
}

fn launch<B>(
    kernel: String,
    format: Format,
    args: Vec<Arg<B>>,
    grid: (u32, u32),
    batch: u32,
    params: Params,
) -> Launch<B> {
    let module = match format {
        Format::Dense(_) => Module::Linear,
        Format::Packed { .. } => Module::Packed,
    };
    Launch {
        module,
        kernel,
        grid,
        threads: SIMDS * SIMD,
        shared_bytes: floats(batch * CHUNK + SIMDS + book_len(format)),
        args,
        params,
    }
}
