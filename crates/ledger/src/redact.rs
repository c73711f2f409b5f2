//! Placeholder until merged.
use serde_json::Value;
use std::borrow::Cow;
/// x
pub struct Redactor;
impl Redactor {
    pub fn shared() -> &'static Redactor {
        &Redactor
    }
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }
    pub fn json(&self, _: &mut Value) {}
}
