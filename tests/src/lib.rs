//! The conformance kit that any launcher runs.
