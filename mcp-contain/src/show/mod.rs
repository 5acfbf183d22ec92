//! What several verbs say in the same way. Pure, but for the width of the terminal.
//!
//! - [`name`]: what people call a server, by its command line
//! - [`out`]: standard output
//! - [`text`]: texts of others
//! - [`table`]: columns that fit the terminal
//! - [`units`]: times and sizes in few characters

pub(crate) mod name;
pub(crate) mod out;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod units;
