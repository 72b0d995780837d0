//! Values of parameters, as a call holds them and as a person says them.

use serde_json::{Value, json};

use super::{dice::Dice, words::*};

/// What a parameter takes.
#[derive(Clone)]
pub(super) enum Kind {
    Text(&'static [Source]),
    Choice(&'static [&'static str]),
    Words(Vec<String>),
    Integer(i64, i64),
    Number(i64, i64),
    Truth,
}

/// Where a text comes from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Artist,
    City,
    Code,
    Day,
    Email,
    Item,
    Language,
    Message,
    Person,
    Phone,
    Room,
    Song,
    Thing,
    Time,
    Topic,
    Word,
}

impl Kind {
    pub(super) fn value(&self, dice: &mut Dice) -> Value {
        match self {
            Self::Text(sources) => dice.pick(sources).text(dice).into(),
            Self::Choice(words) => dice.word(words).into(),
            Self::Words(words) => dice.pick(words).clone().into(),
            Self::Integer(low, high) => dice.between(*low, *high).into(),
            Self::Number(low, high) => match dice.percent(60) {
                true => json!(dice.between(low * 100, high * 100) as f64 / 100.0),
                false => json!(dice.between(*low, *high)),
            },
            Self::Truth => dice.percent(50).into(),
        }
    }

    pub(super) fn schema(&self, dice: &mut Dice) -> Value {
        match self {
            Self::Text(_) => json!({ "type": "string" }),
            Self::Choice(words) => json!({ "type": "string", "enum": words }),
            Self::Words(words) => json!({ "type": "string", "enum": words }),
            Self::Integer(low, high) if dice.percent(40) => {
                json!({ "type": "integer", "minimum": low, "maximum": high })
            }
            Self::Integer(..) => json!({ "type": "integer" }),
            Self::Number(..) => json!({ "type": "number" }),
            Self::Truth => json!({ "type": "boolean" }),
        }
    }
}

/// A value in a sentence.
pub(super) fn spoken(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Source {
    fn text(self, dice: &mut Dice) -> String {
        match self {
            Self::Artist => pick(dice, ARTISTS),
            Self::City if dice.percent(20) => capital(&made_up_word(dice)),
            Self::City => pick(dice, CITIES),
            Self::Code => code(dice),
            Self::Day => pick(dice, DAYS),
            Self::Email => email(dice),
            Self::Item if dice.percent(30) => thing(dice),
            Self::Item => pick(dice, GOODS),
            Self::Language => pick(dice, LANGUAGES),
            Self::Message => message(dice),
            Self::Person if dice.percent(40) => format!("{} {}", dice.pick(FIRST_NAMES), dice.pick(LAST_NAMES)),
            Self::Person => pick(dice, FIRST_NAMES),
            Self::Phone => phone(dice),
            Self::Room => pick(dice, ROOMS),
            Self::Song => pick(dice, SONGS),
            Self::Thing => thing(dice),
            Self::Time => time(dice),
            Self::Topic => pick(dice, TOPICS),
            Self::Word => made_up_word(dice),
        }
    }
}

fn pick(dice: &mut Dice, words: &[&'static str]) -> String {
    dice.word(words).to_owned()
}

pub(super) fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// A pronounceable word that means nothing, so that copying is learnt and not the vocabulary.
pub(super) fn made_up_word(dice: &mut Dice) -> String {
    const ENDS: &[&str] = &["", "n", "r", "s", "x", "t"];
    let mut word = String::new();
    for _ in 0..dice.between(2, 3) {
        word.push(*dice.pick(b"bcdfghjklmnprstvwz") as char);
        word.push(*dice.pick(b"aeiou") as char);
    }
    word + dice.word(ENDS)
}

fn thing(dice: &mut Dice) -> String {
    let noun = match dice.percent(4) {
        true => made_up_word(dice),
        false => pick(dice, NOUNS),
    };
    match dice.percent(50) {
        true => format!("{} {noun}", dice.pick(ADJECTIVES)),
        false => noun,
    }
}

fn code(dice: &mut Dice) -> String {
    let letter = |dice: &mut Dice| *dice.pick(b"ABCDEFGHJKLMNPQRSTUVWXYZ") as char;
    match dice.between(0, 2) {
        0 => format!("{}{}-{}", letter(dice), letter(dice), dice.between(100, 9999)),
        1 => dice.between(1000, 99999).to_string(),
        _ => format!("{:.4}{}", made_up_word(dice).to_uppercase(), dice.between(10, 99)),
    }
}

fn email(dice: &mut Dice) -> String {
    const HOSTS: &[&str] = &["mail", "post", "work", "acme", "north", "corp", "uni"];
    const DOMAINS: &[&str] = &["com", "org", "dev", "io", "net", "edu"];
    let mut name = dice.pick(FIRST_NAMES).to_lowercase();
    if dice.percent(50) {
        name += &format!(".{}", dice.pick(LAST_NAMES).to_lowercase());
    }
    format!("{name}@{}.{}", dice.pick(HOSTS), dice.pick(DOMAINS))
}

fn phone(dice: &mut Dice) -> String {
    format!(
        "{}-{}-{}",
        dice.between(200, 999),
        dice.between(200, 999),
        dice.between(1000, 9999)
    )
}

fn time(dice: &mut Dice) -> String {
    const HALVES: &[&str] = &["am", "pm"];
    const MINUTES: &[&str] = &["00", "05", "15", "20", "30", "45"];
    match dice.between(0, 2) {
        0 => format!("{}{}", dice.between(1, 12), dice.pick(HALVES)),
        1 => format!("{}:{} {}", dice.between(1, 12), dice.pick(MINUTES), dice.pick(HALVES)),
        _ => format!("{:02}:{:02}", dice.between(0, 23), dice.between(0, 59)),
    }
}

fn message(dice: &mut Dice) -> String {
    match dice.between(0, 6) {
        0 => format!("I will be there at {}", time(dice)),
        1 => format!("please send the {} report", dice.pick(NOUNS)),
        2 => format!("we need more {}", dice.pick(GOODS)),
        3 => format!("the {} is broken", dice.pick(NOUNS)),
        4 => format!("thanks for the {}", dice.pick(GOODS)),
        _ => pick(dice, REMARKS),
    }
}
