//! One failed exchange with the hub: what to tell the user, and whether another try can help.

use std::time::Duration;

use ureq::http::{HeaderMap, StatusCode};

use crate::error::{Error, HubFault};

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Nothing: the answer would be the same.
    Nothing,
    /// Ask again, after the pause that the hub asked for, if it did.
    Retry(Option<Duration>),
    /// Worth another try only when a transfer had begun; before that, the user wants to know at once.
    Resume,
    /// The file changed meanwhile: ask for its state again.
    Restart,
}

/// The outcome of one try.
pub(super) type Tried<T, F = Failure> = std::result::Result<T, F>;

#[derive(Debug)]
pub(super) struct Failure {
    pub(super) fault: HubFault,
    pub(super) reason: String,
    pub(super) remedy: Remedy,
}

impl Failure {
    pub(super) fn new(fault: HubFault, remedy: Remedy, reason: impl Into<String>) -> Self {
        Self {
            fault,
            reason: reason.into(),
            remedy,
        }
    }

    pub(super) fn into_error(self, item: &str) -> Error {
        Error::hub(item, self.fault, self.reason)
    }

    /// The connection failed, at `address`.
    pub(super) fn network(address: &str, error: &ureq::Error) -> Self {
        use std::io::ErrorKind;
        let (remedy, why) = match error {
            ureq::Error::Timeout(_) => (Remedy::Resume, "no answer in time".to_string()),
            ureq::Error::HostNotFound => (Remedy::Resume, "no host of that name".to_string()),
            ureq::Error::Io(error) => {
                let cut = matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset
                        | ErrorKind::ConnectionAborted
                        | ErrorKind::UnexpectedEof
                        | ErrorKind::BrokenPipe
                );
                (
                    if cut { Remedy::Retry(None) } else { Remedy::Resume },
                    error.to_string(),
                )
            }
            other => (Remedy::Resume, other.to_string()),
        };
        Self::new(HubFault::Network, remedy, format!("cannot reach {address}: {why}"))
    }

    /// The answer has a status that is no success.
    pub(super) fn status(status: StatusCode, headers: &HeaderMap, address: &str, had_token: bool) -> Self {
        let code = text(headers, "x-error-code").unwrap_or_default();
        let told = text(headers, "x-error-message").map(|message| format!(" ({message:.200})"));
        let told = told.unwrap_or_default();
        let fail = |fault, remedy, what: &str| Self::new(fault, remedy, format!("{what}{told}"));
        let pause = retry_after(headers);
        match status.as_u16() {
            401 if had_token => {
                let what = "401: the hub does not accept the token (HF_TOKEN, or the token file)";
                fail(HubFault::Unauthorized, Remedy::Nothing, what)
            }
            401 => {
                let what = "401: no such repository, or a private one that needs a token (HF_TOKEN)";
                fail(HubFault::Unauthorized, Remedy::Nothing, what)
            }
            403 => {
                let what = "403: access refused; a gated repository must be accepted on its page first";
                fail(HubFault::Forbidden, Remedy::Nothing, what)
            }
            404 | 410 => {
                let what = match code {
                    "RepoNotFound" => "404: no such repository",
                    "RevisionNotFound" => "404: no such revision",
                    "EntryNotFound" => "404: no such file in the repository",
                    _ => "404: no such repository, revision or file",
                };
                fail(HubFault::NotFound, Remedy::Nothing, what)
            }
            413 => fail(HubFault::TooLarge, Remedy::Nothing, "413: too large for the hub"),
            416 => fail(
                HubFault::Corrupt,
                Remedy::Restart,
                "416: the file is shorter than the part we hold",
            ),
            429 => fail(HubFault::RateLimited, Remedy::Retry(pause), "429: too many requests"),
            408 | 500..=599 => {
                let what = format!("{status} from {address}");
                fail(HubFault::Server, Remedy::Retry(pause), &what)
            }
            _ => fail(
                HubFault::Server,
                Remedy::Nothing,
                &format!("unexpected answer {status} from {address}"),
            ),
        }
    }
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get(name)?
        .to_str()
        .ok()
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

/// A pause in seconds. The form with a date is left to our own pauses: it needs two clocks that agree.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    text(headers, "retry-after")?.parse().ok().map(Duration::from_secs)
}
