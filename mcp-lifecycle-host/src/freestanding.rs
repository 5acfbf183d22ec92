//! Compiles static programs without libc, for build scripts.
//!
//! A program is compiled by the compiler that compiles the crate, for the same target,
//! from a folder of its own and `freestanding/`, and nothing else. Flags meant for the
//! crate (instrumentation, target features) do not apply to it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const GROUND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/freestanding");

/// Compiles the supervised init, `init/` of this crate, to `OUT_DIR/mcp-init`, and sets
/// `cfg(init_available)`, as [`build`] does.
///
/// # Panics
///
/// When it does not compile.
pub fn build_init() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/init");
    build(folder, "mcp-init", "init_available");
}

/// Compiles the program of this name from `FOLDER/main.rs` to `OUT_DIR/NAME`, and sets
/// `cfg(AVAILABLE)`; not where the target is another than Linux on x86_64 or aarch64.
///
/// # Panics
///
/// When it does not compile, with the compiler's words: this is for build scripts.
pub fn build(folder: &str, name: &str, available: &str) {
    println!("cargo::rustc-check-cfg=cfg({available})");
    for input in ["build.rs", folder, GROUND] {
        println!("cargo::rerun-if-changed={input}");
    }
    if !is_supported() {
        return;
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    let ground = out.join("libfreestanding.rlib");
    compile(
        "rlib",
        "freestanding",
        &format!("{GROUND}/lib.rs"),
        &ground,
        &[],
    );
    let ground = format!("--extern=freestanding={}", ground.display());
    let mut arguments = vec![ground];
    let link = [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        "-Wl,--build-id=none",
        "-Wl,-z,norelro",
    ];
    arguments.extend(link.map(|argument| format!("-Clink-arg={argument}")));
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        arguments.push("-Clink-self-contained=no".to_owned());
    }
    // What the user configured for the target, when cross-compiling.
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        arguments.push(format!("-Clinker={linker}"));
    }
    let source = format!("{folder}/main.rs");
    compile(
        "bin",
        &name.replace('-', "_"),
        &source,
        &out.join(name),
        &arguments,
    );
    println!("cargo::rustc-cfg={available}");
}

/// The architectures that `freestanding/` has an entry point and system call numbers for.
fn is_supported() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|actual| actual == value);
    let architecture =
        is("CARGO_CFG_TARGET_ARCH", "x86_64") || is("CARGO_CFG_TARGET_ARCH", "aarch64");
    architecture
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && is("CARGO_CFG_TARGET_ENDIAN", "little")
}

/// Small and self-contained: such a program is copied, and its pages are paid for each time.
fn compile(kind: &str, name: &str, source: &str, output: &Path, arguments: &[String]) {
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--edition=2024", "--crate-type", kind, "--crate-name", name]);
    rustc.args(["--target", &variable("TARGET")]);
    rustc.args([
        "-Cpanic=abort",
        "-Copt-level=s",
        "-Ccodegen-units=1",
        "-Cstrip=symbols",
        "-Crelocation-model=static",
    ]);
    rustc.args(arguments).arg("-o").arg(output).arg(source);
    let done = rustc.output();
    let done = done.unwrap_or_else(|error| panic!("cannot run {rustc:?} to build {name}: {error}"));
    assert!(
        done.status.success(),
        "{name} ({source}) does not build.\ncommand: {rustc:?}\n{}",
        String::from_utf8_lossy(&done.stderr),
    );
}

fn variable(name: &str) -> String {
    env::var(name)
        .unwrap_or_else(|error| panic!("{name}, which cargo sets for build scripts: {error}"))
}
