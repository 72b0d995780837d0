//! JSON as Python's `json.dumps` writes it, so that metadata comes back byte for byte: a space after every comma and
//! colon, every character above 126 as an escape.

use std::io;

use serde::Serialize;
use serde_json::{Map, Value, ser::Formatter};

struct Python;

impl Formatter for Python {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for character in fragment.chars() {
            if (' '..='~').contains(&character) {
                writer.write_all(&[character as u8])?;
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

/// The text of an object.
pub(super) fn dumps(object: &Map<String, Value>) -> io::Result<String> {
    let mut text = vec![];
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut text, Python))?;
    String::from_utf8(text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn equals_python() {
        let value = json!({"a": [1, 2.5, "é\u{7f}😀\n\"\\"], "b": {}, "c": [], "d": {"e": null, "f": true}});
        let text = super::dumps(value.as_object().unwrap()).unwrap();
        // json.dumps of the same value in Python 3.11.
        let expected =
            r#"{"a": [1, 2.5, "\u00e9\u007f\ud83d\ude00\n\"\\"], "b": {}, "c": [], "d": {"e": null, "f": true}}"#;
        assert_eq!(text, expected);
    }
}
