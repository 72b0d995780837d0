//! Requests with a body: JSON to the hub, and the bytes of a file to where the hub wants them.
//!
//! No redirect is followed here: what is sent twice, or to another host than meant, is worse than an error.

use std::io::Read;

use serde_json::Value;
use ureq::{
    SendBody,
    http::{Request, Response, Uri},
};

use super::{
    address::Origin,
    client::{Client, bad_address, not_a_hub},
    failure::{Failure, Remedy, Tried, text},
};
use crate::error::HubFault;

/// The longest answer that is read; the hub's own have a few hundred bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;
const MAX_REASON_CHARS: usize = 200;

/// What a request is made of.
pub(super) struct Sending<'a> {
    pub(super) method: &'static str,
    pub(super) url: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a mut dyn Read,
    pub(super) size_bytes: u64,
}

impl Client {
    /// Sends JSON, or lines of it, and reads the JSON that comes back.
    pub(super) fn post(&self, url: &str, kind: &str, body: &[u8]) -> Tried<Value> {
        let answer = self.transmit(&mut Sending {
            method: "POST",
            url,
            headers: &[("content-type", kind), ("accept", kind)],
            body: &mut &*body,
            size_bytes: body.len() as u64,
        })?;
        let (parts, body) = answer.into_parts();
        let address = Origin::of_text(url)
            .map(|origin| origin.to_string())
            .unwrap_or_default();
        serde_json::from_slice(&read(body, &address)?).map_err(|_| not_a_hub(&address, &parts.headers, "no JSON"))
    }

    /// Sends a request. The token goes along to the endpoint's own host alone.
    pub(super) fn transmit(&self, sending: &mut Sending<'_>) -> Tried<Response<ureq::Body>> {
        let uri: Uri = sending.url.parse().map_err(|_| bad_address(sending.url))?;
        let origin = Origin::of(&uri).ok_or_else(|| bad_address(sending.url))?;
        // The signed address of a storage host is long and secret: errors name the host alone.
        let address = origin.to_string();
        if self.origin.is_https() && !origin.is_https() {
            let reason = format!("the hub names {address} for the bytes, which is not https");
            return Err(Failure::new(HubFault::NotAHub, Remedy::Nothing, reason));
        }
        let token = self.token.as_ref().filter(|_| origin == self.origin);
        let mut request = Request::builder().method(sending.method).uri(uri.clone());
        request = request.header("content-length", sending.size_bytes);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        for (name, value) in sending.headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(SendBody::from_reader(sending.body))
            .map_err(|_| bad_address(&address))?;
        let answer = self
            .agents
            .of(&uri)
            .run(request)
            .map_err(|error| Failure::network(&address, &error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        if status.is_redirection() {
            let reason = format!(
                "{status} from {address}: it leads elsewhere, which an upload does not follow; was it renamed?"
            );
            return Err(Failure::new(HubFault::NotAHub, Remedy::Nothing, reason));
        }
        let mut failure = Failure::status(status, &parts.headers, &address, token.is_some());
        if text(&parts.headers, "x-error-message").is_none()
            && let Ok(body) = read(body, &address)
            && let Some(told) = serde_json::from_slice::<Value>(&body)
                .ok()
                .as_ref()
                .and_then(|body| body.get("error")?.as_str())
        {
            let told: String = told
                .chars()
                .filter(|char| !char.is_control())
                .take(MAX_REASON_CHARS)
                .collect();
            failure.reason += &format!(" ({told})");
        }
        Err(failure)
    }
}

fn read(body: ureq::Body, address: &str) -> Tried<Vec<u8>> {
    let body = body.into_with_config().limit(MAX_ANSWER_BYTES).reader();
    let mut bytes = vec![];
    let read = body.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| Failure::network(address, &ureq::Error::Io(error)))?;
    Ok(bytes)
}
