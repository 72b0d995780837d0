//! The everyday tools of the demo model: each under several names, with the ways to ask for it.
//!
//! In a phrasing `{0}` stands for the first parameter, `{1:lock|unlock}` for one of two words by a truth value, `[…]` may be left out.

use super::value::{Kind, Source::*};

/// A parameter: its names, the values it takes, and whether a call must have it.
pub(super) struct Parameter {
    pub(super) names: &'static [&'static str],
    pub(super) kind: Kind,
    pub(super) need: Need,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Need {
    Required,
    Optional,
}

/// A tool before it has a name.
pub(super) struct Sketch {
    pub(super) names: &'static [&'static str],
    pub(super) descriptions: &'static [&'static str],
    pub(super) parameters: &'static [Parameter],
    pub(super) phrasings: &'static [&'static str],
}

const fn required(names: &'static [&'static str], kind: Kind) -> Parameter {
    Parameter {
        names,
        kind,
        need: Need::Required,
    }
}

const fn optional(names: &'static [&'static str], kind: Kind) -> Parameter {
    Parameter {
        names,
        kind,
        need: Need::Optional,
    }
}

pub(super) const SKETCHES: &[Sketch] = &[
    Sketch {
        names: &[
            "get_weather",
            "weather_now",
            "check_weather",
            "current_weather",
            "forecast",
        ],
        descriptions: &[
            "Get the current weather for a city.",
            "Look up the weather in a place.",
            "Current conditions for a location.",
        ],
        parameters: &[required(&["city", "location", "place", "town"], Kind::Text(&[City]))],
        phrasings: &[
            "what's the weather in {0}",
            "how is it in {0} right now",
            "weather for {0} please",
            "is it raining in {0}",
            "tell me the forecast in {0}",
            "what's it like in {0}",
        ],
    },
    Sketch {
        names: &[
            "set_lights",
            "control_lights",
            "light_control",
            "dim_lights",
            "lamp_brightness",
        ],
        descriptions: &[
            "Set the brightness of the lights in a room.",
            "Control a room's lights.",
            "Dim or brighten lamps.",
        ],
        parameters: &[
            required(&["room", "area", "zone"], Kind::Text(&[Room])),
            required(&["brightness", "level", "percent"], Kind::Integer(0, 100)),
        ],
        phrasings: &[
            "dim the {0} to {1}",
            "set the {0} lights to {1} percent",
            "{0} lights at {1}",
            "make the {0} lights {1}%",
            "brightness {1} in the {0}",
        ],
    },
    Sketch {
        names: &["switch_lights", "toggle_light", "lights_power"],
        descriptions: &["Turn the lights in a room on or off.", "Switch a light."],
        parameters: &[
            required(&["room", "area", "zone"], Kind::Text(&[Room])),
            required(&["state", "action", "power"], Kind::Choice(&["on", "off"])),
        ],
        phrasings: &[
            "turn {1} the {0} lights",
            "{0} lights {1}",
            "switch {1} the light in the {0}",
            "lights {1} in the {0} please",
        ],
    },
    Sketch {
        names: &["set_thermostat", "set_temperature", "heating_target"],
        descriptions: &[
            "Set the thermostat to a temperature.",
            "Set the target temperature in Celsius.",
        ],
        parameters: &[required(
            &["temperature", "degrees", "celsius", "target"],
            Kind::Integer(10, 30),
        )],
        phrasings: &[
            "set it to {0} degrees",
            "make it {0} in here",
            "thermostat to {0}",
            "I want {0} degrees",
            "heat the house to {0}",
        ],
    },
    Sketch {
        names: &["set_timer", "start_timer", "countdown", "kitchen_timer"],
        descriptions: &["Start a countdown timer.", "Set a timer for some minutes."],
        parameters: &[required(
            &["minutes", "duration_minutes", "mins", "length"],
            Kind::Integer(1, 180),
        )],
        phrasings: &[
            "set a timer for {0} minutes",
            "timer {0} minutes",
            "count down {0} minutes",
            "remind me in {0} minutes",
            "start a {0} minute timer",
        ],
    },
    Sketch {
        names: &["set_alarm", "create_alarm", "wake_me", "alarm_at"],
        descriptions: &["Set an alarm at a time of day.", "Create a wake-up alarm."],
        parameters: &[
            required(&["time", "at", "when"], Kind::Text(&[Time])),
            optional(&["label", "name", "title"], Kind::Text(&[Topic])),
        ],
        phrasings: &[
            "wake me at {0}",
            "alarm for {0}[ for {1}]",
            "set an alarm at {0}[ called {1}]",
            "get me up at {0}[ for the {1}]",
        ],
    },
    Sketch {
        names: &["send_email", "email_send", "compose_email", "mail_to"],
        descriptions: &["Send an email to a recipient.", "Write and send an email."],
        parameters: &[
            required(&["to", "recipient", "address"], Kind::Text(&[Email])),
            required(&["subject", "title", "about"], Kind::Text(&[Topic])),
            optional(&["body", "text", "message"], Kind::Text(&[Message])),
        ],
        phrasings: &[
            "email {0} about {1}[ saying {2}]",
            "send an email to {0}, subject {1}[, body {2}]",
            "write to {0} about the {1}[: {2}]",
            "mail {0} subject {1}[ text {2}]",
        ],
    },
    Sketch {
        names: &["send_message", "text_contact", "send_sms", "message_person"],
        descriptions: &["Send a text message to a contact.", "Text someone."],
        parameters: &[
            required(&["contact", "to", "person", "recipient"], Kind::Text(&[Person])),
            required(&["message", "text", "body", "content"], Kind::Text(&[Message])),
        ],
        phrasings: &[
            "text {0} {1}",
            "tell {0} that {1}",
            "send {0} a message: {1}",
            "message {0} saying {1}",
            "let {0} know {1}",
        ],
    },
    Sketch {
        names: &["call_contact", "phone_call", "dial", "make_call"],
        descriptions: &["Call a person or number.", "Start a phone call."],
        parameters: &[required(
            &["contact", "who", "person", "number"],
            Kind::Text(&[Person, Phone]),
        )],
        phrasings: &[
            "call {0}",
            "ring {0}",
            "phone {0} please",
            "give {0} a call",
            "dial {0}",
        ],
    },
    Sketch {
        names: &["create_event", "add_calendar_event", "schedule_meeting", "calendar_add"],
        descriptions: &["Add an event to the calendar.", "Schedule a meeting."],
        parameters: &[
            required(&["title", "event", "name", "subject"], Kind::Text(&[Topic])),
            required(&["day", "date", "on"], Kind::Text(&[Day])),
            optional(&["time", "start", "at"], Kind::Text(&[Time])),
        ],
        phrasings: &[
            "schedule {0} on {1}[ at {2}]",
            "add {0} to my calendar {1}[ at {2}]",
            "put {0} on {1}[ {2}]",
            "book {0} for {1}[ at {2}]",
        ],
    },
    Sketch {
        names: &["add_to_list", "shopping_add", "add_item", "cart_add"],
        descriptions: &["Add an item to the shopping list.", "Put something on a list."],
        parameters: &[
            required(&["item", "product", "thing"], Kind::Text(&[Item])),
            optional(&["quantity", "count", "amount"], Kind::Integer(1, 24)),
        ],
        phrasings: &[
            "add [{1} ]{0} to my list",
            "put [{1} ]{0} on the shopping list",
            "I need [{1} ]{0}",
            "buy [{1} ]{0}",
        ],
    },
    Sketch {
        names: &["play_song", "play_music", "start_track", "music_play"],
        descriptions: &["Play a song.", "Play music by title and artist."],
        parameters: &[
            required(&["title", "song", "track"], Kind::Text(&[Song])),
            optional(&["artist", "by", "band"], Kind::Text(&[Artist])),
        ],
        phrasings: &[
            "play {0}[ by {1}]",
            "put on {0}[ by {1}]",
            "I want to hear {0}[ from {1}]",
            "start {0}[ by {1}]",
        ],
    },
    Sketch {
        names: &["navigate_to", "get_directions", "route_to", "directions"],
        descriptions: &["Navigate to a destination.", "Get directions to a place."],
        parameters: &[
            required(&["destination", "to", "place", "address"], Kind::Text(&[City, Thing])),
            optional(
                &["mode", "by", "transport"],
                Kind::Choice(&["driving", "walking", "cycling", "transit"]),
            ),
        ],
        phrasings: &[
            "take me to {0}[ {1}]",
            "directions to {0}[ by {1}]",
            "navigate to {0}[ {1}]",
            "how do I get to {0}[ {1}]",
        ],
    },
    Sketch {
        names: &["translate_text", "translate", "to_language"],
        descriptions: &["Translate text into a language.", "Translate a phrase."],
        parameters: &[
            required(&["text", "phrase", "sentence"], Kind::Text(&[Message])),
            required(&["language", "target", "into"], Kind::Text(&[Language])),
        ],
        phrasings: &[
            "translate {0} to {1}",
            "how do you say {0} in {1}",
            "say {0} in {1}",
            "{0} in {1} please",
        ],
    },
    Sketch {
        names: &["track_package", "parcel_status", "order_status", "find_order"],
        descriptions: &["Look up the status of a package.", "Track an order by its number."],
        parameters: &[required(
            &["tracking_id", "order_id", "code", "number"],
            Kind::Text(&[Code]),
        )],
        phrasings: &[
            "where is my package {0}",
            "track {0}",
            "status of order {0}",
            "has {0} shipped",
            "check parcel {0}",
        ],
    },
    Sketch {
        names: &["convert_currency", "exchange", "fx_convert"],
        descriptions: &["Convert an amount of money between currencies.", "Currency conversion."],
        parameters: &[
            required(&["amount", "value", "sum"], Kind::Number(1, 5000)),
            required(
                &["from_currency", "source", "from"],
                Kind::Choice(&["USD", "EUR", "GBP", "JPY", "NGN"]),
            ),
            required(
                &["to_currency", "target", "to"],
                Kind::Choice(&["USD", "EUR", "GBP", "JPY", "NGN"]),
            ),
        ],
        phrasings: &[
            "convert {0} {1} to {2}",
            "how much is {0} {1} in {2}",
            "{0} {1} in {2}",
            "change {0} {1} into {2}",
        ],
    },
    Sketch {
        names: &["lock_door", "door_lock", "secure_door"],
        descriptions: &["Lock or unlock a door.", "Control a smart lock."],
        parameters: &[
            required(
                &["door", "which", "entrance"],
                Kind::Choice(&["front", "back", "garage", "side"]),
            ),
            required(&["locked", "lock", "secure"], Kind::Truth),
        ],
        phrasings: &[
            "{1:lock|unlock} the {0} door",
            "please {1:lock|unlock} the {0} door",
            "{1:lock|unlock} {0}",
        ],
    },
    Sketch {
        names: &["record_contact", "contact", "extract_contact", "person_card"],
        descriptions: &["Contact details found in a text.", "A person's contact record."],
        parameters: &[
            required(&["name", "full_name", "person"], Kind::Text(&[Person])),
            optional(&["email", "mail", "address"], Kind::Text(&[Email])),
            optional(&["phone", "tel", "number"], Kind::Text(&[Phone])),
        ],
        phrasings: &[
            "{0}[ can be reached at {1}][, phone {2}]",
            "Contact: {0}[ <{1}>][ tel {2}]",
            "my name is {0}[, email {1}][, call {2}]",
            "{0}[, {1}][, {2}]",
        ],
    },
    Sketch {
        names: &["invoice", "extract_invoice", "bill_record", "receipt"],
        descriptions: &["An invoice as text.", "Fields of a bill or receipt."],
        parameters: &[
            required(&["vendor", "merchant", "from", "company"], Kind::Text(&[Artist])),
            required(&["total", "amount", "price"], Kind::Number(1, 4000)),
            optional(&["number", "invoice_id", "ref"], Kind::Text(&[Code])),
        ],
        phrasings: &[
            "Invoice from {0}, total ${1}[, ref {2}]",
            "{0} receipt[ {2}]: total {1}",
            "bill by {0}[ no {2}] amount {1}",
            "Paid {1} to {0}[ (invoice {2})]",
        ],
    },
];
