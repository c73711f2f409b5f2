//! Rendering sessions for users to read.
//!
//! Text from a session can never be mistaken for a part of the page: it is fenced or escaped in
//! Markdown, and escaped in HTML. Control characters and characters that change the direction of
//! text are shown as escapes.

mod html;
mod markdown;
mod view;

#[cfg(test)]
mod tests;

use crate::Transcript;

pub use self::view::{
    Piece, PieceKind, make_visible, message_marks, message_pieces, session_title,
};

/// Renders a session as Markdown.
///
/// ```
/// use takeback_ledger::{MessageRecord, SessionRecord, Transcript, render};
///
/// let prompt =
///     MessageRecord { role: "user".into(), content: Some("Tidy up".into()), ..Default::default() };
/// let session = SessionRecord { title: Some("Imports".into()), ..SessionRecord::default() };
/// let transcript = Transcript { session, messages: vec![prompt], ..Transcript::default() };
/// let text = render::markdown(&transcript);
/// assert!(text.starts_with("# Imports\n"));
/// assert!(text.contains("Tidy up"));
/// ```
pub fn markdown(transcript: &Transcript) -> String {
    markdown::render(transcript)
}

/// Renders sessions as one HTML page without scripts or links to other files. The anchor of a
/// message is `#<session>-<seq>`.
pub fn html(transcripts: &[Transcript]) -> String {
    html::render(transcripts)
}
