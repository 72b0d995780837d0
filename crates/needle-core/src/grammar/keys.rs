//! Follows the JSON written so far as far as the keys of its objects, so that no object gets one key twice.
//!
//! Declared keys cannot repeat by the grammar. Keys that no schema names are any text, and no context-free rule can
//! remember them all: where a grammar has such keys, the tokens that would end a repeated one are taken out of the mask.

/// The objects and lists that are open, and where in the text we are.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyTracker {
    open: Vec<Level>,
    place: Place,
}

/// An open list, or an open object with its keys, as written between the quotation marks.
#[derive(Clone, Debug)]
enum Level {
    List,
    Object(Vec<Vec<u8>>),
}

#[derive(Clone, Debug, Default)]
enum Place {
    /// Where a value, a separator or a bracket comes.
    #[default]
    Outside,
    /// Where the next string is a key.
    BeforeKey,
    /// Inside a key, with what it has so far.
    Key(Vec<u8>),
    /// Behind a backslash in a key.
    KeyEscape(Vec<u8>),
    /// Inside a string that is a value.
    Text,
    /// Behind a backslash in such a string.
    Escape,
}

/// A key that the object has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeated;

impl KeyTracker {
    /// Goes on over `bytes`, which continue valid JSON.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Result<(), Repeated> {
        bytes.iter().try_for_each(|byte| self.step(*byte))
    }

    /// Whether any open object has a key that could be repeated.
    pub(super) fn has_keys(&self) -> bool {
        self.open
            .iter()
            .any(|level| matches!(level, Level::Object(keys) if !keys.is_empty()))
    }

    fn step(&mut self, byte: u8) -> Result<(), Repeated> {
        self.place = match (std::mem::take(&mut self.place), byte) {
            (Place::Key(key), b'"') => {
                if let Some(Level::Object(keys)) = self.open.last_mut() {
                    if keys.contains(&key) {
                        return Err(Repeated);
                    }
                    keys.push(key);
                }
                Place::Outside
            }
            (Place::Key(mut key), byte) => {
                key.push(byte);
                if byte == b'\\' {
                    Place::KeyEscape(key)
                } else {
                    Place::Key(key)
                }
            }
            (Place::KeyEscape(mut key), byte) => {
                key.push(byte);
                Place::Key(key)
            }
            (Place::Text, b'"') => Place::Outside,
            (Place::Text, b'\\') => Place::Escape,
            (Place::Text | Place::Escape, _) => Place::Text,
            (Place::BeforeKey, b'"') => Place::Key(Vec::new()),
            (Place::Outside, b'"') => Place::Text,
            (_, b'{') => {
                self.open.push(Level::Object(Vec::new()));
                Place::BeforeKey
            }
            (_, b'[') => {
                self.open.push(Level::List);
                Place::Outside
            }
            (_, b'}' | b']') => {
                self.open.pop();
                Place::Outside
            }
            (_, b',') if matches!(self.open.last(), Some(Level::Object(_))) => Place::BeforeKey,
            (place, _) => place,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(text: &str) -> bool {
        KeyTracker::default().advance(text.as_bytes()).is_err()
    }

    #[test]
    fn only_a_key_of_the_same_object_repeats() {
        for text in [
            r#"{"a":1,"b":{"a":2},"c":["a","a"],"d":"a","e":{"a":{"a":0}}}"#,
            r#"[{"a":1},{"a":1}]"#,
            r#"{"a":"\",\"a\":","b":"x\\","c":{}}"#,
            r#"{"a\"":1,"a":2,"a\\":3}"#,
        ] {
            assert!(!repeats(text), "{text}");
        }
        for text in [
            r#"{"a":1,"a""#,
            r#"{"x":[{"y":{}},"{"],"x""#,
            r#"[{"k":{"a":"}","b":2,"b""#,
        ] {
            assert!(repeats(text), "{text}");
        }
    }
}
