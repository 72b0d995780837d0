//! Which matrix of an archive takes how many bits.
//!
//! A map is written as the reference writes it, `default=2,embedding=4,attn.q_proj=3,engram0=1.58`: a rule holds for every
//! matrix whose class begins with its name, and the longest name wins. Classes are
//!
//! ```text
//! embedding   attn.q_proj | k_proj | v_proj | gate_proj | out_proj   mhc_phi_pre | mhc_phi_post | mhc_phi_res
//! engram{s}.tables | key_proj | value_proj
//! ```
//! Beyond the reference, `ternary` may stand for 1.58, a rule may name one matrix by its canonical name
//! (`layers.3.self_attn.q_proj=4`), and `group=64` sets how many values share a norm.

use std::{collections::BTreeMap, fmt, str::FromStr};

use super::{
    Adapter, Checkpoint,
    info::{Encoding, FormatKind},
    layout::{self, Form, Slot},
};
use crate::{
    config::{Config, Generation},
    error::{Error, Result},
    quant::CodeWidth,
};

/// Values that share a norm, unless a map says otherwise.
const GROUP: usize = 128;

/// Stages after which the reference's trainer always notes the widths it trained for.
const STAGES_WITH_MAP: [&str; 3] = ["qapt", "conf-head", "tool-head"];

/// The width of every matrix of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitMap {
    default: CodeWidth,
    /// By the beginning of a class.
    classes: BTreeMap<String, CodeWidth>,
    /// By canonical name.
    matrices: BTreeMap<String, CodeWidth>,
    group: usize,
}

impl BitMap {
    /// The same width everywhere.
    pub fn uniform(width: CodeWidth) -> Self {
        Self {
            default: width,
            classes: BTreeMap::new(),
            matrices: BTreeMap::new(),
            group: GROUP,
        }
    }

    /// Reads `4`, `ternary`, or a map with a `default`; entries are separated by commas or line breaks.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names the entry that cannot be read.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(width) = width(text.trim()) {
            return Ok(Self::uniform(width));
        }
        let wrong = |entry: &str, reason: &str| Error::Unsupported(format!("bit map: {entry:?}: {reason}"));
        let mut map = Self::uniform(CodeWidth::Four);
        let mut default = None;
        for entry in text.split([',', '\n']).map(str::trim).filter(|entry| !entry.is_empty()) {
            let expected = "expected NAME=BITS, with 2, 3, 4 or ternary bits";
            let (name, value) = entry.split_once('=').ok_or_else(|| wrong(entry, expected))?;
            let (name, value) = (name.trim(), value.trim());
            if name == "group" {
                map.group = value.parse().map_err(|_| wrong(entry, "expected a number of values"))?;
                continue;
            }
            let width = width(value).ok_or_else(|| wrong(entry, expected))?;
            let before = match name {
                "" => return Err(wrong(entry, expected)),
                "default" => default.replace(width),
                name if name.starts_with("layers.") || name.starts_with("engrams.") => {
                    map.matrices.insert(name.to_owned(), width)
                }
                name => map.classes.insert(class_of_rule(name), width),
            };
            if before.is_some() {
                return Err(wrong(entry, "stands twice"));
            }
        }
        map.default =
            default.ok_or_else(|| wrong(text.trim(), "expected 2, 3, 4, ternary, or a map with a default=BITS"))?;
        Ok(map)
    }

    /// A checkpoint's own map: the widths of an archive, the map that a float checkpoint was trained for, else 4 bits.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a map that cannot be read, for a checkpoint that was trained for widths it does not name,
    /// and for an archive whose matrices are not all packed in groups of one size, 2 to 4 bits or ternary.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self> {
        if checkpoint.format.kind == FormatKind::Cact {
            return Self::of_archive(checkpoint);
        }
        let text = &checkpoint.config.weight_bits;
        if !text.is_empty() {
            return Self::parse(text);
        }
        let stage = checkpoint.format.run.get("stage").and_then(serde_json::Value::as_str);
        match stage.filter(|stage| STAGES_WITH_MAP.contains(stage)) {
            Some(stage) => Err(Error::Unsupported(format!(
                "{}: trained for few bits (stage {stage}), but it names no bit map; give one",
                checkpoint.path.display()
            ))),
            None => Ok(Self::uniform(CodeWidth::Four)),
        }
    }

    /// The widths that an adapter was trained for, where it names any.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for widths that cannot be read.
    pub fn of_adapter(adapter: &Adapter) -> Result<Option<Self>> {
        let stated = ["qat_bits_map", "qat_bits"]
            .iter()
            .find_map(|key| adapter.extra.get(*key).filter(|v| !v.is_null()));
        let text = match stated {
            None => return Ok(None),
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let map = Self::parse(&text);
        map.map(Some)
            .map_err(|error| Error::Unsupported(format!("{}: {error}", adapter.path.display())))
    }

    fn of_archive(checkpoint: &Checkpoint) -> Result<Self> {
        let refuse = |name: &str, reason: &str| {
            Error::Unsupported(format!(
                "{}: tensor {name}: {reason}; give a bit map",
                checkpoint.path.display()
            ))
        };
        let mut found: Vec<(String, String, CodeWidth)> = vec![];
        let mut common = None;
        for slot in matrices(&checkpoint.config) {
            let record = checkpoint.format.records.iter().find(|record| record.name == slot.name);
            let Some(Encoding::Packed { width, group }) = record.map(|record| record.encoding) else {
                return Err(refuse(&slot.name, "is not packed"));
            };
            if width == CodeWidth::Binary {
                return Err(refuse(&slot.name, "has 1 bit, which is read but not written"));
            }
            if *common.get_or_insert(group) != group {
                return Err(refuse(&slot.name, "is packed in groups of another size"));
            }
            found.push((class(&slot.name), slot.name, width));
        }
        let count = |width: CodeWidth| found.iter().filter(|(_, _, found)| *found == width).count();
        let widths = [CodeWidth::Four, CodeWidth::Three, CodeWidth::Two, CodeWidth::Ternary];
        let default = widths
            .into_iter()
            .rev()
            .max_by_key(|&width| count(width))
            .unwrap_or(CodeWidth::Four);
        let mut map = Self::uniform(default);
        map.group = common.unwrap_or(GROUP);
        for (class, name, width) in &found {
            let mut alike = found
                .iter()
                .filter(|(other, ..)| other == class)
                .map(|(.., width)| width);
            match alike.all(|other| other == width) {
                _ if *width == default => None,
                true => map.classes.insert(class.clone(), *width),
                false => map.matrices.insert(name.clone(), *width),
            };
        }
        Ok(map)
    }

    /// The same widths in groups of another size.
    pub fn with_group(self, group: usize) -> Self {
        Self { group, ..self }
    }

    /// Values that share a norm.
    pub fn group(&self) -> usize {
        self.group
    }

    /// The width of the matrix with this canonical name (`layers.*.mhc.phi_pre` for one that all layers share).
    pub fn width(&self, name: &str) -> CodeWidth {
        if let Some(width) = self.matrices.get(name) {
            return *width;
        }
        let class = class(name);
        let rules = self.classes.iter().filter(|(rule, _)| class.starts_with(rule.as_str()));
        rules
            .max_by_key(|(rule, _)| rule.len())
            .map_or(self.default, |(_, width)| *width)
    }

    /// Rules that hold for no matrix of this geometry: misspelt ones, most likely.
    pub fn unmatched(&self, config: &Config) -> Vec<&str> {
        let names: Vec<String> = matrices(config).map(|slot| slot.name).collect();
        let classes: Vec<String> = names.iter().map(|name| class(name)).collect();
        // The reference's maps may speak of the block that only training uses.
        let idle = |rule: &str| !rule.starts_with("mtp") && !classes.iter().any(|class| class.starts_with(rule));
        let by_class = self.classes.keys().map(String::as_str).filter(|rule| idle(rule));
        let by_name = self
            .matrices
            .keys()
            .map(String::as_str)
            .filter(|rule| !names.iter().any(|name| name == rule));
        by_class.chain(by_name).collect()
    }
}

impl FromStr for BitMap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

/// The text that [`BitMap::parse`] reads.
impl fmt::Display for BitMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = (self.group != GROUP).then_some(self.group);
        let rules = self.classes.iter().chain(&self.matrices);
        if rules.clone().next().is_none() && group.is_none() {
            return f.write_str(spelling(self.default));
        }
        write!(f, "default={}", spelling(self.default))?;
        rules
            .into_iter()
            .try_for_each(|(name, width)| write!(f, ",{name}={}", spelling(*width)))?;
        group.map_or(Ok(()), |group| write!(f, ",group={group}"))
    }
}

fn width(text: &str) -> Option<CodeWidth> {
    Some(match text {
        "2" => CodeWidth::Two,
        "3" => CodeWidth::Three,
        "4" => CodeWidth::Four,
        "1.58" | "ternary" => CodeWidth::Ternary,
        _ => return None,
    })
}

fn spelling(width: CodeWidth) -> &'static str {
    match width {
        CodeWidth::Binary => "1",
        CodeWidth::Ternary => "1.58",
        CodeWidth::Two => "2",
        CodeWidth::Three => "3",
        CodeWidth::Four => "4",
    }
}

/// The matrices that an archive packs; the heads of generation 3 are not among them.
fn matrices(config: &Config) -> impl Iterator<Item = Slot> {
    layout::archive(config).filter(|slot| slot.form != Form::Small)
}

/// The reference's name for the class of a matrix.
fn class(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    match parts[..] {
        ["layers", _, "self_attn", leaf] => format!("attn.{leaf}"),
        ["layers", _, "mhc", leaf] => format!("mhc_{leaf}"),
        ["engrams", site, leaf] => format!("engram{site}.{leaf}"),
        _ => name.to_owned(),
    }
}

/// The class, or its beginning, that a rule names. Rules may use a tensor's place in a checkpoint or in an archive, as the
/// reference's may.
fn class_of_rule(rule: &str) -> String {
    if rule == "embedding/embedding" {
        return "embedding".into();
    }
    let digits = |text: &str| text.len() - text.trim_start_matches(|char: char| char.is_ascii_digit()).len();
    let mut name = rule.to_owned();
    if let Some(rest) = rule.strip_prefix("layer")
        && digits(rest) > 0
        && let Some(leaf) = rest[digits(rest)..].strip_prefix('.')
    {
        name = format!("attn.{leaf}");
    } else if let Some(rest) = rule.strip_prefix("engram") {
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        let rest = rest.strip_prefix('_').unwrap_or(rest);
        let (site, leaf) = rest.split_at(digits(rest));
        let leaf = leaf.strip_prefix(['.', '/']).unwrap_or(leaf);
        let leaf = leaf.strip_suffix("/kernel").unwrap_or(leaf);
        let leaf = if leaf == "embedding" { "tables" } else { leaf };
        if !site.is_empty() {
            name = format!("engram{site}.{leaf}");
        }
    }
    let name = name.strip_prefix("stack/").unwrap_or(&name);
    let name = name
        .replace("layers/block/self_attn/", "attn.")
        .replace("mtp_block/self_attn/", "mtp.");
    name.strip_suffix("/kernel").unwrap_or(&name).replace('/', ".")
}

/// Refuses a generation whose archives are not written.
pub(super) fn expect_writable(config: &Config) -> Result<()> {
    match config.generation {
        Generation::Two => Ok(()),
        Generation::Three => Err(Error::Unsupported(
            "this is a Needle 3 model: writing its archives comes with the Needle 3 work".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_named_as_the_reference_names_them() {
        for (rule, class) in [
            ("embedding", "embedding"),
            ("embedding/embedding", "embedding"),
            ("attn.q_proj", "attn.q_proj"),
            ("layer07.q_proj", "attn.q_proj"),
            ("stack/layers/block/self_attn/q_proj/kernel", "attn.q_proj"),
            ("engram0", "engram0."),
            ("engram", "engram"),
            ("engrams_1/embedding", "engram1.tables"),
            ("engram1.tables", "engram1.tables"),
            ("engrams_12/key_proj/kernel", "engram12.key_proj"),
            ("stack/mhc_phi_pre", "mhc_phi_pre"),
            ("mtp_block/self_attn/q_proj/kernel", "mtp.q_proj"),
        ] {
            assert_eq!(class_of_rule(rule), class, "{rule}");
        }
    }

    #[test]
    fn the_longest_rule_wins_and_a_named_matrix_before_all() {
        let text = "default=2,attn=3,attn.q_proj=4,layers.1.self_attn.q_proj=1.58,engram1=3,engram1.tables=4";
        let map = BitMap::parse(text).unwrap();
        for (name, width) in [
            ("embedding", CodeWidth::Two),
            ("layers.0.self_attn.k_proj", CodeWidth::Three),
            ("layers.0.self_attn.q_proj", CodeWidth::Four),
            ("layers.1.self_attn.q_proj", CodeWidth::Ternary),
            ("engrams.0.tables", CodeWidth::Two),
            ("engrams.1.tables", CodeWidth::Four),
            ("engrams.1.key_proj", CodeWidth::Three),
            // The site's number is whole: 1 is not the beginning of 10.
            ("engrams.10.tables", CodeWidth::Two),
            ("layers.*.mhc.phi_res", CodeWidth::Two),
        ] {
            assert_eq!(map.width(name), width, "{name}");
        }
        assert_eq!(BitMap::parse(&map.to_string()).unwrap(), map);
    }

    #[test]
    fn texts_come_back() {
        for text in ["4", "2", "3", "1.58", "default=2,embedding=4", "default=4,group=32"] {
            assert_eq!(BitMap::parse(text).unwrap().to_string(), text);
        }
        let lines = BitMap::parse("default=2\nembedding = 4,\n\nattn=ternary\n").unwrap();
        assert_eq!(lines.to_string(), "default=2,attn=1.58,embedding=4");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("", "default"),
            ("5", "expected NAME=BITS"),
            ("embedding=4", "default=BITS"),
            ("default=2,embedding=5", "embedding=5"),
            ("default=2,default=3", "twice"),
            ("default=2,=3", "=3"),
            ("default=2,group=x", "group=x"),
        ] {
            let error = BitMap::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text:?}: {error}");
        }
    }
}
