//! Reading a response: its head, and its body as it arrives.

use std::time::Duration;

use serde_json::Value;

use super::decode::Decoder;
use super::draft::{OnDelta, ReplyDraft, ReplyEnd};
use super::failure::{self, ErrorReport};
use super::sse::SseReader;
use super::{ApiKind, Attempt, AttemptEnd, AttemptFailure, FailureKind};

/// The maximum size of a response's body, in bytes.
const MAX_BODY: usize = 64 << 20;

/// The maximum number of bytes of an error's body that are kept.
const MAX_ERROR: usize = 256 << 10;

/// The time to wait for the usage after the finish reason of a reply has arrived.
const USAGE_WAIT: Duration = Duration::from_secs(10);

/// The time to wait for the end of the body after the last event. If the body ends within this
/// time, the connection can be reused.
const END_WAIT: Duration = Duration::from_millis(250);

/// The headers of a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers(Vec<(String, String)>);

impl Headers {
    /// Creates headers from names and values.
    pub(crate) fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Headers {
        let own = |(name, value): (&str, &str)| (name.to_lowercase(), value.to_owned());
        Headers(pairs.into_iter().map(own).collect())
    }

    /// Returns the value of a header. `name` must be in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The reason why reading a response ended.
#[derive(Clone, Debug)]
pub(crate) enum ReadEnd {
    /// The body has ended, or nothing more is needed from it.
    Ended,
    /// The connection failed.
    Broken(AttemptFailure),
    Cancelled,
}

/// A reader of one response.
pub(crate) struct ResponseReader {
    status: u16,
    headers: Headers,
    body: Body,
    size: usize,
    decoder: Decoder,
    draft: ReplyDraft,
    key: Option<String>,
}

/// The body of a response, by its format.
enum Body {
    /// The first bytes, which do not reveal the format yet.
    Unknown(Vec<u8>),
    Stream(SseReader),
    /// A reply in one piece, or anything else that is not a stream.
    Whole(Vec<u8>),
    Error(Vec<u8>),
}

impl ResponseReader {
    /// Creates a reader for the response of an API. Error messages never contain the key.
    pub(crate) fn new(kind: ApiKind, key: Option<&str>) -> ResponseReader {
        ResponseReader {
            status: 0,
            headers: Headers::default(),
            body: Body::Unknown(Vec::new()),
            size: 0,
            decoder: Decoder::new(kind),
            draft: ReplyDraft::default(),
            key: key.map(str::to_owned),
        }
    }

    /// Reads the head of the response.
    pub(crate) fn read_head(&mut self, status: u16, headers: Headers) {
        (self.status, self.headers) = (status, headers);
        if !(200..300).contains(&status) {
            self.body = Body::Error(Vec::new());
        }
    }

    /// Reads the next bytes of the body.
    pub(crate) fn read_body(&mut self, bytes: &[u8], on_delta: &mut OnDelta<'_>) {
        self.size += bytes.len();
        if self.size > MAX_BODY {
            let message = format!("the reply is larger than {} MB", MAX_BODY >> 20);
            self.draft.fail_with(ErrorReport::from_message(&message));
            return;
        }
        if let Body::Unknown(first) = &mut self.body {
            first.extend_from_slice(bytes);
            if let Some(format) = find_format(first) {
                let first = std::mem::take(first);
                self.body = format;
                self.read_format(&first, on_delta);
            }
        } else {
            self.read_format(bytes, on_delta);
        }
    }

    /// Reads bytes of a body whose format is known.
    fn read_format(&mut self, bytes: &[u8], on_delta: &mut OnDelta<'_>) {
        match &mut self.body {
            Body::Unknown(_) => {}
            Body::Whole(body) => body.extend_from_slice(bytes),
            Body::Error(body) => {
                let left = MAX_ERROR.saturating_sub(body.len());
                body.extend_from_slice(&bytes[..bytes.len().min(left)]);
            }
            Body::Stream(reader) => {
                let mut events = Vec::new();
                let result = reader.read_bytes(bytes, &mut events);
                for event in &events {
                    if !self.draft.is_done {
                        self.decoder.decode_event(event, &mut self.draft, on_delta);
                    }
                }
                if result.is_err() {
                    self.draft.fail_with(ErrorReport::from_message("the server sent a huge event"));
                }
            }
        }
    }

    /// Returns the time to wait for more bytes. While the reply is incomplete, there is no limit,
    /// so this returns `None`.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self.draft.end() {
            Some(_) if self.draft.is_done => Some(END_WAIT),
            Some(_) => Some(USAGE_WAIT),
            None => None,
        }
    }

    /// True if more bytes cannot change the outcome.
    pub(crate) fn is_hopeless(&self) -> bool {
        matches!(self.draft.end(), Some(ReplyEnd::Failed(_)))
    }

    /// Returns the outcome of the attempt.
    pub(crate) fn finish_attempt(mut self, end: ReadEnd, on_delta: &mut OnDelta<'_>) -> Attempt {
        let body = std::mem::replace(&mut self.body, Body::Unknown(Vec::new()));
        let end = match body {
            _ if matches!(end, ReadEnd::Cancelled) => self.finish_stream(end),
            Body::Error(body) => self.classify_report(&ErrorReport::from_body(&body)),
            Body::Whole(body) => self.finish_whole(&body, end, on_delta),
            Body::Unknown(_) | Body::Stream(_) => self.finish_stream(end),
        };
        self.decoder.complete_draft(&mut self.draft);
        Attempt { reply: self.draft.into_reply(), end }
    }

    fn finish_whole(
        &mut self,
        body: &[u8],
        end: ReadEnd,
        on_delta: &mut OnDelta<'_>,
    ) -> AttemptEnd {
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            self.decoder.decode_whole(&value, &mut self.draft, on_delta);
            if self.draft.end().is_some() {
                return self.finish_stream(end);
            }
        }
        match end {
            ReadEnd::Ended => AttemptEnd::Failed(AttemptFailure {
                kind: FailureKind::Rejected,
                status: Some(self.status),
                message: "the server answered, but not like a model: check base_url".to_owned(),
                retry_after: None,
            }),
            other => self.finish_stream(other),
        }
    }

    fn finish_stream(&self, end: ReadEnd) -> AttemptEnd {
        match (self.draft.end(), end) {
            (Some(ReplyEnd::Finished(finish)), _) => AttemptEnd::Finished(*finish),
            (Some(ReplyEnd::Failed(report)), _) => self.classify_report(report),
            (None, ReadEnd::Cancelled) => AttemptEnd::Cancelled,
            (None, ReadEnd::Broken(failure)) => AttemptEnd::Failed(AttemptFailure {
                status: failure.status.or(Some(self.status).filter(|status| *status != 0)),
                ..failure
            }),
            (None, ReadEnd::Ended) => AttemptEnd::Failed(AttemptFailure {
                kind: FailureKind::Connection,
                status: Some(self.status),
                message: "the reply ended before it was complete".to_owned(),
                retry_after: None,
            }),
        }
    }

    fn classify_report(&self, report: &ErrorReport) -> AttemptEnd {
        let key = self.key.as_deref();
        AttemptEnd::Failed(failure::classify_error(self.status, &self.headers, report, key))
    }
}

/// Determines the format of a body from its first bytes, because some servers send a wrong content
/// type. Neither JSON nor a web page can be the beginning of a stream.
fn find_format(bytes: &[u8]) -> Option<Body> {
    const MARK: &[u8] = b"\xEF\xBB\xBF";
    if bytes.len() < MARK.len() && MARK.starts_with(bytes) {
        return None;
    }
    let text = bytes.strip_prefix(MARK).unwrap_or(bytes);
    match text.iter().find(|byte| !byte.is_ascii_whitespace())? {
        b'{' | b'[' | b'<' => Some(Body::Whole(Vec::new())),
        _ => Some(Body::Stream(SseReader::default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: ApiKind, body: &str) -> ResponseReader {
        let mut reader = ResponseReader::new(kind, None);
        reader.read_head(200, Headers::default());
        reader.read_body(body.as_bytes(), &mut |_| {});
        reader
    }

    #[test]
    fn the_wait_for_more_bytes_is_limited_only_once_a_reply_is_complete() {
        let text = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
        let finish = "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n";
        let done = "data: [DONE]\n\n";
        let patience = |body: &str| read(ApiKind::Openai, body).patience();
        assert_eq!(patience(text), None);
        assert_eq!(patience(&[text, done].concat()), None);
        assert_eq!(patience(&[text, finish].concat()), Some(USAGE_WAIT));
        assert_eq!(patience(&[text, finish, done].concat()), Some(END_WAIT));
        let anthropic = |body: &str| read(ApiKind::Anthropic, body).patience();
        let delta =
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n";
        assert_eq!(anthropic(delta), None);
        let stop = "data: {\"type\":\"message_stop\"}\n\n";
        assert_eq!(anthropic(&[delta, stop].concat()), Some(END_WAIT));
    }

    #[test]
    fn everything_after_the_last_event_is_ignored() {
        let stop = "data: {\"type\":\"message_stop\"}\n\n";
        let text = "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n";
        let reader = read(ApiKind::Anthropic, &[text, stop, text].concat());
        let attempt = reader.finish_attempt(ReadEnd::Ended, &mut |_| {});
        assert_eq!(attempt.reply.text, "hi");
    }

    #[test]
    fn the_format_is_recognized_for_pieces_of_any_size() {
        let whole = "\u{feff} \n{\"choices\":[{\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}";
        let stream = "\u{feff}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
        for body in [whole, stream] {
            for size in [1, 2, 3, 5, body.len()] {
                let mut reader = read(ApiKind::Openai, "");
                for piece in body.as_bytes().chunks(size) {
                    reader.read_body(piece, &mut |_| {});
                }
                let attempt = reader.finish_attempt(ReadEnd::Ended, &mut |_| {});
                assert_eq!(attempt.reply.text, "hi", "{size}");
            }
        }
    }

    #[test]
    fn a_huge_reply_is_refused() {
        let mut reader = read(ApiKind::Openai, ": begin\n\n");
        let line = format!("data: {}\n\n", "x".repeat(1 << 20));
        for _ in 0..64 {
            reader.read_body(line.as_bytes(), &mut |_| {});
        }
        assert!(reader.is_hopeless());
        let attempt = reader.finish_attempt(ReadEnd::Ended, &mut |_| {});
        let AttemptEnd::Failed(failure) = attempt.end else { panic!("{:?}", attempt.end) };
        assert_eq!(failure.message, "the reply is larger than 64 MB");
        let mut reader = read(ApiKind::Openai, "data: ");
        reader.read_body(&vec![b'x'; 33 << 20], &mut |_| {});
        assert!(reader.is_hopeless());
    }

    #[test]
    fn an_error_that_is_cut_off_is_classified_by_its_status() {
        let mut reader = ResponseReader::new(ApiKind::Openai, None);
        reader.read_head(429, Headers::default());
        reader.read_body(b"{\"error\": {\"mess", &mut |_| {});
        let broken = AttemptFailure::rejected("gone".to_owned());
        let attempt = reader.finish_attempt(ReadEnd::Broken(broken), &mut |_| {});
        let AttemptEnd::Failed(failure) = attempt.end else { panic!("{:?}", attempt.end) };
        assert_eq!((failure.kind, failure.status), (FailureKind::RateLimited, Some(429)));
    }
}
