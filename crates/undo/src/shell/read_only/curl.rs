//! Determines when curl only reads.

use super::argument_rules::{ArgumentRule, only};
use crate::shell::syntax::Arg;

/// Returns true if curl only fetches a resource and prints it.
pub(super) fn is_read_only(args: &[Arg]) -> bool {
    let options = only(
        "sSfLkviIgGN46#aA:e:H:m:u:b:x:w:X:o:r:0",
        "silent show-error fail fail-with-body location insecure verbose include head globoff get \
         compressed user-agent= referer= header= max-time= connect-timeout= user= cookie= proxy= \
         write-out= request= output= range= retry= retry-delay= http1.1 http2 url= \
         no-progress-meter progress-bar max-redirs= resolve= cacert= oauth2-bearer= ipv4 ipv6 \
         no-buffer tlsv1.2 url-query=",
    );
    if !ArgumentRule::Only(options).allows(args) {
        return false;
    }
    let mut values = args.iter().map(|arg| arg.known().unwrap_or_default());
    values.all(is_harmless_word) && has_harmless_values(args)
}

/// Returns true for a word that contains no `%output{file}`, reads no file, and has no URL scheme
/// other than HTTP and HTTPS.
fn is_harmless_word(text: &str) -> bool {
    let web = |scheme: &str| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let odd_scheme = scheme.is_some_and(|scheme| {
        scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !web(scheme)
    });
    !text.contains("%output") && !text.starts_with('@') && !odd_scheme
}

/// Returns true if options that could send or write have harmless values, such as `-X GET` and `-o
/// /dev/null`.
fn has_harmless_values(args: &[Arg]) -> bool {
    let reads = |method: Option<&str>| matches!(method, Some("GET" | "HEAD" | "OPTIONS"));
    let nowhere = |file: Option<&str>| matches!(file, Some("/dev/null" | "-"));
    let formats = |format: Option<&str>| format.is_some_and(|format| !format.starts_with('@'));
    for (at, arg) in args.iter().enumerate() {
        let Some(text) = arg.known() else { continue };
        let next = args.get(at + 1).and_then(Arg::known);
        let fine = match text.split_once('=') {
            Some(("--request", method)) => reads(Some(method)),
            Some(("--output", file)) => nowhere(Some(file)),
            Some(("--write-out", format)) => formats(Some(format)),
            _ if text == "--write-out" => formats(next),
            _ if text == "--request" => reads(next),
            _ if text == "--output" => nowhere(next),
            _ if text.starts_with('-') && !text.starts_with("--") => {
                let value = |letter: char| {
                    let (_, value) = text.split_once(letter)?;
                    Some(if value.is_empty() { next } else { Some(value) })
                };
                // A letter in the value of another option may be mistaken for an option. The check
                // is then too strict, but safe.
                value('X').is_none_or(reads)
                    && value('o').is_none_or(nowhere)
                    && value('w').is_none_or(formats)
            }
            _ => true,
        };
        if !fine {
            return false;
        }
    }
    true
}
