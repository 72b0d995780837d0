//! One line of training data: a few tools, a request for one of them, the call; or a request for none of them.

use serde_json::{Map, Value, json};

use super::{
    dice::Dice,
    tools::{Need, SKETCHES, Sketch},
    value::{Kind, Source, capital, made_up_word, spoken},
    words::{ADJECTIVES, CHATTER, NOUNS, PARAMETERS, VERBS},
};

const TOOLS_A_LINE: &[usize] = &[1, 1, 2, 2, 3, 3, 4];
const MADE_UP_PERCENT: i64 = 35;
const REFUSAL_PERCENT: i64 = 12;
const DOUBLE_PERCENT: i64 = 8;

/// A tool with its name and its parameters' names.
struct Tool {
    /// The sketch it comes from; a made-up tool has none.
    sketch: Option<usize>,
    name: String,
    schema: Value,
    parameters: Vec<(String, Kind, Need)>,
    phrasings: Vec<String>,
}

pub(super) fn line(dice: &mut Dice) -> Value {
    let mut tools: Vec<Tool> = Vec::new();
    let wanted = *dice.pick(TOOLS_A_LINE);
    while tools.len() < wanted {
        let tool = match dice.percent(MADE_UP_PERCENT) {
            true => made_up(dice),
            false => everyday(dice),
        };
        let known = |other: &Tool| other.name == tool.name || (tool.sketch.is_some() && other.sketch == tool.sketch);
        if !tools.iter().any(known) {
            tools.push(tool);
        }
    }
    let (query, answers) = match dice.percent(REFUSAL_PERCENT) {
        true => (unanswerable(dice, &tools), vec![]),
        false => request(dice, &tools),
    };
    let schemas: Vec<_> = tools.into_iter().map(|tool| tool.schema).collect();
    json!({ "query": dressed(dice, query), "tools": schemas, "answers": answers })
}

fn request(dice: &mut Dice, tools: &[Tool]) -> (String, Vec<Value>) {
    let (mut query, call) = dice.pick(tools).call(dice);
    let mut calls = vec![call];
    if dice.percent(DOUBLE_PERCENT) {
        let (second, call) = dice.pick(tools).call(dice);
        query += dice.word(&[" and ", " and then ", ", also "]);
        query += &second;
        calls.push(call);
    }
    (query, calls)
}

/// Chatter, or a request for an everyday tool that is not among these.
fn unanswerable(dice: &mut Dice, tools: &[Tool]) -> String {
    if dice.percent(30) {
        return dice.word(CHATTER).to_owned();
    }
    loop {
        let other = everyday(dice);
        if tools.iter().all(|tool| tool.sketch != other.sketch) {
            return other.call(dice).0;
        }
    }
}

fn dressed(dice: &mut Dice, mut query: String) -> String {
    if dice.percent(30) {
        query = capital(&query);
    }
    if dice.percent(15) {
        query += dice.word(&[".", "!", "?", " please", " thanks"]);
    }
    query
}

fn everyday(dice: &mut Dice) -> Tool {
    let sketch = dice.between(0, SKETCHES.len() as i64 - 1) as usize;
    let Sketch {
        names,
        descriptions,
        parameters,
        phrasings,
    } = &SKETCHES[sketch];
    let mut named: Vec<(String, Kind, Need)> = Vec::new();
    for parameter in *parameters {
        let free: Vec<_> = parameter
            .names
            .iter()
            .filter(|name| named.iter().all(|(taken, ..)| taken != *name))
            .collect();
        let name = match free.is_empty() {
            true => format!("{}_2", parameter.names[0]),
            false => (**dice.pick(&free)).to_owned(),
        };
        named.push((name, parameter.kind.clone(), parameter.need));
    }
    let phrasings = phrasings.iter().map(|text| (*text).to_owned()).collect();
    let name = dice.word(names).to_owned();
    let description = dice.pick(descriptions);
    Tool::new(dice, Some(sketch), name, description, named, phrasings)
}

/// A tool that no one has, so that the model reads schemas instead of remembering them.
fn made_up(dice: &mut Dice) -> Tool {
    const TEXTS: &[Source] = &[
        Source::Thing,
        Source::Code,
        Source::Person,
        Source::City,
        Source::Time,
        Source::Word,
    ];
    let (verb, noun) = (dice.word(VERBS), dice.word(NOUNS));
    let name = match dice.percent(67) {
        true => format!("{verb}_{noun}"),
        false => format!("{verb}{}", capital(noun)),
    };
    let mut parameters: Vec<(String, Kind, Need)> = Vec::new();
    let mut spoken = Vec::new();
    for place in 0..dice.between(1, 3) {
        let mut name = match dice.percent(6) {
            true => made_up_word(dice),
            false => dice.word(PARAMETERS).to_owned(),
        };
        while parameters.iter().any(|(taken, ..)| *taken == name) {
            name += dice.word(&["_a", "_b", "_x", "_2"]);
        }
        let words = name.replace('_', " ");
        spoken.push(match dice.between(0, 4) {
            0 => format!("{words} {{{place}}}"),
            1 => format!("with {words} {{{place}}}"),
            2 => format!("at {{{place}}}"),
            3 => format!("for {{{place}}}"),
            _ => format!("{{{place}}}"),
        });
        parameters.push((name, made_up_kind(dice, TEXTS), Need::Required));
    }
    let base = dice.pick(&["{v} the {n}", "please {v} the {n}", "{v} {n}", "can you {v} the {n}"]);
    let base = base.replace("{v}", verb).replace("{n}", noun);
    let phrasing = format!("{base} {}", spoken.join(dice.word(&[", ", " "])));
    let description = format!("{} {} {noun}.", capital(verb), dice.pick(&["a", "the"]));
    Tool::new(dice, None, name, &description, parameters, vec![phrasing])
}

fn made_up_kind(dice: &mut Dice, texts: &'static [Source]) -> Kind {
    match dice.between(0, 6) {
        0 => {
            let low = dice.between(0, 5);
            Kind::Integer(low, low + dice.between(5, 500))
        }
        1 => {
            let mut words: Vec<String> = Vec::new();
            let wanted = dice.between(2, 4) as usize;
            while words.len() < wanted {
                let word = match dice.percent(4) {
                    true => made_up_word(dice),
                    false => dice.word(ADJECTIVES).to_owned(),
                };
                if !words.contains(&word) {
                    words.push(word);
                }
            }
            Kind::Words(words)
        }
        _ => Kind::Text(texts),
    }
}

impl Tool {
    fn new(
        dice: &mut Dice,
        sketch: Option<usize>,
        name: String,
        description: &str,
        parameters: Vec<(String, Kind, Need)>,
        phrasings: Vec<String>,
    ) -> Self {
        let mut schema = Map::new();
        schema.insert("name".into(), name.clone().into());
        if dice.percent(75) {
            schema.insert("description".into(), description.into());
        }
        let properties: Map<_, _> = parameters
            .iter()
            .map(|(name, kind, _)| (name.clone(), kind.schema(dice)))
            .collect();
        let required = parameters.iter().filter(|(.., need)| *need == Need::Required);
        let required: Vec<_> = required.map(|(name, ..)| name.clone()).collect();
        schema.insert(
            "parameters".into(),
            json!({ "type": "object", "properties": properties, "required": required }),
        );
        Self {
            sketch,
            name,
            schema: schema.into(),
            parameters,
            phrasings,
        }
    }

    /// A request in words, and the call that it asks for.
    fn call(&self, dice: &mut Dice) -> (String, Value) {
        let values: Vec<_> = self.parameters.iter().map(|(_, kind, _)| kind.value(dice)).collect();
        let mut used: Vec<_> = self
            .parameters
            .iter()
            .map(|(.., need)| *need == Need::Required)
            .collect();
        let phrasing = dice.pick(&self.phrasings).clone();
        let mut query = String::new();
        for part in parts(&phrasing) {
            match part {
                Part::Always(text) => query += &fill(text, &values, &mut used),
                Part::Perhaps(text) if dice.percent(55) => query += &fill(text, &values, &mut used),
                Part::Perhaps(_) => {}
            }
        }
        let arguments = self.parameters.iter().zip(values).zip(used).filter(|(_, used)| *used);
        let arguments: Map<_, _> = arguments
            .map(|(((name, ..), value), _)| (name.clone(), value))
            .collect();
        (query, json!({ "name": self.name, "arguments": arguments }))
    }
}

enum Part<'a> {
    Always(&'a str),
    Perhaps(&'a str),
}

/// A phrasing cut at its square brackets.
fn parts(phrasing: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for piece in phrasing.split('[') {
        match piece.split_once(']') {
            Some((perhaps, always)) => parts.extend([Part::Perhaps(perhaps), Part::Always(always)]),
            None => parts.push(Part::Always(piece)),
        }
    }
    parts
}

/// Values in the places of `{0}` and `{1:yes|no}`.
fn fill(text: &str, values: &[Value], used: &mut [bool]) -> String {
    let mut filled = String::new();
    let mut pieces = text.split('{');
    filled += pieces.next().unwrap_or_default();
    for piece in pieces {
        let (place, rest) = piece.split_once('}').unwrap_or((piece, ""));
        let (index, words) = place
            .split_once(':')
            .map_or((place, None), |(index, words)| (index, words.split_once('|')));
        let index: usize = index.parse().unwrap_or_default();
        used[index] = true;
        filled += &match words {
            Some((yes, no)) => (if values[index] == true { yes } else { no }).to_owned(),
            None => spoken(&values[index]),
        };
        filled += rest;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_calls_its_own_tools_with_all_that_they_require() {
        let mut dice = Dice(7);
        let lines: Vec<_> = (0..2000).map(|_| line(&mut dice)).collect();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for line in &lines {
            for call in list(&line["answers"]) {
                let tools = list(&line["tools"]);
                let tool = tools.iter().find(|tool| tool["name"] == call["name"]);
                let required = list(&tool.expect("a tool of the line")["parameters"]["required"]);
                for name in required {
                    assert!(
                        !call["arguments"][name.as_str().unwrap_or_default()].is_null(),
                        "{line}"
                    );
                }
            }
            assert!(
                !line["query"].as_str().unwrap_or_default().contains(['{', '[']),
                "{line}"
            );
        }
        let count = |calls| {
            lines
                .iter()
                .filter(|line| list(&line["answers"]).len() == calls)
                .count()
        };
        assert!((180..300).contains(&count(0)), "12 % refusals");
        assert!((90..190).contains(&count(2)), "8 % of the rest double");
    }
}
