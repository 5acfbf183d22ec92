//! Builds the supervised init: a program of its own, which the library embeds
//! and copies into pods.

fn main() {
    // Where it is not available, asking for it is an error at run time, which says so.
    mcp_lifecycle_host::freestanding::build_init();
}
