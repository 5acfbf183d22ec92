//! The guide shows the code of the stranger's launcher as it is tested.

#[test]
fn the_guide_shows_the_code_that_is_tested() {
    let guide = include_str!("../../docs/writing-a-launcher.md");
    let code = [
        include_str!("../outside/src/lib.rs"),
        include_str!("../outside/tests/conformance.rs"),
        include_str!("../outside/Cargo.toml"),
    ];
    let blocks: Vec<_> = guide.split("```").skip(1).step_by(2).collect();
    assert!(blocks.len() >= 7, "the guide has lost its code");
    for block in blocks {
        let (_, shown) = block.split_once('\n').unwrap();
        let is_shown = code.iter().any(|code| code.contains(shown));
        assert!(
            is_shown || block.starts_with("text"),
            "not in the code:\n{shown}"
        );
    }
    let lines = code[0].lines().filter(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//")
    });
    assert!(lines.count() < 150, "a launcher is meant to be small");
}
