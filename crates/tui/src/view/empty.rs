//! The text that is shown when the list is empty: no checkpoints yet, no results, or a problem.

use ratatui::text::Line;
use takeback_undo::view::text::{agent_of, count};

use crate::model::{Load, Model};

/// Explains why the list has no rows. Returns `None` if it has rows.
pub(super) fn describe(model: &Model) -> Option<Vec<Line<'static>>> {
    let lines = match &model.past {
        // A spinner that is shown for a few milliseconds would only flicker.
        Load::Idle | Load::Waiting => Vec::new(),
        Load::Failed(problem) => {
            let mut lines = vec![problem.line(), String::new()];
            lines.push("Nothing was changed.".into());
            lines.extend(problem.hint.as_ref().map(|hint| format!("hint: {hint}")));
            lines.push("`takeback doctor` checks the store and the ledger.".into());
            lines
        }
        Load::Ready(_) if !model.list.lines.is_empty() => return None,
        Load::Ready(past) if !past.timeline.entries.is_empty() => vec![
            format!("Nothing contains “{}”.", model.list.filter.trim()),
            String::new(),
            "Esc shows all turns again.".into(),
            "`takeback search` searches the sessions of all agents.".into(),
        ],
        Load::Ready(past) => {
            let mut lines = vec!["No checkpoints yet.".into(), String::new()];
            match past.working.first() {
                Some(session) => lines.push(format!(
                    "{} is working: the first checkpoint is being taken.",
                    agent_of(session)
                )),
                None => lines.push("They appear before an agent’s next change.".into()),
            }
            lines.push(String::new());
            lines.push("Try: takeback install claude".into());
            lines.push("or press c to take one now.".into());
            if past.others > 0 {
                let others = count(past.others as u64, "other workspace");
                let have = if past.others == 1 { "has" } else { "have" };
                lines.push(String::new());
                lines.push(format!("{others} {have} checkpoints: `takeback checkpoints`"));
            }
            lines
        }
    };
    let indent = |line: String| Line::raw(format!("  {}", takeback_base::text::disarm(&line)));
    Some(std::iter::once(Line::default()).chain(lines.into_iter().map(indent)).collect())
}
