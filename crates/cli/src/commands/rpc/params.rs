//! The parameters of a method, each taken by its name: what is wrong with one names it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::protocol::Error;

/// A name that an agent gives: a text, or a number as one.
#[derive(Deserialize)]
#[serde(from = "Named")]
pub(super) struct Name(pub(super) String);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a number")]
enum Named {
    Number(serde_json::Number),
    Text(String),
}

impl From<Named> for Name {
    fn from(named: Named) -> Name {
        match named {
            Named::Number(number) => Name(number.to_string()),
            Named::Text(text) => Name(text),
        }
    }
}

/// What is left of them.
pub(super) struct Params {
    fields: BTreeMap<String, Box<RawValue>>,
    /// Those that were asked for.
    known: Vec<&'static str>,
}

impl Params {
    pub(super) fn read(params: Option<&RawValue>) -> Result<Params, Error> {
        let fields =
            params.map_or(Ok(BTreeMap::new()), |params| serde_json::from_str(params.get()));
        let fields = fields.map_err(|_| Error::invalid_params("params have names: an object"))?;
        Ok(Params { fields, known: Vec::new() })
    }

    /// Takes one. Null is as good as none.
    pub(super) fn optional<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, Error> {
        self.take(name).map_or(Ok(None), |raw| typed(name, &raw))
    }

    pub(super) fn required<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, Error> {
        let missing = || Error::invalid_params(format!("{name} is missing"));
        self.optional(name)?.ok_or_else(missing)
    }

    /// One that has a value if nobody gives it.
    pub(super) fn or_default<T: DeserializeOwned + Default>(
        &mut self,
        name: &'static str,
    ) -> Result<T, Error> {
        Ok(self.optional(name)?.unwrap_or_default())
    }

    /// Takes one that has to be of a type, as it stands there.
    pub(super) fn raw<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Box<RawValue>>, Error> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        typed::<T>(name, &raw)?;
        Ok(Some(raw))
    }

    /// Takes one that may be anything, as it stands there.
    pub(super) fn take(&mut self, name: &'static str) -> Option<Box<RawValue>> {
        self.known.push(name);
        self.fields.remove(name)
    }

    /// There must be no others: a name that is misspelt would do something else than is meant.
    pub(super) fn end(self) -> Result<(), Error> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(unknown) => {
                let known = self.known.join(", ");
                Err(Error::invalid_params(format!(
                    "{unknown} is not known here; there are: {known}"
                )))
            }
        }
    }
}

fn typed<T: DeserializeOwned>(name: &str, raw: &RawValue) -> Result<Option<T>, Error> {
    // By way of a value, so that errors do not speak of lines and columns.
    let value = serde_json::from_str::<Value>(raw.get());
    let typed = value.and_then(serde_json::from_value::<Option<T>>);
    typed.map_err(|error| Error::invalid_params(format!("{name}: {error}")))
}
