//! An object of which only a few fields are parsed. The others keep their bytes and order. Pure.

use std::ffi::CString;

use serde::de::{MapAccess, Visitor};
use serde::ser::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Vec<(Box<RawValue>, Box<RawValue>)>);

/// Decodes a string. Like Go it replaces what is not Unicode, such as the lone surrogates that
/// Python writes for a variable that is not UTF-8 (`\udce9`).
pub(super) fn text(raw: &RawValue) -> Option<String> {
    let bytes: CString = serde_json::from_str(raw.get()).ok()?;
    Some(String::from_utf8_lossy(bytes.as_bytes()).into_owned())
}

/// Compares a key with a field's name like Go: ignoring case, including the two non-ASCII letters
/// that fold to ASCII.
fn is_key(key: &RawValue, name: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    text(key).is_some_and(|key| key.chars().map(fold).eq(name.chars().map(fold)))
}

impl Fields {
    /// Parses an object; `None` for anything else.
    pub(super) fn of(raw: &RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a RawValue> {
        let fields = self.0.iter().filter(move |(key, _)| is_key(key, name));
        fields.map(|(_, value)| &**value)
    }

    /// Replaces the values of all fields that the daemon takes for this one, where `change` returns
    /// a new value.
    pub(super) fn change(
        &mut self,
        name: &str,
        change: impl Fn(&RawValue) -> Option<Box<RawValue>>,
    ) {
        for (key, value) in &mut self.0 {
            if is_key(key, name)
                && let Some(new) = change(value)
            {
                *value = new;
            }
        }
    }

    /// Merges all fields that the daemon takes for this one, as it does: later objects extend
    /// earlier ones, and null clears. Other values, and what is cleared, are kept in front for the
    /// daemon to refuse.
    pub(super) fn merge(&mut self, name: &str, then: impl FnOnce(&mut Self)) {
        let (mut merged, mut cleared) = (None::<Self>, Vec::new());
        self.0.retain(|(key, value)| {
            if !is_key(key, name) {
                return true;
            }
            if value.get() == "null" {
                cleared.append(&mut merged.take().unwrap_or_default().0);
            } else if let Some(mut fields) = Self::of(value) {
                merged.get_or_insert_default().0.append(&mut fields.0);
            } else {
                return true;
            }
            false
        });
        if !cleared.is_empty() {
            self.set(name, &Self(cleared));
            self.set(name, &());
        }
        let is_there = merged.is_some();
        let mut merged = merged.unwrap_or_default();
        then(&mut merged);
        // An empty object differs from none.
        if is_there || !merged.0.is_empty() {
            self.set(name, &merged);
        }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0
            .retain(|(key, _)| text(key).is_none_or(|key| keep(&key)));
    }

    /// Adds a field, which wins.
    pub(super) fn set(&mut self, name: &str, value: &impl Serialize) {
        // Serializing strings and parsed values cannot fail.
        if let (Ok(key), Ok(value)) = (to_raw_value(name), to_raw_value(value)) {
            self.0.push((key, value));
        }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        let said = self.values(name).filter(|value| value.get() != "null");
        said.last().is_some_and(|value| value.get() == "true")
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields, M::Error> {
                let mut fields = Fields::default();
                while let Some(field) = map.next_entry()? {
                    fields.0.push(field);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The keys of a map that serde writes would have to be Unicode.
        let fields = self.0.iter().map(|(key, value)| format!("{key}:{value}"));
        let text = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
        let object = RawValue::from_string(text).map_err(S::Error::custom)?;
        object.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fold_as_in_go() {
        let is_key = |key: &str, name| is_key(&to_raw_value(key).unwrap(), name);
        assert!(is_key("Labels", "Labels"));
        assert!(is_key("lABELS", "Labels"));
        assert!(is_key("Label\u{17f}", "Labels"));
        assert!(is_key("Networ\u{212a}", "Network"));
        assert!(!is_key("Labelß", "Labels"));
    }

    fn fields(text: &str) -> Fields {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_last_value_that_is_not_null_counts() {
        for (text, is) in [
            (r#"{"a":false,"A":true}"#, true),
            (r#"{"a":true,"a":false}"#, false),
            (r#"{"a":true,"a":null}"#, true),
            (r#"{"a":"true"}"#, false),
            (r#"{"b":true}"#, false),
        ] {
            assert_eq!(fields(text).is("a"), is, "{text}");
        }
    }

    #[test]
    fn only_an_object_has_fields() {
        let error = serde_json::from_str::<Fields>("[]").unwrap_err();
        assert!(error.to_string().contains("expected an object"), "{error}");
        assert!(Fields::of(&to_raw_value("x").unwrap()).is_none());
    }

    #[test]
    fn fields_are_changed_merged_and_kept_as_written() {
        let written = |it: &Fields| serde_json::to_string(it).unwrap();
        let mut some = fields(r#"{"a" : 1.0, "B":2, "b":3}"#);
        some.change("b", |value| {
            (value.get() == "2").then(|| to_raw_value(&7).unwrap())
        });
        assert_eq!(written(&some), r#"{"a":1.0,"B":7,"b":3}"#);
        some.retain(|name| name != "b");
        assert_eq!(written(&some), r#"{"a":1.0,"B":7}"#);
        for (text, merged) in [
            ("{}", "{}"),
            (r#"{"x":{}}"#, r#"{"x":{}}"#),
            (
                r#"{"x":{"a":1},"y":0,"X":{"b":2}}"#,
                r#"{"y":0,"x":{"a":1,"b":2}}"#,
            ),
            (r#"{"x":null}"#, "{}"),
            (
                r#"{"x":{"a":1},"x":null,"x":{}}"#,
                r#"{"x":{"a":1},"x":null,"x":{}}"#,
            ),
            (r#"{"x":7}"#, r#"{"x":7}"#),
        ] {
            let mut some = fields(text);
            some.merge("x", |_| {});
            assert_eq!(written(&some), merged, "{text}");
        }
    }
}
