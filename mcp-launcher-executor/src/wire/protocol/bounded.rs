//! Lists and maps with a limit during parsing: in memory they are many times as large as on the
//! wire.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};

/// Maximum number of arguments: as many as the kernel accepts.
pub(super) const ARGUMENTS: usize = 128 * 1024;

pub(super) const VARIABLES: usize = 4096;

pub(super) const PATTERNS: usize = 256;

pub(super) fn strings<'de, D: Deserializer<'de>, const MOST: usize>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_seq(Bounded::<MOST>)
}

pub(super) fn variables<'de, D: Deserializer<'de>, const MOST: usize>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    deserializer.deserialize_map(BoundedMap::<MOST>)
}

struct Bounded<const MOST: usize>;

impl<'de, const MOST: usize> Visitor<'de> for Bounded<MOST> {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
        let mut strings = Vec::new();
        while let Some(next) = list.next_element()? {
            if strings.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            strings.push(next);
        }
        Ok(strings)
    }
}

struct BoundedMap<const MOST: usize>;

impl<'de, const MOST: usize> Visitor<'de> for BoundedMap<MOST> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a map of at most {MOST} strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut variables = BTreeMap::new();
        while let Some((name, value)) = map.next_entry()? {
            if variables.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            variables.insert(name, value);
        }
        Ok(variables)
    }
}
