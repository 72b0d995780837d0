//! Reads the value of one keyword: counts, bounds, lists of names, formats, patterns.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::decimal::{Decimal, Outside};
use super::fault::Fault;
use super::keywords::{SILENT_FORMATS, Type, integer_format};
use super::node::{Bound, Format, Node, Number, Text, TextRule};

/// The longest list of elements or keys that is counted one by one.
pub(crate) const COUNT_LIMIT: usize = 100_000;

/// A schema's keywords and the path they stand at.
#[derive(Clone, Copy)]
pub(crate) struct Keywords<'a, 'p> {
    pub(crate) map: &'a Map<String, Value>,
    pub(crate) at: &'p str,
}

impl<'a> Keywords<'a, '_> {
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }

    pub(crate) fn fault(&self, key: &str, reason: impl Into<String>) -> Fault {
        Fault::new(self.at, key, reason)
    }

    /// The types that `type` allows.
    pub(crate) fn types(&self) -> Result<Option<Vec<Type>>, Fault> {
        let one = |value: &Value| {
            value.as_str().and_then(Type::named).ok_or_else(|| {
                self.fault(
                    "type",
                    format!("expected null, boolean, integer, number, string, array or object, found {value}"),
                )
            })
        };
        match self.get("type") {
            None => Ok(None),
            Some(Value::Array(list)) if list.is_empty() => {
                Err(self.fault("type", "the list is empty, so nothing fits"))
            }
            Some(Value::Array(list)) => list.iter().map(one).collect::<Result<_, _>>().map(Some),
            Some(value) => Ok(Some(vec![one(value)?])),
        }
    }

    /// A count such as `minItems`.
    pub(crate) fn count(&self, key: &str) -> Result<Option<usize>, Fault> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let decimal = match value {
            Value::Number(number) => Decimal::parse(&number.to_string()).ok(),
            _ => None,
        };
        let count = decimal
            .filter(|d| !d.is_negative() && d.parts().1 == 0)
            .and_then(|d| usize::try_from(d.floor()).ok());
        match count {
            Some(count) if count <= u32::MAX as usize => Ok(Some(count)),
            _ => Err(self.fault(key, format!("expected a whole number of at least 0, found {value}"))),
        }
    }

    /// Two counts that enclose each other, such as `minItems` and `maxItems`.
    pub(crate) fn counts(&self, least: &str, most: &str) -> Result<(usize, Option<usize>), Fault> {
        let (low, high) = (self.count(least)?.unwrap_or(0), self.count(most)?);
        match high {
            Some(high) if low > high => {
                Err(self.fault(least, format!("{low} is above {most} {high}, so nothing fits")))
            }
            _ => Ok((low, high)),
        }
    }

    /// A list of strings such as `required`.
    pub(crate) fn names(&self, key: &str) -> Result<Vec<&'a str>, Fault> {
        let wrong = |value: &Value| self.fault(key, format!("expected a list of names, found {value}"));
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(value @ Value::Array(list)) => {
                let mut seen = HashSet::new();
                let mut names = Vec::new();
                for name in list {
                    let name = name.as_str().ok_or_else(|| wrong(value))?;
                    if !seen.insert(name) {
                        return Err(self.fault(key, format!("{name:?} is listed twice")));
                    }
                    names.push(name);
                }
                Ok(names)
            }
            Some(value) => Err(wrong(value)),
        }
    }

    /// The constraints on a string.
    pub(crate) fn text(&self) -> Result<Text, Fault> {
        let (shortest, longest) = self.counts("minLength", "maxLength")?;
        let mut rules = Vec::new();
        match self.get("pattern") {
            None => {}
            Some(Value::String(pattern)) => {
                if !jsonschema_regex::is_valid_ecma_regex(pattern) {
                    return Err(self.fault(
                        "pattern",
                        format!("{pattern:?} is not a regular expression of ECMA-262"),
                    ));
                }
                rules.push(TextRule::Pattern(pattern.clone()));
            }
            Some(other) => return Err(self.fault("pattern", format!("expected a string, found {other}"))),
        }
        match self.get("format") {
            None => {}
            Some(Value::String(name)) => match Format::named(name) {
                Some(format) => rules.push(TextRule::Format(format)),
                None if SILENT_FORMATS.contains(&name.as_str()) => {}
                None => return Err(self.fault("format", format!("the format {name:?} cannot be honoured"))),
            },
            Some(other) => return Err(self.fault("format", format!("expected a string, found {other}"))),
        }
        Ok(Text {
            shortest: shortest as u32,
            longest: longest.map(|longest| longest as u32),
            rules,
        })
    }

    /// The constraints on a number, or why none fits.
    pub(crate) fn number(&self, whole: bool) -> Result<Number, Fault> {
        let mut number = Number {
            whole,
            ..Number::default()
        };
        for (key, inclusive) in [("minimum", true), ("exclusiveMinimum", false)] {
            match self.decimal(key)? {
                None => {}
                Some(Ok(value)) => number.raise(Bound { value, inclusive }),
                Some(Err(Outside::FarBelow)) => number.plain = true,
                Some(Err(outside)) => return Err(self.outside(key, outside)),
            }
        }
        for (key, inclusive) in [("maximum", true), ("exclusiveMaximum", false)] {
            match self.decimal(key)? {
                None => {}
                Some(Ok(value)) => number.lower(Bound { value, inclusive }),
                Some(Err(Outside::FarAbove)) => number.plain = true,
                Some(Err(outside)) => return Err(self.outside(key, outside)),
            }
        }
        match self.decimal("multipleOf")? {
            None => {}
            Some(Ok(step)) if step > Decimal::ZERO => number.step = Some(step),
            Some(Ok(_)) => return Err(self.fault("multipleOf", "expected a number above 0")),
            Some(Err(outside)) => return Err(self.outside("multipleOf", outside)),
        }
        if let Some(name) = self.get("format").and_then(Value::as_str) {
            match integer_format(name) {
                Some((low, high)) => number.within(low, high),
                None if SILENT_FORMATS.contains(&name) || Format::named(name).is_some() => {}
                None => return Err(self.fault("format", format!("the format {name:?} cannot be honoured"))),
            }
        }
        number.settle().map_err(|reason| self.fault(number.keyword(), reason))
    }

    fn decimal(&self, key: &str) -> Result<Option<Result<Decimal, Outside>>, Fault> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(Decimal::parse(&number.to_string()))),
            Some(other) => Err(self.fault(key, format!("expected a number, found {other}"))),
        }
    }

    fn outside(&self, key: &str, outside: Outside) -> Fault {
        self.fault(
            key,
            match outside {
                Outside::FarBelow | Outside::FarAbove => "lies beyond 10^20, further than a bounded number is written",
                Outside::TooFine => "has more than 17 digits after the point",
            },
        )
    }
}

impl Number {
    pub(crate) fn raise(&mut self, bound: Bound) {
        let tighter = self
            .low
            .is_none_or(|low| bound.value > low.value || (bound.value == low.value && !bound.inclusive));
        if tighter {
            self.low = Some(bound);
        }
    }

    pub(crate) fn lower(&mut self, bound: Bound) {
        let tighter = self
            .high
            .is_none_or(|high| bound.value < high.value || (bound.value == high.value && !bound.inclusive));
        if tighter {
            self.high = Some(bound);
        }
    }

    fn within(&mut self, low: i128, high: i128) {
        let bound = |value| Bound {
            value: Decimal::whole(value),
            inclusive: true,
        };
        self.raise(bound(low));
        self.lower(bound(high));
    }

    /// The keyword to name when nothing fits.
    pub(crate) fn keyword(&self) -> &'static str {
        match (&self.low, &self.high, &self.step) {
            (Some(low), _, _) if !low.inclusive => "exclusiveMinimum",
            (Some(_), _, _) => "minimum",
            (_, Some(_), _) => "maximum",
            _ => "multipleOf",
        }
    }

    /// Whole numbers become steps of one; then the range must hold something.
    pub(crate) fn settle(&self) -> Result<Self, String> {
        let mut number = self.clone();
        if number.whole {
            let step = number.step.unwrap_or(Decimal::ONE);
            let step = step
                .common_multiple(Decimal::ONE)
                .ok_or("multipleOf has too many digits")?;
            number.step = (step != Decimal::ONE).then_some(step);
            number.low = number.low.map(|low| {
                let first = low.value.ceil();
                let skip = !low.inclusive && Decimal::whole(first) == low.value;
                inclusive(first + i128::from(skip))
            });
            number.high = number.high.map(|high| {
                let last = high.value.floor();
                let skip = !high.inclusive && Decimal::whole(last) == high.value;
                inclusive(last - i128::from(skip))
            });
        }
        let (Some(low), Some(high)) = (number.low, number.high) else {
            return Ok(number);
        };
        let first = match number.step {
            None => low.value,
            Some(step) => {
                let first = low.value.next_multiple(step);
                if first == low.value && !low.inclusive {
                    first.plus(step)
                } else {
                    first
                }
            }
        };
        let open = number.step.is_none() && !low.inclusive;
        let fits = first < high.value || (first == high.value && high.inclusive && !open);
        if fits {
            return Ok(number);
        }
        let (low, high) = (self.low.unwrap_or(low), self.high.unwrap_or(high));
        Err(format!("no number fits between {} and {}", show(low), show(high)))
    }

    /// Every value, where they are at most `limit` whole numbers.
    pub(crate) fn finite(&self, limit: usize) -> Option<Vec<Value>> {
        let (true, Some(low), Some(high)) = (self.whole, self.low, self.high) else {
            return None;
        };
        let step = self.step.unwrap_or(Decimal::ONE);
        let (mut value, mut all) = (low.value.next_multiple(step), Vec::new());
        while value <= high.value {
            if all.len() == limit {
                return None;
            }
            all.push(serde_json::from_str(&value.floor().to_string()).ok()?);
            value = value.plus(step);
        }
        Some(all)
    }
}

impl Text {
    /// Whether the lengths leave anything.
    pub(crate) fn settle(self, at: &str) -> Result<Node, Fault> {
        match self.longest {
            Some(longest) if self.shortest > longest => Err(Fault::new(
                at,
                "minLength",
                format!("{} is above maxLength {longest}, so nothing fits", self.shortest),
            )),
            _ => Ok(Node::Text(self)),
        }
    }
}

fn inclusive(value: i128) -> Bound {
    Bound {
        value: Decimal::whole(value),
        inclusive: true,
    }
}

fn show(bound: Bound) -> String {
    let (coefficient, scale) = bound.value.parts();
    let text = match scale {
        0 => coefficient.to_string(),
        _ => format!(
            "{}{}.{}",
            if coefficient < 0 { "-" } else { "" },
            coefficient.unsigned_abs() / 10_u128.pow(scale),
            bound.value.fraction()
        ),
    };
    match bound.inclusive {
        true => text,
        false => format!("{text} (exclusive)"),
    }
}
