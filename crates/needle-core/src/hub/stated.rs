//! What the hub's answers state about a file, gathered over a chain of redirects.
//!
//! The headers `X-Linked-…` speak of the file wherever they stand; `ETag` and `Content-Length` speak of the answer itself
//! and count on the last one only (hf-hub #191: the 341 bytes of a redirect's page were taken for the file's size).

use ureq::http::{HeaderMap, StatusCode};

use super::failure::text;

#[derive(Default)]
pub(super) struct Stated {
    pub(super) commit: Option<String>,
    pub(super) etag: Option<String>,
    pub(super) etag_is_linked: bool,
    pub(super) size_bytes: Option<u64>,
}

impl Stated {
    /// Takes the headers of one answer; what an earlier one said stays.
    pub(super) fn note(&mut self, status: StatusCode, headers: &HeaderMap) {
        if self.commit.is_none() {
            self.commit = text(headers, "x-repo-commit").map(str::to_string);
        }
        let (linked, mut size) = (text(headers, "x-linked-etag"), text(headers, "x-linked-size"));
        let mut etag = linked;
        if status.is_success() {
            etag = etag.or(text(headers, "etag"));
        }
        if status.is_success() && status != StatusCode::PARTIAL_CONTENT {
            size = size.or(text(headers, "content-length"));
        }
        if self.etag.is_none() {
            self.etag = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_string());
            self.etag_is_linked = linked.is_some();
        }
        self.size_bytes = self.size_bytes.or(size.and_then(|size| size.parse().ok()));
    }

    /// Enough to leave the rest of the way to the storage host.
    pub(super) fn is_complete(&self) -> bool {
        self.commit.is_some() && self.etag.is_some()
    }
}
