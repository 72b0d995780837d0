//! Random tools and schemas out of everything that is honoured.

use serde_json::{Map, Value, json};

use super::Random;

/// One to three tools.
pub(super) fn tools(seed: u64) -> Value {
    let mut random = Random(seed);
    let count = 1 + random.below(3);
    (0..count)
        .map(|i| json!({ "name": format!("tool_{i}"), "description": "a tool", "parameters": parameters(&mut random) }))
        .collect()
}

/// One schema without definitions.
pub(super) fn one(random: &mut Random) -> Value {
    schema(random, 2, false)
}

/// The parameters of a tool; one in six has definitions, half of these recursive.
fn parameters(random: &mut Random) -> Value {
    let with_definitions = random.chance(16);
    let mut schema = object(random, 2, with_definitions);
    schema["type"] = "object".into();
    if schema.get("additionalProperties").is_none() && schema.get("properties").is_none() {
        schema["properties"] = json!({});
    }
    if with_definitions {
        schema["$defs"] = json!({
            "Place": scalar(random),
            "Tree": { "type": "object", "properties": { "v": scalar(random), "kids": { "type": "array", "items": { "$ref": "#/$defs/Tree" }, "maxItems": 2 } }, "required": ["v"] }
        });
    }
    schema
}

fn schema(random: &mut Random, depth: usize, definitions: bool) -> Value {
    if definitions && random.chance(25) {
        return json!({ "$ref": *random.pick(&["#/$defs/Place", "#/$defs/Tree"]) });
    }
    let mut schema = match random.below(if depth == 0 { 6 } else { 10 }) {
        0..=5 => scalar(random),
        6 => array(random, depth - 1, definitions),
        7 => object(random, depth - 1, definitions),
        8 => union(random, depth - 1, definitions),
        _ => merged(random),
    };
    if random.chance(20) {
        schema["description"] = "what it is".into();
    }
    schema
}

fn scalar(random: &mut Random) -> Value {
    match random.below(9) {
        0 | 1 => text(random),
        2 => integer(random),
        3 => number(random),
        4 => json!({ "type": "boolean" }),
        5 => {
            json!({ "enum": subset(random, &[json!("left half"), json!("a"), json!("ab"), json!("ä\"\\"), json!(1), json!(2.5), json!(null), json!(true), json!({ "k": [1] })]) })
        }
        6 => json!({ "const": random.pick(&[json!("x"), json!(7), json!(false), json!(["a", "b"])]) }),
        7 => json!({ "type": [*random.pick(&["string", "integer", "boolean"]), "null"] }),
        _ if random.chance(30) => json!({}),
        _ => json!({ "type": "null" }),
    }
}

fn text(random: &mut Random) -> Value {
    let mut schema = json!({ "type": "string" });
    match random.below(4) {
        0 => {
            let least = random.below(4);
            schema["minLength"] = least.into();
            schema["maxLength"] = (least + random.below(12)).into();
        }
        1 => {
            let patterns = [
                "^\\d+$",
                "^[\\w-]+$",
                "\\S",
                "^(ab|cd)*e?$",
                "^[A-Z]{2}-\\d{3}$",
                "x|y",
                "^[^a-z]",
                "\\.(jpg|png)$",
                "^.{2,5}$",
                "[äöü]",
                "^\\p{Lu}",
            ];
            schema["pattern"] = (*random.pick(&patterns)).into();
            if random.chance(40) {
                schema["maxLength"] = (6 + random.below(10)).into();
            }
        }
        2 => {
            let formats = [
                "date",
                "time",
                "date-time",
                "duration",
                "email",
                "hostname",
                "ipv4",
                "ipv6",
                "uuid",
                "uri",
            ];
            schema["format"] = (*random.pick(&formats)).into();
            if random.chance(20) {
                schema["maxLength"] = 40.into();
            }
        }
        _ => {}
    }
    schema
}

fn integer(random: &mut Random) -> Value {
    let mut schema = json!({ "type": "integer" });
    let low = random.below(400) as i64 - 200;
    if random.chance(60) {
        schema[*random.pick(&["minimum", "exclusiveMinimum"])] = low.into();
    }
    if random.chance(60) {
        schema[*random.pick(&["maximum", "exclusiveMaximum"])] = (low + 2 + random.below(3000) as i64).into();
    }
    if random.chance(25) {
        schema["multipleOf"] = random
            .pick(&[json!(2), json!(5), json!(7), json!(60), json!(2.5)])
            .clone();
    }
    schema
}

fn number(random: &mut Random) -> Value {
    let mut schema = json!({ "type": "number" });
    let low = (random.below(4000) as f64 - 2000.0) / 16.0;
    if random.chance(50) {
        schema[*random.pick(&["minimum", "exclusiveMinimum"])] = low.into();
    }
    if random.chance(50) {
        schema[*random.pick(&["maximum", "exclusiveMaximum"])] = (low + 1.0 + random.below(900) as f64 / 8.0).into();
    }
    if random.chance(25) {
        schema["multipleOf"] = random
            .pick(&[json!(0.25), json!(0.01), json!(0.5), json!(3), json!(0.1), json!(1e-3)])
            .clone();
    }
    schema
}

fn array(random: &mut Random, depth: usize, definitions: bool) -> Value {
    if random.chance(25) {
        let items = random
            .pick(&[
                json!({ "enum": ["a", "b", "c", "d"] }),
                json!({ "type": "boolean" }),
                json!({ "type": "integer", "minimum": 1, "maximum": 6 }),
            ])
            .clone();
        return json!({ "type": "array", "items": items, "uniqueItems": true, "minItems": random.below(3) });
    }
    let mut schema = json!({ "type": "array" });
    if random.chance(85) {
        schema["items"] = self::schema(random, depth, definitions);
    }
    let least = random.below(3);
    if random.chance(50) {
        schema["minItems"] = least.into();
    }
    if random.chance(60) {
        schema["maxItems"] = (least + random.below(3)).into();
    }
    if random.chance(20) {
        schema["prefixItems"] = json!([scalar(random), scalar(random)]);
    }
    schema
}

fn object(random: &mut Random, depth: usize, definitions: bool) -> Value {
    let names = ["city", "day", "to", "level", "note", "größe", "a b", "q\"t", "id"];
    let mut properties = Map::new();
    for _ in 0..random.below(5) {
        let name = *random.pick(&names);
        properties.insert(name.into(), self::schema(random, depth, definitions));
    }
    let required: Vec<Value> = properties
        .keys()
        .filter(|_| random.chance(50))
        .map(|name| name.as_str().into())
        .collect();
    let mut schema = json!({ "type": "object" });
    if random.chance(15) {
        schema["minProperties"] = (required.len() + random.below(properties.len() - required.len() + 1)).into();
    }
    if random.chance(15) {
        schema["maxProperties"] = required
            .len()
            .max(1)
            .max(schema["minProperties"].as_u64().unwrap_or(0) as usize)
            .into();
    }
    if !properties.is_empty() || random.chance(70) {
        schema["properties"] = properties.into();
    }
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    match random.below(6) {
        0 => schema["additionalProperties"] = false.into(),
        1 => schema["additionalProperties"] = scalar(random),
        2 if random.chance(30) => schema["additionalProperties"] = true.into(),
        _ => {}
    }
    schema
}

fn union(random: &mut Random, depth: usize, definitions: bool) -> Value {
    if random.chance(40) {
        let tagged = |random: &mut Random, tag: &str| json!({ "type": "object", "properties": { "kind": { "const": tag }, "value": scalar(random) }, "required": ["kind", "value"] });
        return json!({ "oneOf": [tagged(random, "a"), tagged(random, "b"), { "type": "string", "maxLength": 3 }] });
    }
    json!({ "anyOf": [schema(random, depth, definitions), schema(random, depth, definitions)] })
}

fn merged(random: &mut Random) -> Value {
    match random.below(3) {
        0 => json!({ "allOf": [integer(random), { "type": "integer", "minimum": -100, "maximum": 5000 }] }),
        1 => json!({ "allOf": [text(random), { "type": "string", "maxLength": 60 }] }),
        _ => json!({ "allOf": [
            { "type": "object", "properties": { "a": scalar(random) }, "required": ["a"] },
            { "type": "object", "properties": { "b": scalar(random), "a": {} } },
        ] }),
    }
}

fn subset(random: &mut Random, from: &[Value]) -> Vec<Value> {
    let mut values: Vec<Value> = from.iter().filter(|_| random.chance(50)).cloned().collect();
    if values.is_empty() {
        values.push(from[0].clone());
    }
    values
}
