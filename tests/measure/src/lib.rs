//! What the benchmarks measure, as data. A harness makes a [`Run`], adds [`Figure`]s and [`Series`] to it, and finishes it:
//! that prints them and writes one file. The command `charts` draws the pictures and the table of `docs/benchmarks.md` from
//! those files. See `docs/benchmarks.md`.

pub mod draw;
pub mod summary;
pub mod table;

mod data;
mod run;

pub use data::{Bar, Figure, Is, Record, Series};
pub use run::{Run, percentile};
