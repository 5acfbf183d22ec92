//! Builds the supervised init: a program of its own, which the library embeds
//! and copies into containers.
//!
//! It is compiled by the compiler that compiles the crate, for the same target,
//! from `init/` and nothing else, as the guardian of `mcp-launcher-local` is.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "init/main.rs";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(init_available)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=init");
    if !is_supported() {
        // Asking for it is an error at run time, which says so.
        return;
    }
    let program = PathBuf::from(variable("OUT_DIR")).join("mcp-init");
    build(&program);
    println!("cargo::rustc-cfg=init_available");
}

/// The architectures that `init/sys` has an entry point and system call numbers for.
fn is_supported() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|actual| actual == value);
    let architecture =
        is("CARGO_CFG_TARGET_ARCH", "x86_64") || is("CARGO_CFG_TARGET_ARCH", "aarch64");
    architecture
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && is("CARGO_CFG_TARGET_ENDIAN", "little")
}

fn build(program: &Path) {
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args([
        "--edition=2024",
        "--crate-name=mcp_init",
        "--crate-type=bin",
    ]);
    rustc.args(["--target", &variable("TARGET")]);
    // Small and self-contained: it is copied into every container that asks for it.
    rustc.args([
        "-Cpanic=abort",
        "-Copt-level=s",
        "-Ccodegen-units=1",
        "-Cstrip=symbols",
        "-Crelocation-model=static",
    ]);
    for argument in [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        "-Wl,--build-id=none",
        "-Wl,-z,norelro",
    ] {
        rustc.arg(format!("-Clink-arg={argument}"));
    }
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        rustc.arg("-Clink-self-contained=no");
    }
    // What the user configured for the target, when cross-compiling.
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.arg("-o").arg(program).arg(SOURCE);
    let output = rustc
        .output()
        .unwrap_or_else(|error| panic!("cannot run {rustc:?} to build the init program: {error}"));
    assert!(
        output.status.success(),
        "the init program (mcp-launcher-docker/{SOURCE}) does not build.\ncommand: {rustc:?}\n{}",
        String::from_utf8_lossy(&output.stderr),
    );
}

fn variable(name: &str) -> String {
    env::var(name)
        .unwrap_or_else(|error| panic!("{name}, which cargo sets for build scripts: {error}"))
}
