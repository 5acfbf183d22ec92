//! Builds the program that the library embeds: static, without libc, for Linux on x86_64 and
//! aarch64, by the crate's compiler for the crate's target. The crate's own flags (instrumentation,
//! target features) do not apply. With the feature `prebuilt` it is the file that the package brings,
//! if it does: then no compiler is called, as a hermetic build system wants it.
//!
//! Without it, a launch falls back to process groups and reports that; the use of the init is an
//! error at run time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const SOURCE: &str = "guardian-bin/main.rs";

/// Compiles for size, since each process pays for the program's pages.
const OPTIONS: [&str; 12] = [
    "-Cpanic=abort",
    "-Cforce-unwind-tables=no",
    "-Copt-level=s",
    "-Ccodegen-units=1",
    "-Cstrip=symbols",
    "-Crelocation-model=static",
    "-Clink-arg=-nostartfiles",
    "-Clink-arg=-nostdlib",
    "-Clink-arg=-static",
    "-Clink-arg=-Wl,--build-id=none",
    "-Clink-arg=-Wl,-z,norelro",
    "--edition=2024",
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(programs_available)");
    let sources = [
        "build",
        "guardian-bin",
        "prebuilt",
        "src/program/protocol.rs",
        "src/program/ending.rs",
        "src/program/text.rs",
    ];
    // A missing one would have every build run this again.
    for source in sources.iter().filter(|source| Path::new(source).exists()) {
        println!("cargo::rerun-if-changed={source}");
    }
    if is_supported() {
        let output = PathBuf::from(variable("OUT_DIR")).join("mcp-guardian");
        let prebuilt = Path::new("prebuilt").join(variable("CARGO_CFG_TARGET_ARCH"));
        match env::var_os("CARGO_FEATURE_PREBUILT").is_some() && prebuilt.exists() {
            true => drop(fs::copy(&prebuilt, output).expect("the program is copied")),
            false => compile(&output),
        }
        println!("cargo::rustc-cfg=programs_available");
    }
}

fn is_supported() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|actual| actual == value);
    let architecture =
        is("CARGO_CFG_TARGET_ARCH", "x86_64") || is("CARGO_CFG_TARGET_ARCH", "aarch64");
    architecture
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && is("CARGO_CFG_TARGET_ENDIAN", "little")
}

fn compile(output: &Path) {
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--crate-type", "bin", "--crate-name", "mcp_guardian"]);
    rustc.args(["--target", &variable("TARGET")]).args(OPTIONS);
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        rustc.arg("-Clink-self-contained=no");
    }
    // The user's linker for cross-compilation.
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.arg("-o").arg(output).arg(SOURCE);
    let done = rustc.output();
    let done = done.unwrap_or_else(|error| panic!("cannot run {rustc:?}: {error}"));
    assert!(
        done.status.success(),
        "{SOURCE} does not build.\ncommand: {rustc:?}\n{}",
        String::from_utf8_lossy(&done.stderr),
    );
}

fn variable(name: &str) -> String {
    env::var(name)
        .unwrap_or_else(|error| panic!("{name}, which cargo sets for build scripts: {error}"))
}
