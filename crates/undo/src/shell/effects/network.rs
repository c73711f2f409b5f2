//! Recognizes commands that send something to another machine.

use super::Invocation;

/// Returns true if a command sends something to another machine.
pub(super) fn is_sending(command: &Invocation<'_>) -> bool {
    match command.base {
        "curl" => is_curl_sending(command),
        "wget" => {
            let posts = ["--post-data", "--post-file", "--body-data", "--body-file"];
            let methods = command.option_values(&["--method"]);
            !command.option_values(&posts).is_empty()
                || methods.iter().any(|method| is_changing_method(method))
        }
        "http" | "https" | "xh" | "xhs" => is_httpie_sending(command),
        "ssh" | "mosh" => !command.operands.is_empty(),
        "grpcurl" => !command.option_values(&["-d"]).is_empty(),
        _ => false,
    }
}

/// Returns true if the method may change something, or is unknown.
fn is_changing_method(method: &str) -> bool {
    !["GET", "HEAD", "OPTIONS", "TRACE"].iter().any(|read| method.eq_ignore_ascii_case(read))
}

fn is_curl_sending(command: &Invocation<'_>) -> bool {
    /// The letters of the options that take a value. The value is the rest of the word, or the next
    /// word.
    const VALUED: &str = "AbcCdDeEFhHKmoPQrtTuUwxXyYz";
    let mut sends = false;
    let mut method = None;
    let mut get = false;
    let mut at = 0;
    while let Some(word) = command.words.get(at) {
        at += 1;
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            match name {
                "request" => method = value.or(command.words.get(at).copied()),
                "json" | "form" | "form-string" | "upload-file" => sends = true,
                "get" => get = true,
                _ if name.starts_with("data") => sends = true,
                _ => {}
            }
            continue;
        }
        let Some(letters) = word.strip_prefix('-') else { continue };
        for (index, letter) in letters.char_indices() {
            let attached = &letters[index + letter.len_utf8()..];
            match letter {
                'd' | 'F' | 'T' => sends = true,
                'G' => get = true,
                'X' if attached.is_empty() => method = command.words.get(at).copied(),
                'X' => method = Some(attached),
                _ => {}
            }
            if VALUED.contains(letter) {
                at += usize::from(attached.is_empty());
                break;
            }
        }
    }
    match method {
        Some(method) => is_changing_method(method),
        None => sends && !get,
    }
}

/// Returns true for `http POST url`, and for a request with a field to send, such as `http url
/// name=value`.
fn is_httpie_sending(command: &Invocation<'_>) -> bool {
    let is_method =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase());
    match command.operands.as_slice() {
        [first, ..] if is_method(first) => is_changing_method(first),
        [_, rest @ ..] => {
            // `name==value` is part of the URL and `Name:value` is a header, so neither is a field.
            let is_field = |word: &&str| {
                let Some((name, value)) = word.split_once('=') else { return word.contains('@') };
                !value.starts_with('=') && (!name.contains(':') || name.ends_with(':'))
            };
            rest.iter().any(is_field)
        }
        [] => false,
    }
}
