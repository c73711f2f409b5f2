//! The text of warnings, which tell a user that a path is not protected.

use takeback_base::text::push_line;
use takeback_undo::Unprotected;

/// The maximum number of paths that a warning lists. The rest are only counted.
const LISTED: usize = 5;

/// Composes a warning about a call that would delete or change takeback's own history or hooks.
pub fn tampering_text(tampering: &[String]) -> String {
    let mut text = String::new();
    push_list(&mut text, "This call would damage takeback's history:", tampering);
    text.trim_end().to_owned()
}

/// Composes a warning about failures, and about paths that a call may change but no checkpoint can
/// restore. Returns `None` if there is nothing to report.
pub fn warning_text(unprotected: &[&Unprotected], failures: &[String]) -> Option<String> {
    let of_kind = |is_replaceable: bool| {
        let all = unprotected.iter().filter(move |lost| lost.is_replaceable == is_replaceable);
        all.map(ToString::to_string)
    };
    let lost: Vec<String> = of_kind(false).chain(failures.iter().cloned()).collect();
    let mut text = String::new();
    push_list(&mut text, "takeback cannot take back everything that this call may change:", &lost);
    let replaceable: Vec<String> = of_kind(true).collect();
    push_list(
        &mut text,
        "takeback keeps no copy of these paths, which this call may delete:",
        &replaceable,
    );
    (!text.is_empty()).then(|| text.trim_end().to_owned())
}

fn push_list(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    push_line(text, title);
    lines.iter().take(LISTED).for_each(|line| push_line(text, &format!("- {line}")));
    if lines.len() > LISTED {
        push_line(text, &format!("- and {} more", lines.len() - LISTED));
    }
}
