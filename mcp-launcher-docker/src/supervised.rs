//! The supervised init: process 1 of a container, which ends the server when the host is gone.
//!
//! The engine unpacks it from an archive between create and start. If the root is read-only, it is
//! mounted from a file in the ledger directory, which needs an engine on this machine.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};

use mcp_guardian::init::{self, PROGRAM};
use mcp_lifecycle_core::backend::ARCHITECTURE;

use crate::engine::{EngineError, ImageFacts, Result};
use crate::ledger::Ledger;

const NAME: &str = ".mcp-init";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Supervision {
    /// Time from the end of input to SIGTERM, and again to SIGKILL.
    pub(crate) grace: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// [`archive`] is unpacked into its root before the start.
    Archive,
    Mounted,
}

impl Supervision {
    /// Changes the request so that the program runs the original command. This needs the entry
    /// point: its own or the image's.
    pub(crate) fn wrap(
        self,
        body: &mut ContainerCreateBody,
        image: ImageFacts,
        local: Option<&Ledger>,
    ) -> Result<Delivery> {
        check_architecture(&image)?;
        let own = body.entrypoint.take().filter(|own| !own.is_empty());
        // An explicit entry point also replaces the image's arguments.
        let args = match &own {
            Some(_) => body.cmd.take(),
            None => body.cmd.take().or(image.cmd),
        };
        let program = own.or(image.entrypoint).unwrap_or_default();
        let args = args.unwrap_or_default();
        if program.is_empty() && args.is_empty() {
            return Err(unsupported("the image names no program to run"));
        }
        let grace = self.grace.as_millis().to_string();
        let mut entrypoint = vec![format!("/{NAME}"), grace];
        entrypoint.extend(program);
        body.entrypoint = Some(entrypoint);
        body.cmd = Some(args);
        let host = body.host_config.get_or_insert_default();
        host.init = Some(false);
        if host.readonly_rootfs != Some(true) {
            return Ok(Delivery::Archive);
        }
        let Some(ledger) = local else {
            return Err(unsupported(
                "with a read-only root it needs an engine behind a Unix socket of this machine",
            ));
        };
        let file = file_of(ledger).map_err(EngineError::Supervision)?;
        mount(host, &file)?;
        Ok(Delivery::Mounted)
    }
}

pub(crate) fn archive() -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut header = [0_u8; BLOCK];
    let mut put = |at: usize, text: &str| {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    put(0, NAME);
    put(100, "0000555\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", PROGRAM.len()));
    put(136, "00000000000\0");
    // The checksum is computed with spaces in its own field.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = header.to_vec();
    archive.extend(PROGRAM);
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive
}

fn check_architecture(image: &ImageFacts) -> Result<()> {
    if PROGRAM.is_empty() {
        return Err(unsupported(init::NOT_AVAILABLE));
    }
    match image.architecture.as_deref() {
        Some(other) if other != ARCHITECTURE && !other.is_empty() => Err(unsupported(&format!(
            "the image is for {other}, and this build's program for {ARCHITECTURE}"
        ))),
        _ => Ok(()),
    }
}

fn mount(host: &mut HostConfig, file: &Path) -> Result<()> {
    let source = file
        .to_str()
        .ok_or_else(|| unsupported("the ledger directory is not valid UTF-8"))?;
    host.mounts.get_or_insert_default().push(Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_owned()),
        target: Some(format!("/{NAME}")),
        read_only: Some(true),
        ..Mount::default()
    });
    Ok(())
}

/// Stores the program as a file, which is kept: other containers mount it.
fn file_of(ledger: &Ledger) -> io::Result<PathBuf> {
    ledger.keep_file(concat!("init-", env!("CARGO_PKG_VERSION")), PROGRAM)
}

fn unsupported(problem: &str) -> EngineError {
    EngineError::Supervision(io::Error::new(io::ErrorKind::Unsupported, problem))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;
    use crate::ledger::Place;

    const GRACE: Supervision = Supervision {
        grace: Duration::from_millis(1500),
    };

    fn image() -> ImageFacts {
        let words = |text: &str| Some(text.split(' ').map(str::to_owned).collect());
        ImageFacts {
            entrypoint: words("npx -y"),
            cmd: words("thing"),
            ..ImageFacts::default()
        }
    }

    fn wrapped(mut body: ContainerCreateBody) -> String {
        let delivery = GRACE.wrap(&mut body, image(), None).unwrap();
        assert_eq!(delivery, Delivery::Archive);
        let words = [body.entrypoint.unwrap(), body.cmd.unwrap()].concat();
        words.join(" ")
    }

    #[cfg_attr(
        not(target_os = "linux"),
        ignore = "the program is built on Linux only"
    )]
    #[test]
    fn it_runs_what_would_have_run() {
        let body = ContainerCreateBody::default;
        let one = |word: &str| Some(vec![word.to_owned()]);
        assert_eq!(wrapped(body()), "/.mcp-init 1500 npx -y thing");
        let args = ContainerCreateBody {
            cmd: one("other"),
            ..body()
        };
        assert_eq!(wrapped(args), "/.mcp-init 1500 npx -y other");
        let program = ContainerCreateBody {
            entrypoint: one("sh"),
            ..body()
        };
        assert_eq!(wrapped(program), "/.mcp-init 1500 sh");
    }

    #[cfg_attr(
        not(target_os = "linux"),
        ignore = "the program is built on Linux only"
    )]
    #[test]
    fn a_read_only_root_gets_a_mount_and_another_architecture_an_error() {
        let read_only = || ContainerCreateBody {
            host_config: Some(HostConfig {
                readonly_rootfs: Some(true),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::take(&Place::At(directory.path().to_owned())).unwrap();
        let mut body = read_only();
        let delivery = GRACE.wrap(&mut body, image(), Some(&ledger));
        assert_eq!(delivery.unwrap(), Delivery::Mounted);
        let mounts = body.host_config.unwrap().mounts.unwrap();
        let source = mounts[0].source.clone().unwrap();
        assert_eq!(fs::read(&source).unwrap(), PROGRAM);
        assert_eq!(file_of(&ledger).unwrap(), Path::new(&source));
        let far = GRACE.wrap(&mut read_only(), image(), None).unwrap_err();
        assert!(far.to_string().contains("supervised"), "{far}");
        let other = ImageFacts {
            architecture: Some("riscv64".to_owned()),
            ..image()
        };
        GRACE.wrap(&mut read_only(), other, None).unwrap_err();
    }

    #[test]
    fn the_archive_is_one_that_tar_reads() {
        let mut tar = std::process::Command::new("tar")
            .args(["-tvf", "-"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        tar.stdin.take().unwrap().write_all(&archive()).unwrap();
        let output = tar.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        assert!(text.starts_with("-r-xr-xr-x 0/0"), "{text}");
        assert!(text.trim_end().ends_with(NAME), "{text}");
    }
}
