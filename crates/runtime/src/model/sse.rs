//! Reading server-sent events.

use std::mem;

/// The maximum size of an event, in bytes. Some servers repeat a whole reply in one event.
const MAX_EVENT: usize = 32 << 20;

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The name; empty if the event has none.
    pub(crate) name: String,
    /// The lines of data, joined.
    pub(crate) data: String,
}

/// The error for an event that is too large to be part of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// A reader of server-sent events, which receives the bytes of a stream in pieces of any size.
///
/// An event ends with a blank line. An event that was cut off is never returned. Bytes that are not
/// UTF-8 are replaced.
pub(crate) struct SseReader {
    max_event: usize,
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    /// True if the last byte was a carriage return. A line feed after it belongs to the same line
    /// ending.
    skips_line_feed: bool,
    is_first_line: bool,
}

impl Default for SseReader {
    fn default() -> SseReader {
        SseReader::with_limit(MAX_EVENT)
    }
}

impl SseReader {
    /// Creates a reader that accepts events of at most `max_event` bytes.
    pub(crate) fn with_limit(max_event: usize) -> SseReader {
        SseReader {
            max_event,
            line: Vec::new(),
            event: SseEvent::default(),
            has_data: false,
            skips_line_feed: false,
            is_first_line: true,
        }
    }

    /// Reads the next bytes of the stream, and appends the events that they complete to `events`.
    pub(crate) fn read_bytes(
        &mut self,
        mut bytes: &[u8],
        events: &mut Vec<SseEvent>,
    ) -> Result<(), EventTooLarge> {
        while let Some(&first) = bytes.first() {
            if mem::take(&mut self.skips_line_feed) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            self.line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if self.line.len() + self.event.data.len() + self.event.name.len() > self.max_event {
                return Err(EventTooLarge);
            }
            let Some(end) = end else { return Ok(()) };
            self.skips_line_feed = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(events);
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) {
        let mut line = mem::take(&mut self.line);
        if mem::take(&mut self.is_first_line) && line.starts_with(b"\xEF\xBB\xBF") {
            line.drain(..3);
        }
        if line.is_empty() {
            let event = mem::take(&mut self.event);
            if mem::take(&mut self.has_data) {
                events.push(event);
            }
        } else {
            self.read_field(&String::from_utf8_lossy(&line));
        }
        // Reuse the allocation for the next line.
        line.clear();
        self.line = line;
    }

    fn read_field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.event.name),
            // A comment, or a field that is needed only for reconnecting.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
        let (mut reader, mut events) = (SseReader::default(), Vec::new());
        for piece in pieces {
            reader.read_bytes(piece, &mut events).unwrap();
        }
        events
    }

    fn read_all(text: &str) -> Vec<(String, String)> {
        let events = read_pieces([text.as_bytes()]);
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn event(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn each_kind_of_line_ending_is_understood() {
        for end in ["\n", "\r", "\r\n"] {
            let text = format!("event: a{end}data: 1{end}{end}data: 2{end}{end}");
            assert_eq!(read_all(&text), [event("a", "1"), event("", "2")], "{end:?}");
        }
    }

    #[test]
    fn several_lines_of_data_are_joined() {
        assert_eq!(read_all("data: a\ndata:b\ndata:  c\n\n"), [event("", "a\nb\n c")]);
        assert_eq!(read_all("data\ndata\n\n"), [event("", "\n")]);
    }

    #[test]
    fn comments_and_other_fields_and_a_byte_order_mark_are_skipped() {
        let text = "\u{feff}: ping\n\n:\nid: 7\nretry: 10\nunknown\ndata: x:y\n\n";
        assert_eq!(read_all(text), [event("", "x:y")]);
        assert_eq!(read_all("data: a\n\n\u{feff}data: b\n\n"), [event("", "a")]);
    }

    #[test]
    fn an_event_without_data_is_skipped_together_with_its_name() {
        assert_eq!(read_all("event: a\n\ndata: b\n\n"), [event("", "b")]);
        assert_eq!(read_all("event: a\ndata:\n\n"), [event("a", "")]);
    }

    #[test]
    fn an_incomplete_event_is_not_returned() {
        assert_eq!(read_all("data: a\n\ndata: b\n"), [event("", "a")]);
        assert_eq!(read_all("data: a"), []);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let events = read_pieces([b"data: a\xFFb\xE2\n\n".as_slice()]);
        assert_eq!(events[0].data, "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn a_huge_event_is_refused() {
        for text in ["data: 0123456789012345678901", "data: 0123456789\ndata: 0123456789\n"] {
            let mut reader = SseReader::with_limit(20);
            assert_eq!(reader.read_bytes(text.as_bytes(), &mut Vec::new()), Err(EventTooLarge));
        }
        let mut reader = SseReader::with_limit(20);
        let mut events = Vec::new();
        let many = "data: 0123\n\n: 012345\n".repeat(100);
        assert_eq!(reader.read_bytes(many.as_bytes(), &mut events), Ok(()));
        assert_eq!(events.len(), 100);
    }

    /// Reads a whole stream as the specification describes it, step by step.
    fn read_plainly(bytes: &[u8]) -> Vec<SseEvent> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut lines: Vec<&str> = text.split('\n').collect();
        // The last line is not terminated.
        lines.pop();
        let (mut events, mut name, mut data) = (Vec::new(), String::new(), String::new());
        for line in lines {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" if line.is_empty() => {
                    let name = mem::take(&mut name);
                    if let Some(data) = mem::take(&mut data).strip_suffix('\n') {
                        events.push(SseEvent { name, data: data.to_owned() });
                    }
                }
                "event" => name = value.to_owned(),
                "data" => data += &format!("{value}\n"),
                _ => {}
            }
        }
        events
    }

    fn any_stream() -> impl Strategy<Value = Vec<u8>> {
        let words: &[&[u8]] = &[
            b"data",
            b"data: ",
            b"event: ",
            b":",
            b" ",
            b"\n",
            b"\n\n",
            b"\r",
            b"\r\n",
            b"{\"a\":1}",
            b"\xEF\xBB\xBF",
            b"\xEF",
            b"\xFF",
            "é".as_bytes(),
            b"id: 1",
            b"[DONE]",
        ];
        prop::collection::vec(prop::sample::select(words.to_vec()), 0..60)
            .prop_map(|words| words.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

        #[test]
        fn the_events_do_not_depend_on_how_the_stream_is_split(stream in any_stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
            let expected = read_plainly(&stream);
            prop_assert_eq!(&read_pieces([stream.as_slice()]), &expected);
            prop_assert_eq!(&read_pieces(stream.chunks(1)), &expected);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|range| &stream[range[0]..range[1]]);
            prop_assert_eq!(&read_pieces(pieces), &expected);
        }
    }
}
