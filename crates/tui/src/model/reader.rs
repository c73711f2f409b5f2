//! The sessions of all agents: a list or the results of a search, and a conversation to read.

use super::Load;
use crate::content::{FoundSession, Message};

/// The state of the screen with the sessions.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The words to search for. If there are none, the latest sessions are listed.
    pub(crate) words: String,
    /// True while the user types the words.
    pub(crate) is_typing: bool,
    pub(crate) found: Load<Vec<FoundSession>>,
    /// The index of the selected session.
    pub(crate) at: usize,
    /// The index of the first visible session.
    pub(crate) top: usize,
    /// The session whose conversation is shown.
    pub(crate) subject: Option<String>,
    pub(crate) conversation: Load<Vec<Message>>,
    /// The index of the first visible line of the conversation.
    pub(crate) conversation_top: usize,
    /// The message that the conversation scrolls to once it is loaded.
    pub(crate) goal: Option<i64>,
    /// The message that the conversation last scrolled to.
    pub(crate) reached: Option<i64>,
    pub(crate) is_unfolded: bool,
    pub(crate) is_pane_focused: bool,
}

impl Reader {
    /// Creates the screen. If `is_typing`, the user can immediately type words to search for.
    pub(crate) fn new(is_typing: bool) -> Reader {
        Reader {
            words: String::new(),
            is_typing,
            found: Load::Idle,
            at: 0,
            top: 0,
            subject: None,
            conversation: Load::Idle,
            conversation_top: 0,
            goal: None,
            reached: None,
            is_unfolded: false,
            is_pane_focused: false,
        }
    }

    /// Returns the selected session.
    pub(crate) fn selected(&self) -> Option<&FoundSession> {
        self.found.ready()?.get(self.at)
    }

    pub(crate) fn move_by(&mut self, distance: isize) {
        let last = self.found.ready().map_or(0, Vec::len).saturating_sub(1);
        self.at = self.at.saturating_add_signed(distance).min(last);
    }

    /// Scrolls until the selection is on the screen. Each session takes two lines.
    pub(crate) fn scroll_to_selection(&mut self, height: usize) {
        let rows = (height / 2).max(1);
        self.top = self.top.min(self.at).max((self.at + 1).saturating_sub(rows));
    }
}
