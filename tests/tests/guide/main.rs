//! The guide's launcher passes the kit, and the guide shows its code as it is.

mod launcher;

use std::sync::Arc;

use launcher::BareLauncher;
use mcp_lifecycle_conformance::{Conformance, FixtureCommand, run};

#[test]
fn the_launcher_of_the_guide_passes_the_kit() {
    let fixture = FixtureCommand::local(env!("CARGO_BIN_EXE_mcp-fixture"));
    let kit = Conformance::new(Arc::new(BareLauncher), fixture);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let matrix = runtime.block_on(run(&kit));
    println!("{matrix}");
    matrix.assert();
}

#[test]
fn the_guide_shows_the_code_that_is_tested() {
    let guide = include_str!("../../../docs/writing-a-launcher.md");
    let code = include_str!("launcher.rs");
    let blocks: Vec<_> = guide.split("```rust\n").skip(1).collect();
    assert!(blocks.len() >= 5, "the guide has lost its code");
    for block in blocks {
        let shown = block.split("```").next().unwrap();
        assert!(code.contains(shown), "not in launcher.rs:\n{shown}");
    }
    let lines = code.lines().filter(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//")
    });
    assert!(lines.count() < 150, "a launcher is meant to be small");
}
