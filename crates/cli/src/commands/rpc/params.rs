//! The parameters of a method, which are taken by name. An error names the parameter.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::protocol::Error;

/// A name that an agent gives to a session, turn or call: a string, or a number.
#[derive(Deserialize)]
#[serde(from = "Named")]
pub(super) struct Name(pub(super) String);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a number")]
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

/// The parameters that have not been taken yet.
#[derive(Clone)]
pub(super) struct Params {
    fields: BTreeMap<String, Box<RawValue>>,
    /// The names of all parameters that the method has asked for so far.
    known: Vec<&'static str>,
}

impl Params {
    pub(super) fn read(params: Option<&RawValue>) -> Result<Params, Error> {
        let fields =
            params.map_or(Ok(BTreeMap::new()), |params| serde_json::from_str(params.get()));
        let fields = fields
            .map_err(|_| Error::invalid_params("params must be an object with named parameters"))?;
        Ok(Params { fields, known: Vec::new() })
    }

    /// Takes an optional parameter. Null counts as missing.
    pub(super) fn optional<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, Error> {
        self.take_raw(name).map_or(Ok(None), |raw| parse_value(name, &raw))
    }

    pub(super) fn required<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, Error> {
        let missing = || Error::invalid_params(format!("{name} is missing"));
        self.optional(name)?.ok_or_else(missing)
    }

    /// Takes a parameter that has a default.
    pub(super) fn or_default<T: DeserializeOwned + Default>(
        &mut self,
        name: &'static str,
    ) -> Result<T, Error> {
        Ok(self.optional(name)?.unwrap_or_default())
    }

    /// Takes the JSON of an optional parameter, which must be of the type `T`.
    pub(super) fn take_checked<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Box<RawValue>>, Error> {
        let Some(raw) = self.take_raw(name) else { return Ok(None) };
        parse_value::<T>(name, &raw)?;
        Ok(Some(raw))
    }

    /// Takes the JSON of an optional parameter of any type.
    pub(super) fn take_raw(&mut self, name: &'static str) -> Option<Box<RawValue>> {
        self.known.push(name);
        self.fields.remove(name)
    }

    /// Fails if a parameter is left over, because a misspelled name must not be ignored.
    pub(super) fn end(self) -> Result<(), Error> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(unknown) => {
                let known = self.known.join(", ");
                Err(Error::invalid_params(format!(
                    "unknown parameter {unknown}; the parameters are {known}"
                )))
            }
        }
    }
}

fn parse_value<T: DeserializeOwned>(name: &str, raw: &RawValue) -> Result<Option<T>, Error> {
    // Parsing the JSON into a `Value` first keeps line and column numbers out of the message.
    let value = serde_json::from_str::<Value>(raw.get());
    let parsed = value.and_then(serde_json::from_value::<Option<T>>);
    parsed.map_err(|error| Error::invalid_params(format!("{name}: {error}")))
}
