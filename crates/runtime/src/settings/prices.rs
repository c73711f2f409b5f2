//! The prices of models: the user's, and those that takeback knows.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use takeback_ledger::Tokens;

use super::ready::READY_PROVIDERS;
use crate::model::Prices;

/// The table `[prices]`: prices by the name of a model. A name that ends with `*` matches all
/// models whose names begin with the text before the `*`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PriceList(BTreeMap<String, Prices>);

impl<'de> Deserialize<'de> for PriceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PriceList, D::Error> {
        let prices = BTreeMap::<String, Prices>::deserialize(deserializer)?;
        match prices.values().all(super::are_valid) {
            true => Ok(PriceList(prices)),
            false => Err(serde::de::Error::custom(super::WRONG_PRICE)),
        }
    }
}

impl PriceList {
    /// Returns the cost of a model's tokens, in US dollars, or `None` if its prices are unknown.
    ///
    /// ```
    /// use takeback_ledger::Tokens;
    /// use takeback_runtime::settings::PriceList;
    ///
    /// let prices: PriceList = serde_json::from_str(r#"{ "mine-*": { "input": 2.0 } }"#).unwrap();
    /// let tokens = Tokens { input: 500_000, ..Tokens::default() };
    /// assert_eq!(prices.cost("mine-large", tokens), Some(1.0));
    /// assert_eq!(prices.cost("another", tokens), None);
    /// ```
    pub fn cost(&self, model: &str, tokens: Tokens) -> Option<f64> {
        Some(self.find(model)?.cost(tokens))
    }

    /// Finds the prices of a model: the user's prices with the longest matching name, or else the
    /// known prices.
    fn find(&self, model: &str) -> Option<Prices> {
        let fits = |name: &str| match name.strip_suffix('*') {
            Some(begin) => model.starts_with(begin),
            None => model == name,
        };
        let own = self.0.iter().filter(|(name, _)| fits(name));
        let own = own.max_by_key(|(name, _)| (!name.ends_with('*'), name.len()));
        own.map(|(_, prices)| *prices).or_else(|| find_known(model))
    }
}

/// The list prices of older models, in US dollars per million tokens: input, output, read from a
/// cache, written to a cache. They were not checked against the providers' current lists, and are
/// used only for estimates, which are marked as such.
#[rustfmt::skip]
const KNOWN: &[(&str, [f64; 4])] = &[
    ("claude-opus-4-5",       [5.0, 25.0, 0.5, 6.25]),
    ("claude-opus-4-1",       [15.0, 75.0, 1.5, 18.75]),
    ("claude-opus-4",         [15.0, 75.0, 1.5, 18.75]),
    ("claude-sonnet-4-5",     [3.0, 15.0, 0.3, 3.75]),
    ("claude-sonnet-4",       [3.0, 15.0, 0.3, 3.75]),
    ("claude-haiku-4-5",      [1.0, 5.0, 0.1, 1.25]),
    ("claude-3-7-sonnet",     [3.0, 15.0, 0.3, 3.75]),
    ("claude-3-5-sonnet",     [3.0, 15.0, 0.3, 3.75]),
    ("claude-3-5-haiku",      [0.8, 4.0, 0.08, 1.0]),
    ("gpt-5",                 [1.25, 10.0, 0.125, 1.25]),
    ("gpt-5-codex",           [1.25, 10.0, 0.125, 1.25]),
    ("gpt-5-mini",            [0.25, 2.0, 0.025, 0.25]),
    ("gpt-5-nano",            [0.05, 0.4, 0.005, 0.05]),
    ("gpt-4-1",               [2.0, 8.0, 0.5, 2.0]),
    ("gpt-4-1-mini",          [0.4, 1.6, 0.1, 0.4]),
    ("gpt-4o",                [2.5, 10.0, 1.25, 2.5]),
    ("gpt-4o-mini",           [0.15, 0.6, 0.075, 0.15]),
    ("o3",                    [2.0, 8.0, 0.5, 2.0]),
    ("o4-mini",               [1.1, 4.4, 0.275, 1.1]),
    ("gemini-2-5-pro",        [1.25, 10.0, 0.125, 1.25]),
    ("gemini-2-5-flash",      [0.3, 2.5, 0.03, 0.3]),
    ("gemini-2-5-flash-lite", [0.1, 0.4, 0.01, 0.1]),
];

/// Finds the prices that takeback knows for a model. The name of the model may include its vendor
/// and the date of its version.
fn find_known(model: &str) -> Option<Prices> {
    let normalize = |name: &str| {
        let name = name.rsplit('/').next().unwrap_or_default().to_lowercase();
        without_version(&name).replace('.', "-")
    };
    let name = normalize(model);
    let ready = READY_PROVIDERS.iter().filter_map(|provider| provider.model.as_ref());
    let ready = ready.filter(|known| normalize(known.name) == name).find_map(|known| known.prices);
    ready.or_else(|| {
        let (_, [input, output, cache_read, cache_write]) =
            *KNOWN.iter().find(|(known, _)| *known == name)?;
        Some(Prices { input, output, cache_read, cache_write })
    })
}

/// Removes a date such as `-20250929` or `-2025-04-14`, or `-latest`, from the end of a name.
fn without_version(name: &str) -> &str {
    if let Some(name) = name.strip_suffix("-latest") {
        return name;
    }
    let is_date = |end: &str| {
        let digits = end.bytes().filter(u8::is_ascii_digit).count();
        digits == 8 && end.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    let ends = name.match_indices('-').map(|(at, _)| at);
    ends.filter(|at| is_date(&name[at + 1..])).map(|at| &name[..at]).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input_price(list: &PriceList, model: &str) -> Option<f64> {
        list.find(model).map(|prices| prices.input)
    }

    #[test]
    fn known_models_are_found_under_names_with_vendors_and_dates() {
        let list = PriceList::default();
        for (model, input) in [
            ("claude-sonnet-4-5-20250929", Some(3.0)),
            ("anthropic/claude-sonnet-4.5", Some(3.0)),
            ("claude-sonnet-5-5", Some(2.0)),
            ("gpt-4.1-2025-04-14", Some(2.0)),
            ("claude-3-5-haiku-latest", Some(0.8)),
            // A newer model may have a different price.
            ("claude-sonnet-4-8", None),
            ("gpt-5-something", None),
            ("default", None),
            ("", None),
        ] {
            assert_eq!(input_price(&list, model), input, "{model}");
        }
    }

    #[test]
    fn the_users_prices_take_precedence_and_the_longest_matching_name_counts() {
        let text = r#"{"claude-*": {"input": 9}, "claude-opus*": {"input": 8}, "claude-opus-6": {"input": 7}}"#;
        let list: PriceList = serde_json::from_str(text).unwrap();
        assert_eq!(input_price(&list, "claude-opus-6"), Some(7.0));
        assert_eq!(input_price(&list, "claude-opus-7"), Some(8.0));
        assert_eq!(input_price(&list, "claude-sonnet-4-5"), Some(9.0));
        assert_eq!(input_price(&list, "gpt-5"), Some(1.25));
        assert!(serde_json::from_str::<PriceList>(r#"{"x": {"input": -1}}"#).is_err());
    }
}
