use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

/// A duration: a number of seconds, or text with a unit (`"500ms"`, `"2m"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXPECTED: &str =
            "expected a time: a number of seconds, or text such as \"500ms\", \"30s\", \"2m\"";
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Written {
            Seconds(f64),
            Text(String),
        }
        let written = Written::deserialize(deserializer).map_err(|_| D::Error::custom(EXPECTED))?;
        match written {
            Written::Seconds(seconds) => Duration::try_from_secs_f64(seconds)
                .map_err(|_| D::Error::custom("a time cannot be negative or endless")),
            Written::Text(text) => {
                humantime::parse_duration(&text).map_err(|_| D::Error::custom(EXPECTED))
            }
        }
        .map(Self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MaybeSpan(pub(super) Option<Duration>);

impl<'de> Deserialize<'de> for MaybeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged, expecting = "expected a time, or false for none")]
        enum Either {
            Time(Span),
            Off(bool),
        }
        match Either::deserialize(deserializer)? {
            Either::Time(Span(time)) => Ok(Self(Some(time))),
            Either::Off(false) => Ok(Self(None)),
            Either::Off(true) => Err(D::Error::custom("expected a time, or false for none")),
        }
    }
}

pub(super) fn strings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "expected an array of strings")]
    enum Strings {
        Array(Vec<String>),
    }
    let Strings::Array(strings) = Strings::deserialize(deserializer)?;
    Ok(strings)
}

/// The environment of a server. Its errors do not show values.
#[derive(Default)]
pub(super) struct Env(pub(super) BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Env {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let serde_json::Value::Object(table) = Deserialize::deserialize(deserializer)? else {
            return Err(D::Error::custom(
                "`env` must be a table of environment variables",
            ));
        };
        let text = |(name, value): (String, serde_json::Value)| match value {
            serde_json::Value::String(value) => Ok((name, value)),
            _ => Err(D::Error::custom(format_args!(
                "the value of environment variable `{name}` must be a string"
            ))),
        };
        Ok(Self(table.into_iter().map(text).collect::<Result<_, _>>()?))
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
