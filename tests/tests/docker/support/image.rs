//! The fixture as an image: the program, a shell, and the libraries of both.

use std::path::Path;
use std::process::Command;

use super::Engine;

/// The image.
pub(crate) const NAME: &str = "mcp-fixture:test";

/// Makes sure that the engine has the image.
pub(crate) fn image(engine: &Engine) {
    // One test of all processes imports it.
    let turn = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image.lock");
    let turn = std::fs::File::create(turn).unwrap();
    turn.lock().unwrap();
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
    let fixture = Path::new(env!("CARGO_BIN_EXE_mcp-fixture"));
    std::fs::copy(fixture, root.path().join("mcp-fixture")).unwrap();
    copy_libraries(fixture, root.path());
    copy(Path::new("/bin/sh"), root.path());
    copy_libraries(Path::new("/bin/sh"), root.path());
    let archive = tempfile::NamedTempFile::new().unwrap();
    run(Command::new("tar")
        .arg("-C")
        .arg(root.path())
        .arg("-cf")
        .arg(archive.path())
        .arg("."));
    archive
}

/// Copies the libraries that a program is linked to.
fn copy_libraries(program: &Path, root: &Path) {
    let libraries = Command::new("ldd").arg(program).output().unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    let libraries = libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for path in libraries.map(Path::new) {
        copy(path, root);
    }
}

/// Copies a file to where it is here.
fn copy(path: &Path, root: &Path) {
    let to = root.join(path.strip_prefix("/").unwrap());
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(path, to).unwrap();
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}
