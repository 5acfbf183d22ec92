use std::fmt::{self, Display};

use serde::de::value::{SeqDeserializer, StrDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value as Scalar;

use super::{Member, Node, Value};

/// A part of a configuration that is not as it has to be.
#[derive(Debug)]
#[doc(hidden)]
pub struct Misfit {
    /// The offset in the text; `None` for all of it.
    pub at: Option<usize>,
    pub problem: String,
}

impl Misfit {
    pub(super) fn new(at: usize, problem: &dyn Display) -> Self {
        let (at, problem) = (Some(at), problem.to_string());
        Self { at, problem }
    }
}

impl Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Misfit {}

impl Error for Misfit {
    fn custom<T: Display>(problem: T) -> Self {
        let problem = problem.to_string();
        Self { at: None, problem }
    }
}

impl Node {
    /// Reads a type. The error has the position of the innermost member that does not fit.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Misfit> {
        T::deserialize(self)
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match &self.value {
            Value::Table { members, .. } => visitor.visit_map(Members(members, None)),
            Value::List(list) => visitor.visit_seq(SeqDeserializer::new(list.iter())),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Other(value) => value.deserialize_any(visitor).map_err(Error::custom),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match &self.value {
            Value::Other(Scalar::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let variant: StrDeserializer<'_, Misfit> = match self.as_text() {
            Some(text) => text.into_deserializer(),
            None => return self.deserialize_any(visitor),
        };
        variant.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Misfit> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The rest of a table, and the value of the key that was read last.
struct Members<'de>(&'de [Member], Option<&'de Node>);

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misfit> {
        let Some((member, rest)) = self.0.split_first() else {
            return Ok(None);
        };
        *self = Self(rest, Some(&member.node));
        let key: StrDeserializer<'_, Misfit> = member.name.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let node = self
            .1
            .take()
            .ok_or_else(|| Misfit::custom("a value without a key"))?;
        seed.deserialize(node).map_err(|mut misfit| {
            misfit.at.get_or_insert(node.range.start);
            misfit
        })
    }
}
