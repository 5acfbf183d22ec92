//! The program that the kit observes, for tests that start it by its path and for
//! images of containers.

fn main() {
    mcp_lifecycle_conformance::fixture_main()
}
