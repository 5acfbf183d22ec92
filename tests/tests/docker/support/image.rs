//! The fixture as an image: the static program, and a shell.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::Engine;

/// The image.
pub(crate) const NAME: &str = "mcp-fixture:test";

/// Names a static `mcp-fixture`, instead of building one.
const STATIC: &str = "MCP_FIXTURE_STATIC";

/// Makes sure that the engine has the image.
pub(crate) fn image(engine: &Engine) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let inspect = engine.command(&["image", "inspect", NAME]).output();
    if inspect.unwrap().status.success() {
        return;
    }
    let archive = archive();
    engine.docker(&["import", archive.path().to_str().unwrap(), NAME]);
}

/// The image's contents, as a tar archive.
pub(crate) fn archive() -> tempfile::NamedTempFile {
    let root = tempfile::tempdir().unwrap();
    std::fs::copy(static_fixture(), root.path().join("mcp-fixture")).unwrap();
    copy_program(Path::new("/bin/sh"), root.path());
    let archive = tempfile::NamedTempFile::new().unwrap();
    run(Command::new("tar")
        .arg("-C")
        .arg(root.path())
        .arg("-cf")
        .arg(archive.path())
        .arg("."));
    archive
}

fn static_fixture() -> PathBuf {
    if let Some(path) = std::env::var_os(STATIC) {
        return path.into();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("static");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    run(Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--bin",
            "mcp-fixture",
            "--target",
            &triple,
        ])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", "-C target-feature=+crt-static"));
    target.join(triple).join("debug").join("mcp-fixture")
}

/// Copies a program with the libraries it is linked to.
fn copy_program(program: &Path, root: &Path) {
    let libraries = Command::new("ldd").arg(program).output().unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    let libraries = libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for path in libraries.map(Path::new).chain([program]) {
        let to = root.join(path.strip_prefix("/").unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(path, to).unwrap();
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}
