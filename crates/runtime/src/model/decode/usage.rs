//! The token counts of a reply.
//!
//! In the ledger, each token counts once: cached tokens are not part of the input, and reasoning is
//! not part of the output.

use serde_json::Value;
use takeback_ledger::Tokens;

/// Reads the usage of a Chat Completions reply.
pub(super) fn read_chat(usage: &Value) -> Option<Tokens> {
    let input = read_count(usage, "prompt_tokens")?;
    let output = read_count(usage, "completion_tokens").unwrap_or_default();
    let details = &usage["prompt_tokens_details"];
    let cache_read = read_count(details, "cached_tokens")
        .or_else(|| read_count(usage, "prompt_cache_hit_tokens"));
    let cache_read = cache_read.unwrap_or_default().min(input);
    let cache_write = read_count(details, "cache_write_tokens").unwrap_or_default();
    let cache_write = cache_write.min(input - cache_read);
    let reasoning =
        read_count(&usage["completion_tokens_details"], "reasoning_tokens").unwrap_or_default();
    // One provider does not count reasoning as output. The total that it reports reveals this.
    let is_separate = read_count(usage, "total_tokens") == Some(input + output + reasoning);
    let output = if is_separate { output } else { (output - reasoning).max(0) };
    Some(Tokens {
        input: input - cache_read - cache_write,
        output,
        cache_read,
        cache_write,
        reasoning,
    })
}

/// Reads the usage of a Responses reply.
pub(super) fn read_responses(usage: &Value) -> Option<Tokens> {
    let input = read_count(usage, "input_tokens")?;
    let output = read_count(usage, "output_tokens").unwrap_or_default();
    let cached = read_count(&usage["input_tokens_details"], "cached_tokens").unwrap_or_default();
    let reasoning =
        read_count(&usage["output_tokens_details"], "reasoning_tokens").unwrap_or_default();
    Some(Tokens {
        input: (input - cached).max(0),
        output: (output - reasoning).max(0),
        cache_read: cached,
        cache_write: 0,
        reasoning,
    })
}

/// Reads the usage of a Messages reply. The counts of a later event replace those of an earlier
/// one.
pub(super) fn read_anthropic(usage: &Value, before: Option<Tokens>) -> Option<Tokens> {
    if !usage.is_object() {
        return before;
    }
    let before = before.unwrap_or_default();
    Some(Tokens {
        input: read_count(usage, "input_tokens").unwrap_or(before.input),
        output: read_count(usage, "output_tokens").unwrap_or(before.output),
        cache_read: read_count(usage, "cache_read_input_tokens").unwrap_or(before.cache_read),
        cache_write: read_count(usage, "cache_creation_input_tokens").unwrap_or(before.cache_write),
        reasoning: 0,
    })
}

/// Reads a count. A negative or absurdly large number is ignored, so that sums cannot overflow.
fn read_count(value: &Value, key: &str) -> Option<i64> {
    let number = value.get(key)?;
    let count = number.as_i64().or_else(|| number.as_f64().map(|number| number as i64))?;
    (0..1 << 40).contains(&count).then_some(count)
}
