//! Sessions for people to read.
//!
//! Nothing that was said in a session can pass for a part of the page: in Markdown it stands in
//! fences, in HTML it is escaped. Control characters, and those that change the direction of
//! text, are shown as escapes.

mod html;
mod markdown;
mod view;

#[cfg(test)]
mod tests;

use crate::Transcript;

/// A session as Markdown.
pub fn markdown(transcript: &Transcript) -> String {
    markdown::write(transcript)
}

/// Sessions as one HTML page that needs nothing else: no scripts, no network. `#<session>-<seq>`
/// leads to a message.
pub fn html(transcripts: &[Transcript]) -> String {
    html::write(transcripts)
}
