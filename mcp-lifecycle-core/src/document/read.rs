use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::{Node, Value};

/// A part of a configuration that is not as it has to be.
#[derive(Debug)]
#[doc(hidden)]
pub struct Misfit {
    /// The offset in the text; `None` for all of it.
    pub at: Option<usize>,
    pub problem: String,
}

impl Misfit {
    pub(super) fn new(at: impl Into<Option<usize>>, problem: &dyn Display) -> Self {
        let (at, problem) = (at.into(), problem.to_string());
        Self { at, problem }
    }
}

impl Node {
    /// Reads a table as a type of which every field has a default. The error has the position of the
    /// member that does not fit.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Misfit> {
        let members = self.members().iter();
        let mut names = std::collections::BTreeSet::new();
        if let Some(again) = members.clone().find(|it| !names.insert(&it.name)) {
            let twice = format_args!("`{}` occurs twice", again.name);
            return Err(Misfit::new(again.start, &twice));
        }
        serde_json::from_value(self.json()).map_err(|error| {
            let alone = |name: &str, node: &Self| Json::from_iter([(name, node.json())]);
            let is_misfit = |json| serde_json::from_value::<T>(json).is_err();
            let at = members
                .clone()
                .find(|it| is_misfit(alone(&it.name, &it.node)));
            Misfit::new(at.map(|it| it.node.range.start), &error)
        })
    }

    fn json(&self) -> Json {
        match &self.value {
            Value::Table { members, .. } => {
                let members = members.iter();
                members
                    .map(|it| (it.name.clone(), it.node.json()))
                    .collect()
            }
            Value::List(list) => list.iter().map(Self::json).collect(),
            Value::Text(text) => text.as_str().into(),
            Value::Other(value) => value.clone(),
        }
    }
}
