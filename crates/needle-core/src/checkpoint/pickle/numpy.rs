//! The names that pickles of plain NumPy arrays use, and what they stand for. Nothing else may be named.

use super::{
    super::values,
    Data, Id, Node, NumpyArray,
    machine::{Machine, Outcome},
};
use crate::weights::Bytes;

/// Arguments of a call or entries of a state; NumPy writes at most nine.
const MAX_ARGUMENTS: usize = 16;

/// A function or type that may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// `numpy.core.multiarray._reconstruct`: an empty array, filled by BUILD.
    Reconstruct,
    /// `numpy.core.numeric._frombuffer`: an array over bytes.
    FromBuffer,
    /// `numpy.core.multiarray.scalar`: one number.
    Scalar,
    /// `numpy.ndarray`, only as an argument.
    NdArray,
    /// `numpy.dtype`.
    DType,
    /// `_codecs.encode`, with which protocol 2 writes bytes.
    Encode,
    /// `ml_dtypes.bfloat16`, only as an argument.
    BFloat16,
}

impl Global {
    fn name(self) -> &'static str {
        match self {
            Self::Reconstruct => "numpy.core.multiarray._reconstruct",
            Self::FromBuffer => "numpy.core.numeric._frombuffer",
            Self::Scalar => "numpy.core.multiarray.scalar",
            Self::NdArray => "numpy.ndarray",
            Self::DType => "numpy.dtype",
            Self::Encode => "_codecs.encode",
            Self::BFloat16 => "ml_dtypes.bfloat16",
        }
    }
}

/// The allowed name, in NumPy 1's spelling or NumPy 2's.
pub(super) fn global(module: &str, name: &str) -> Outcome<Global> {
    match (module, name) {
        ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => Ok(Global::Reconstruct),
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Ok(Global::Scalar),
        ("numpy.core.numeric" | "numpy._core.numeric", "_frombuffer") => Ok(Global::FromBuffer),
        ("numpy", "ndarray") => Ok(Global::NdArray),
        ("numpy", "dtype") => Ok(Global::DType),
        ("_codecs", "encode") => Ok(Global::Encode),
        ("ml_dtypes", "bfloat16") => Ok(Global::BFloat16),
        _ => Err(format!(
            "global {module}.{name} is refused: plain NumPy arrays do not need it"
        )),
    }
}

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F16,
    BF16,
    F32,
    F64,
    I32,
    I64,
    Bool,
}

impl Element {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F16 => "float16",
            Self::BF16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::Bool => "bool",
        }
    }

    fn size(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::F16 | Self::BF16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    fn parse(code: &[u8]) -> Option<Self> {
        Some(match code {
            b"f2" => Self::F16,
            b"f4" => Self::F32,
            b"f8" => Self::F64,
            b"i4" => Self::I32,
            b"i8" => Self::I64,
            b"b1" => Self::Bool,
            _ => return None,
        })
    }
}

/// How the axes of an array's bytes lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    RowMajor,
    ColumnMajor,
}

impl Machine<'_> {
    /// REDUCE: the value of an allowed function for these arguments.
    pub(super) fn reduce(&mut self, function: Id, arguments: Id) -> Outcome<Node> {
        let Node::Global(global) = *self.node(function) else {
            return Err(format!("REDUCE calls {}", self.node(function).kind()));
        };
        let Node::Tuple(ids) = self.node(arguments) else {
            return Err(format!("REDUCE with {} for arguments", self.node(arguments).kind()));
        };
        let unusual = || format!("unusual arguments of {}", global.name());
        if ids.len() > MAX_ARGUMENTS {
            return Err(unusual());
        }
        let arguments: Vec<&Node> = ids.iter().map(|&id| self.node(id)).collect();
        match (global, &arguments[..]) {
            (Global::Reconstruct, [Node::Global(Global::NdArray), Node::Tuple(_), Node::Data(_)]) => Ok(Node::Unfilled),
            (Global::DType, [Node::Text(code), Node::Bool(false), Node::Bool(true)]) => {
                let element = Element::parse(code);
                let refused = || format!("dtype {} is refused", String::from_utf8_lossy(code));
                element.map(Node::Element).ok_or_else(refused)
            }
            (Global::DType, [Node::Global(Global::BFloat16), Node::Bool(false), Node::Bool(true)]) => {
                Ok(Node::Element(Element::BF16))
            }
            (Global::Encode, [Node::Text(text), Node::Text(codec)]) if &codec[..] == b"latin1" => {
                let text = text.clone();
                self.encode(&text)
            }
            (Global::Scalar, [Node::Element(element), Node::Data(data)]) => scalar(*element, &data.bytes),
            (
                Global::FromBuffer,
                [
                    Node::Data(data),
                    Node::Element(element),
                    Node::Tuple(shape),
                    Node::Text(order),
                ],
            ) => {
                let layout = match &order[..] {
                    b"C" => Layout::RowMajor,
                    b"F" => Layout::ColumnMajor,
                    _ => return Err(unusual()),
                };
                let (data, element, shape) = (data.clone(), *element, self.shape(shape)?);
                self.fill(element, shape, layout, data)
            }
            (Global::NdArray | Global::BFloat16, _) => Err(format!("REDUCE calls {}", global.name())),
            _ => Err(unusual()),
        }
    }

    /// BUILD: the target with its state.
    pub(super) fn build(&mut self, target: Id, state: Id) -> Outcome<Node> {
        let Node::Tuple(state) = self.node(state) else {
            return Err(format!("BUILD with {} as the state", self.node(state).kind()));
        };
        let unusual = "BUILD with an unusual state";
        if state.len() > MAX_ARGUMENTS {
            return Err(unusual.into());
        }
        let state: Vec<&Node> = state.iter().map(|&id| self.node(id)).collect();
        match (self.node(target), &state[..]) {
            (Node::Element(element), [Node::Int(3), Node::Text(order), ..]) => match &order[..] {
                b"<" | b"=" | b"|" => Ok(Node::Element(*element)),
                _ => Err(format!("byte order {} is refused", String::from_utf8_lossy(order))),
            },
            (
                Node::Unfilled,
                [
                    Node::Int(1),
                    Node::Tuple(shape),
                    Node::Element(element),
                    Node::Bool(columns),
                    Node::Data(data),
                ],
            ) => {
                let layout = if *columns {
                    Layout::ColumnMajor
                } else {
                    Layout::RowMajor
                };
                let (data, element, shape) = (data.clone(), *element, self.shape(shape)?);
                self.fill(element, shape, layout, data)
            }
            (Node::Unfilled | Node::Element(_), _) => Err(unusual.into()),
            (other, _) => Err(format!("BUILD on {} is refused", other.kind())),
        }
    }

    fn shape(&self, sizes: &[Id]) -> Outcome<Vec<usize>> {
        // NumPy itself has at most 64 axes.
        if sizes.len() > 64 {
            return Err(format!("an array of {} axes", sizes.len()));
        }
        let size = |&id: &Id| match self.node(id) {
            Node::Int(size) => usize::try_from(*size).map_err(|_| format!("an axis of length {size}")),
            other => Err(format!("an axis of length {}", other.kind())),
        };
        sizes.iter().map(size).collect()
    }

    /// An array over these bytes, brought to row-major order.
    fn fill(&mut self, element: Element, shape: Vec<usize>, layout: Layout, data: Data) -> Outcome<Node> {
        let size_bytes = values::count(&shape).and_then(|count| count.checked_mul(element.size()));
        if size_bytes != Some(data.bytes.len()) {
            let found = data.bytes.len();
            return Err(format!(
                "{found} bytes do not hold shape {shape:?} of {}",
                element.name()
            ));
        }
        let data = match layout {
            Layout::ColumnMajor if shape.len() > 1 && !data.bytes.is_empty() => {
                self.spend(data.bytes.len())?;
                let bytes = row_major(&data.bytes, &shape, element.size());
                Data {
                    bytes: Bytes::new(bytes),
                    offset: None,
                }
            }
            _ => data,
        };
        Ok(Node::Array(NumpyArray { element, shape, data }))
    }

    /// Bytes from a text of code points below 256.
    fn encode(&mut self, text: &Bytes) -> Outcome<Node> {
        self.spend(text.len())?;
        let text = String::from_utf8_lossy(text);
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        let bytes = bytes.map_err(|_| "latin1 cannot write a character above 255")?;
        Ok(Node::Data(Data {
            bytes: Bytes::new(bytes),
            offset: None,
        }))
    }
}

/// Column-major values in row-major order. Every axis is at least 1.
fn row_major(bytes: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut ordered = Vec::with_capacity(bytes.len());
    let mut place = vec![0; shape.len()];
    for _ in 0..bytes.len() / size {
        // Σ place_i · Π_{j<i} shape_j
        let at = place
            .iter()
            .zip(shape)
            .rev()
            .fold(0, |at, (place, length)| at * length + place);
        ordered.extend_from_slice(&bytes[at * size..][..size]);
        for (place, &length) in place.iter_mut().zip(shape).rev() {
            *place += 1;
            if *place < length {
                break;
            }
            *place = 0;
        }
    }
    ordered
}

fn scalar(element: Element, bytes: &[u8]) -> Outcome<Node> {
    let value = match (element, bytes) {
        (Element::Bool, &[value @ (0 | 1)]) => Some(Node::Bool(value == 1)),
        (Element::I32, bytes) => bytes
            .try_into()
            .ok()
            .map(|value| Node::Int(i32::from_le_bytes(value).into())),
        (Element::I64, bytes) => bytes.try_into().ok().map(|value| Node::Int(i64::from_le_bytes(value))),
        (Element::F32, bytes) => bytes
            .try_into()
            .ok()
            .map(|value| Node::Float(f32::from_le_bytes(value).into())),
        (Element::F64, bytes) => bytes
            .try_into()
            .ok()
            .map(|value| Node::Float(f64::from_le_bytes(value))),
        (Element::F16, bytes) => bytes
            .try_into()
            .ok()
            .map(|value| Node::Float(half::f16::from_le_bytes(value).into())),
        (Element::BF16, bytes) => bytes
            .try_into()
            .ok()
            .map(|value| Node::Float(half::bf16::from_le_bytes(value).into())),
        (Element::Bool, _) => None,
    };
    value.ok_or_else(|| format!("{} bytes do not hold a {}", bytes.len(), element.name()))
}
