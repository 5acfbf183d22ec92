//! Builds the guardian: a program of its own, which the library embeds.

fn main() {
    println!("cargo::rerun-if-changed=src/guardian/process/protocol.rs");
    println!("cargo::rerun-if-changed=src/guardian/process/order_format.rs");
    println!("cargo::rerun-if-changed=src/guardian/process/ending.rs");
    // Where it is not available, the crate falls back to process groups, and says so.
    mcp_lifecycle_host::freestanding::build("guardian-bin", "mcp-guardian", "guardian_available");
}
