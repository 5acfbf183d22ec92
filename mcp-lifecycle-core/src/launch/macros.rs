/// Generates `new`, which returns the defaults, and a setter for each listed field of settings.
macro_rules! settings {
    ($settings:ident { $($fields:tt)+ }) => {
        impl $settings {
            /// Returns the defaults.
            pub fn new() -> Self {
                Self::default()
            }

            $crate::launch::macros::field_setters! { $($fields)+ }
        }
    };
}

macro_rules! field_setters {
    ($($field:ident: $type:ty),+ $(,)?) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field.into();
            self
        }
    )+};
}

/// Generates chained setters: a name, its values, and what it does to `it`.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($of:ident$(<$param:ident>)?: $($(#[$doc:meta])* $name:ident($($value:ident: $type:ty),*) |$it:ident| $set:expr;)*) => {
        impl$(<$param>)? $of$(<$param>)? {
            $($(#[$doc])*
            pub fn $name(mut self, $($value: $type),*) -> Self {
                let $it = &mut self;
                $set;
                self
            })*
        }
    };
}

/// Implements `Debug` by some fields, for a type whose others are secret or have none.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    ($type:ident $(<$life:lifetime>)?, $it:ident { $($field:ident: $value:expr),* $(,)? }) => {
        impl std::fmt::Debug for $type $(<$life>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), $value))*
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use {debug_fields, field_setters, settings};
