use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{ServerSpec, ServerSpecBuilder, SpecError};

impl ServerSpec {
    /// Reads the [`options`](Self::options) as a launcher's own type, a struct with defaults for
    /// all fields. Names may be in `camelCase` or `snake_case`.
    ///
    /// # Errors
    ///
    /// [`SpecError::InvalidOption`] names the first option that is wrong, or that is given in both
    /// spellings.
    pub fn read_options<T: DeserializeOwned>(&self) -> Result<T, SpecError> {
        let mut options = Map::new();
        for (written, value) in self.options() {
            let name = in_snake_case(written);
            // One by one, so that the error names the option.
            let one = Map::from_iter([(name.clone(), value.clone())]);
            serde_json::from_value::<T>(one.into())
                .map_err(|error| invalid(written, error.to_string()))?;
            if options.insert(name, value.clone()).is_some() {
                return Err(invalid(
                    written,
                    "is there twice, in two spellings".to_owned(),
                ));
            }
        }
        serde_json::from_value(options.into())
            .map_err(|error| invalid("options", error.to_string()))
    }
}

impl ServerSpecBuilder {
    /// Sets each field of a launcher's own options that is not null, to be read by
    /// [`read_options`](ServerSpec::read_options). If they do not serialize to an object,
    /// [`build`](Self::build) fails.
    pub fn options<T: Serialize>(self, options: &T) -> Self {
        match serde_json::to_value(options) {
            Ok(Value::Object(fields)) => fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .fold(self, |spec, (name, value)| spec.option(name, value)),
            Ok(_) => self.reject(invalid("options", "are not an object".to_owned())),
            Err(error) => self.reject(invalid("options", error.to_string())),
        }
    }
}

fn invalid(name: &str, problem: String) -> SpecError {
    SpecError::InvalidOption {
        name: name.to_owned(),
        problem,
    }
}

fn in_snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    type Sizes = BTreeMap<String, u8>;

    fn spec() -> ServerSpecBuilder {
        ServerSpec::builder("s", "true")
    }

    #[test]
    fn options_are_read_as_they_were_written_in_either_spelling() {
        let sizes = Sizes::from([("at_most".to_owned(), 7)]);
        let written = spec().options(&sizes).build().unwrap();
        assert_eq!(written.read_options::<Sizes>().unwrap(), sizes);
        let other = spec().option("atMost", json!(7)).build().unwrap();
        assert_eq!(other.read_options::<Sizes>().unwrap(), sizes);
    }

    #[test]
    fn the_option_that_is_wrong_is_named_as_it_was_written() {
        for (first, second) in [("atMost", json!("seven")), ("at_most", json!(8))] {
            let spec = spec().option("atMost", json!(7)).option(first, second);
            let error = spec.build().unwrap().read_options::<Sizes>().unwrap_err();
            assert!(error.to_string().contains(first), "{error}");
        }
        assert!(spec().options(&7).build().is_err());
    }
}
