//! The few opcodes of a Python pickle, protocol 4, that an adapter needs: dicts, texts, numbers, float32 arrays.

use serde_json::Value;

/// A pickle in the making. Values are written in order; inside a dict keys and values alternate.
pub(super) struct PickleWriter {
    bytes: Vec<u8>,
}

impl PickleWriter {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0x80, 4] }
    }

    pub(super) fn begin_dict(&mut self) {
        self.bytes.extend(b"}(");
    }

    pub(super) fn end_dict(&mut self) {
        self.bytes.push(b'u');
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes.push(b'X');
        self.length(text.len());
        self.bytes.extend(text.as_bytes());
    }

    /// A plain JSON value: null, truth, number, text, list or object.
    pub(super) fn json(&mut self, value: &Value) {
        match value {
            Value::Null => self.bytes.push(b'N'),
            Value::Bool(true) => self.bytes.push(0x88),
            Value::Bool(false) => self.bytes.push(0x89),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => self.whole(whole),
                None => self.float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => self.text(text),
            Value::Array(values) => {
                self.bytes.extend(b"](");
                values.iter().for_each(|value| self.json(value));
                self.bytes.push(b'e');
            }
            Value::Object(fields) => {
                self.begin_dict();
                for (key, value) in fields {
                    self.text(key);
                    self.json(value);
                }
                self.end_dict();
            }
        }
    }

    /// A NumPy array of little-endian float32 values: `numpy.ndarray.__reduce__` spelt out.
    pub(super) fn array(&mut self, shape: &[usize], values: &[u8]) {
        self.bytes.extend(b"cnumpy.core.multiarray\n_reconstruct\n");
        self.bytes.extend(b"cnumpy\nndarray\n");
        self.bytes.extend(b"K\x00\x85C\x01b\x87R(K\x01(");
        shape.iter().for_each(|&size| self.whole(size as i64));
        self.bytes.push(b't');
        self.bytes.extend(b"cnumpy\ndtype\nX\x02\x00\x00\x00f4\x89\x88\x87R");
        self.bytes
            .extend(b"(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb");
        self.bytes.extend([0x89, 0x8E]);
        self.bytes.extend((values.len() as u64).to_le_bytes());
        self.bytes.extend(values);
        self.bytes.extend(b"tb");
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(b'.');
        self.bytes
    }

    fn length(&mut self, length: usize) {
        self.bytes.extend((length as u32).to_le_bytes());
    }

    fn whole(&mut self, value: i64) {
        match i32::try_from(value) {
            Ok(short) => {
                self.bytes.push(b'J');
                self.bytes.extend(short.to_le_bytes());
            }
            Err(_) => {
                self.bytes.extend([0x8A, 8]);
                self.bytes.extend(value.to_le_bytes());
            }
        }
    }

    fn float(&mut self, value: f64) {
        self.bytes.push(b'G');
        self.bytes.extend(value.to_be_bytes());
    }
}
