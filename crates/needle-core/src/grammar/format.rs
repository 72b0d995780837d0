//! The named formats as regular expressions on the whole string. Each admits only what the last check admits as well.

use crate::schema::Format;

/// The expression of `format`, anchored by its use.
pub(super) fn expression(format: Format) -> String {
    match format {
        Format::Date => date(),
        Format::Time => time(),
        Format::DateTime => format!("(?:{})[Tt](?:{})", date(), time()),
        Format::Duration => duration(),
        Format::Email => format!("{LOCAL_PART}@(?:{})", hostname()),
        Format::Hostname => hostname(),
        Format::Ipv4 => ipv4(),
        Format::Ipv6 => ipv6(),
        Format::Uuid => "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}".into(),
        Format::Uri => uri(),
    }
}

/// The longest string of a format that limits its length.
pub(super) fn longest(format: Format) -> Option<u32> {
    match format {
        Format::Hostname => Some(253),
        Format::Email => Some(254),
        _ => None,
    }
}

/// The part of an address before the `@`: words of RFC 5322 with single dots between them, at most 64 characters, which
/// five words of twelve make sure of.
const LOCAL_PART: &str = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,12}(?:\\.?[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,12}){0,4}";

/// RFC 3339 dates, with February 29 in leap years only.
fn date() -> String {
    let long = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])";
    let short = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)";
    let february = "02-(?:0[1-9]|1[0-9]|2[0-8])";
    let leap = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    format!("[0-9]{{4}}-(?:{long}|{short}|{february})|{leap}-02-29")
}

/// RFC 3339 times with their offset; no leap seconds.
fn time() -> String {
    let clock = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";
    format!("{clock}:[0-5][0-9](?:\\.[0-9]{{1,9}})?(?:[Zz]|[+-]{clock})")
}

/// RFC 3339 appendix A.
fn duration() -> String {
    let n = "[0-9]{1,9}";
    let time = format!("T(?:{n}H(?:{n}M(?:{n}S)?)?|{n}M(?:{n}S)?|{n}S)");
    let date = format!("(?:{n}Y(?:{n}M(?:{n}D)?)?|{n}M(?:{n}D)?|{n}D)");
    format!("P(?:{date}(?:{time})?|{time}|{n}W)")
}

/// Labels of letters, digits and single hyphens. A double hyphen would start an encoded label that may not decode.
fn hostname() -> String {
    let label = "[a-zA-Z0-9](?:-?[a-zA-Z0-9]){0,31}";
    format!("{label}(?:\\.{label})*")
}

fn ipv4() -> String {
    let byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    format!("{byte}(?:\\.{byte}){{3}}")
}

/// Eight groups, or fewer around one `::`; the last two groups may be an IPv4 address.
fn ipv6() -> String {
    let group = "[0-9a-fA-F]{1,4}";
    let v4 = ipv4();
    let mut forms = vec![format!("(?:{group}:){{7}}{group}"), format!("(?:{group}:){{6}}{v4}")];
    for before in 0..=7_usize {
        let head = match before {
            0 => "::".to_string(),
            1 => format!("{group}::"),
            n => format!("{group}(?::{group}){{{}}}::", n - 1),
        };
        let room = 7 - before;
        let mut tails = Vec::new();
        if room >= 1 {
            tails.push(format!("{group}(?::{group}){{0,{}}}", room - 1));
        }
        if room >= 2 {
            tails.push(format!("(?:{group}:){{0,{}}}{v4}", room - 2));
        }
        forms.push(match tails.is_empty() {
            true => head,
            false => format!("{head}(?:{})?", tails.join("|")),
        });
    }
    forms.join("|")
}

/// RFC 3986 with a scheme: an authority and a path, or a path alone, then query and fragment.
fn uri() -> String {
    let plain = "a-zA-Z0-9._~!$&'()*+,;=\\-";
    let encoded = "%[0-9a-fA-F]{2}";
    let path_char = format!("(?:[{plain}:@]|{encoded})");
    let tail_char = format!("(?:[{plain}:@/?]|{encoded})");
    let user = format!("(?:(?:[{plain}:]|{encoded})*@)?");
    let host = format!("(?:(?:[{plain}]|{encoded})+|\\[(?:{})\\])", ipv6());
    let authority = format!("//{user}{host}(?::[0-9]{{0,5}})?(?:/{path_char}*)*");
    let path = format!("/?{path_char}+(?:/{path_char}*)*");
    format!("[a-zA-Z][a-zA-Z0-9+.-]*:(?:{authority}|{path})(?:\\?{tail_char}*)?(?:#{tail_char}*)?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: Format, good: &[&str], bad: &[&str]) {
        let mut regex = llguidance::derivre::Regex::new(&expression(format)).unwrap();
        let schema = serde_json::json!({ "format": format.name() });
        let judge = jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&schema)
            .unwrap();
        for text in good {
            assert!(regex.is_match(text), "{format:?} should admit {text:?}");
            assert!(
                judge.is_valid(&(*text).into()),
                "{format:?}: the last check refuses {text:?}"
            );
        }
        for text in bad {
            assert!(!regex.is_match(text), "{format:?} should refuse {text:?}");
        }
    }

    #[test]
    fn dates_and_times() {
        let good = ["2024-02-29", "2000-02-29", "2023-12-31", "0000-01-01", "1999-11-30"];
        check(
            Format::Date,
            &good,
            &[
                "2023-02-29",
                "1900-02-29",
                "2024-04-31",
                "2024-13-01",
                "24-01-01",
                "2024-1-1",
            ],
        );
        check(
            Format::Time,
            &["07:30:00Z", "23:59:59.123+02:00", "00:00:00z"],
            &["7:30:00Z", "24:00:00Z", "07:30Z", "07:30:00"],
        );
        let good = ["2024-02-29T07:30:00Z", "2024-01-01t00:00:00-11:30"];
        check(
            Format::DateTime,
            &good,
            &["2024-02-29 07:30:00Z", "2024-02-29", "2023-02-29T07:30:00Z"],
        );
        check(
            Format::Duration,
            &["P1D", "PT15M", "P1Y2M3DT4H5M6S", "P3W"],
            &["P", "PT", "1D", "P1Y3D", "P1WT1H"],
        );
    }

    #[test]
    fn names_and_addresses() {
        let good = ["a@b.co", "ann.lee+x@example.org", "o'neil@mail-1.example.com"];
        check(
            Format::Email,
            &good,
            &["a@", "@b.co", "a b@c.de", "a..b@c.de", "a@-b.de", "a@b--c.de"],
        );
        check(
            Format::Hostname,
            &["localhost", "a-b.example.com", "3com.com"],
            &["", "-a.com", "a-.com", "a..b", "a_b", "xn--a.com"],
        );
        check(
            Format::Ipv4,
            &["0.0.0.0", "192.168.1.255"],
            &["256.1.1.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"],
        );
        let good = [
            "::",
            "::1",
            "1::",
            "fe80::1:2",
            "1:2:3:4:5:6:7:8",
            "::ffff:1.2.3.4",
            "1:2:3:4:5:6:1.2.3.4",
            "1:2:3:4:5:6:7::",
        ];
        check(
            Format::Ipv6,
            &good,
            &["1:2:3", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9", ":1", "::1.2.3"],
        );
        check(
            Format::Uuid,
            &["123e4567-e89b-12d3-a456-426614174000"],
            &[
                "123e4567e89b12d3a456426614174000",
                "123e4567-e89b-12d3-a456-42661417400g",
            ],
        );
        let good = [
            "https://example.org/a?b=c#d",
            "mailto:ann@example.org",
            "urn:isbn:12",
            "http://[::1]:80/",
            "file:/etc/x",
            "ftp://u:p@h/%20",
        ];
        check(
            Format::Uri,
            &good,
            &["example.org", "//a/b", "http://a b", "http:// ", "https:", "1http://a"],
        );
    }
}
