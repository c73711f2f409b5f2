//! What is sent to other machines.

use super::Invocation;

pub(super) fn sends(command: &Invocation<'_>) -> bool {
    match command.base {
        "curl" => curl(command),
        "wget" => {
            let posts = ["--post-data", "--post-file", "--body-data", "--body-file"];
            let methods = command.values(&["--method"]);
            !command.values(&posts).is_empty() || methods.iter().any(|method| changes(method))
        }
        "http" | "https" | "xh" | "xhs" => httpie(command),
        "ssh" | "mosh" => !command.operands.is_empty(),
        "grpcurl" => !command.values(&["-d"]).is_empty(),
        _ => false,
    }
}

/// Whether the method is one that changes something. One that is not known may.
fn changes(method: &str) -> bool {
    !["GET", "HEAD", "OPTIONS", "TRACE"].iter().any(|read| method.eq_ignore_ascii_case(read))
}

fn curl(command: &Invocation<'_>) -> bool {
    /// Letters after which the rest of the word, or the next word, is a value.
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
        Some(method) => changes(method),
        None => sends && !get,
    }
}

/// `http POST url`, or a field to send: `http url name=value`.
fn httpie(command: &Invocation<'_>) -> bool {
    let method =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase());
    match command.operands.as_slice() {
        [first, ..] if method(first) => changes(first),
        [_, rest @ ..] => {
            // Not `name==value`, which goes into the address, nor `Name:value`, a header.
            let field = |word: &&str| {
                let Some((name, value)) = word.split_once('=') else { return word.contains('@') };
                !value.starts_with('=') && (!name.contains(':') || name.ends_with(':'))
            };
            rest.iter().any(field)
        }
        [] => false,
    }
}
