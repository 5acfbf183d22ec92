//! The core's convention for settings: public fields, and a `with_FIELD` for each.

/// Writes `with_FIELD` methods that take and return the settings by value.
macro_rules! setters {
    ($($(#[$doc:meta])+ $set:ident($field:ident: $type:ty);)+) => {$(
        $(#[$doc])+
        #[must_use]
        pub fn $set(mut self, $field: $type) -> Self {
            self.$field = $field.into();
            self
        }
    )+};
}

pub(crate) use setters;
