//! The messages of errors and their causes.

use std::error::Error;

/// Joins an error and its causes into one line: `cannot open x: permission denied`.
///
/// Leaves out a cause that only repeats the message before it; see [`error_messages`].
pub fn error_chain(error: &dyn Error) -> String {
    error_messages(error).join(": ")
}

/// Lists the message of an error and the messages of its causes, outermost first.
///
/// Some messages already include the message of the cause, and some causes repeat the message
/// before them with an error code in front. Such repetitions are left out.
pub fn error_messages(error: &dyn Error) -> Vec<String> {
    let mut messages: Vec<String> = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        let last = messages.last().map_or("", String::as_str);
        let is_repeated = last.ends_with(&message) || (!last.is_empty() && message.ends_with(last));
        if !is_repeated {
            messages.push(message);
        }
        next = cause.source();
    }
    messages
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &dyn Error)
        }
    }

    fn layers(messages: &[&'static str]) -> Layer {
        let (first, rest) = messages.split_first().expect("an error has a message");
        Layer(first, (!rest.is_empty()).then(|| Box::new(layers(rest))))
    }

    #[test]
    fn all_causes_are_named() {
        assert_eq!(error_chain(&layers(&["a", "b", "c"])), "a: b: c");
        assert_eq!(error_chain(&layers(&["alone"])), "alone");
    }

    #[test]
    fn a_repeated_cause_is_named_once() {
        assert_eq!(error_chain(&layers(&["cannot read: denied", "denied"])), "cannot read: denied");
        assert_eq!(
            error_chain(&layers(&["x", "malformed", "Error code 11: malformed"])),
            "x: malformed"
        );
        assert_eq!(error_messages(&layers(&["a", "b", "a"])), ["a", "b", "a"]);
        assert_eq!(error_messages(&layers(&["", "b", ""])), ["", "b"]);
    }
}
