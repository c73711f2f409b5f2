//! The point that the user names: `N`, `N.M`, a checkpoint's name or id, a session, or a session
//! with a turn or a checkpoint after an `@`.

use std::path::Path;

use takeback_ledger::LedgerError;

use super::{ForkError, ForkPoint, SessionPoint};
use crate::Opened;
use crate::history::{FindError, History, find_workspace_with};

impl ForkPoint {
    /// Parses the point that the user names. `directory` is the directory that the user works in. A
    /// number is a row in the list of that directory, never a session.
    pub fn parse(opened: &Opened, directory: &Path, text: &str) -> Result<ForkPoint, ForkError> {
        let split = text.rsplit_once('@');
        if let Some((session, at)) = split
            && resolve_session(opened, session)?.is_some()
        {
            let at = parse_session_point(at).ok_or_else(|| ForkError::NoPoint(text.to_owned()))?;
            return Ok(ForkPoint::Session { session: session.to_owned(), at });
        }
        let checkpoint = || ForkPoint::Checkpoint {
            directory: directory.to_owned(),
            checkpoint: text.to_owned(),
        };
        if is_row(text) {
            return Ok(checkpoint());
        }
        let is_session = resolve_session(opened, text)?.is_some();
        match (find_checkpoint(opened, directory, text), is_session) {
            (Ok(()), false) => Ok(checkpoint()),
            (Ok(()), true) => Err(ForkError::Ambiguous(text.to_owned())),
            (Err(_), true) => {
                let session = text.to_owned();
                Ok(ForkPoint::Session { session, at: SessionPoint::LastTurn })
            }
            (Err(error), false) => Err(match (error, split) {
                // The text is an id that belongs to another workspace, or to several checkpoints.
                (ForkError::Find(error), _) if !matches!(error, FindError::NotACheckpoint(_)) => {
                    error.into()
                }
                (_, Some((session, _))) => LedgerError::NoSuchSession(session.to_owned()).into(),
                _ => ForkError::Unknown(text.to_owned()),
            }),
        }
    }
}

/// Parses the part after the `@`. A number is a turn of the session.
fn parse_session_point(text: &str) -> Option<SessionPoint> {
    let is_number = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    match text {
        "" => None,
        "now" => Some(SessionPoint::Now),
        _ if is_number => text.parse().ok().map(SessionPoint::Turn),
        _ => Some(SessionPoint::Checkpoint(text.to_owned())),
    }
}

/// Returns true for the number of a row, or of a step in a row.
fn is_row(text: &str) -> bool {
    let is_number = |part: &str| {
        (1..=5).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    match text.split_once('.') {
        Some((row, step)) => is_number(row) && is_number(step),
        None => is_number(text),
    }
}

fn find_checkpoint(opened: &Opened, directory: &Path, text: &str) -> Result<(), ForkError> {
    if !opened.has_store() {
        return Err(FindError::NotACheckpoint(text.to_owned()).into());
    }
    let workspace = find_workspace_with(opened, directory, text)?;
    History::read(workspace.store, &workspace.id)?.find(workspace.store, text)?;
    Ok(())
}

/// Finds the session that `text` refers to. Returns `None` if there is none.
fn resolve_session(opened: &Opened, text: &str) -> Result<Option<String>, ForkError> {
    let Some(ledger) = opened.ledger()? else { return Ok(None) };
    match ledger.resolve(text) {
        Ok(id) => Ok(Some(id)),
        Err(LedgerError::NoSuchSession(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_after_the_at_sign_is_a_turn_and_anything_else_a_checkpoint() {
        let checkpoint = |text: &str| Some(SessionPoint::Checkpoint(text.into()));
        for (text, point) in [
            ("3", Some(SessionPoint::Turn(3))),
            ("now", Some(SessionPoint::Now)),
            ("", None),
            ("2.3", checkpoint("2.3")),
            ("0aa678a", checkpoint("0aa678a")),
            ("123456", checkpoint("123456")),
            ("before-refactoring", checkpoint("before-refactoring")),
            ("-1", checkpoint("-1")),
        ] {
            assert_eq!(parse_session_point(text), point, "{text}");
        }
    }

    #[test]
    fn rows_and_steps_are_recognized_by_their_numbers() {
        for (text, is) in
            [("1", true), ("2.3", true), ("", false), ("1.", false), ("v1.2", false), ("a", false)]
        {
            assert_eq!(is_row(text), is, "{text}");
        }
    }
}
