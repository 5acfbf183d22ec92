//! The conformance kit on the launcher of the guide.

use bare_launcher::BareLauncher;
use mcp_lifecycle_conformance::Kit;

fn main() -> std::process::ExitCode {
    Kit::new("bare", || async { BareLauncher }).main()
}
