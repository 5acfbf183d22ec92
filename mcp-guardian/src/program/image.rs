//! The guardian program, in an executable form.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

use crate::image::Image;
use crate::init::PROGRAM;

use super::protocol::FIRST_FREE_FD;
use crate::sys;

const NAME: &CStr = c"mcp-guardian";

/// Returns the guardian program, ready to be executed.
#[doc(hidden)]
pub const fn image() -> Image {
    Image::new(NAME, PROGRAM, FIRST_FREE_FD)
}

/// Returns [`Unsupported`](io::ErrorKind::Unsupported) if this build contains no guardian or the
/// kernel has no pidfds (before 5.3). Any other error may pass.
pub(super) fn check_support() -> io::Result<()> {
    if cfg!(not(programs_available)) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this build contains no guardian for its architecture",
        ));
    }
    static HAS_PIDFDS: OnceLock<()> = OnceLock::new();
    if HAS_PIDFDS.get().is_none() {
        sys::has_pidfds()?;
        HAS_PIDFDS.get_or_init(|| ());
    }
    Ok(())
}

/// Returns whether `/proc/PID/exe` of a guardian can have this path: the program is in memory, or
/// in a private file that is unlinked.
pub fn is_image_path(path: &Path) -> bool {
    let Some(path) = path
        .to_str()
        .and_then(|path| path.strip_suffix(" (deleted)"))
    else {
        return false;
    };
    let name = NAME.to_string_lossy();
    if path.strip_prefix("/memfd:") == Some(&*name) {
        return true;
    }
    let file = path
        .rsplit('/')
        .next()
        .and_then(|file| file.strip_prefix('.'));
    let numbers = file.and_then(|file| file.strip_prefix(&*name)?.strip_prefix('-'));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    numbers.is_some_and(|numbers| numbers.split('-').map(is_number).eq([true, true]))
}

/// Returns whether this is a guardian program, also of another version: it is small and contains
/// its name. A file that cannot be read may be one.
pub fn is_image(file: &File) -> bool {
    const SIZE_MAX: u64 = 256 * 1024;
    let mut program = Vec::new();
    let read = file.take(SIZE_MAX + 1).read_to_end(&mut program);
    let name = NAME.to_bytes_with_nul();
    let says_so = || program.windows(name.len()).any(|part| part == name);
    read.is_err() || (program.len() as u64 <= SIZE_MAX && says_so())
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;

    use crate::image::{directories, exec_path};

    use super::*;

    #[test]
    fn only_the_names_that_it_can_have_are_its() {
        let is_its = |path: &str| is_image_path(Path::new(path));
        assert!(is_its("/memfd:mcp-guardian (deleted)"));
        assert!(is_its("/dev/shm/.mcp-guardian-77-0 (deleted)"));
        for other in [
            "/memfd:mcp-guardian-2 (deleted)",
            "/usr/bin/mcp-guardian",
            "/usr/bin/mcp-guardian (deleted)",
            "/usr/bin/my-mcp-guardian-tool (deleted)",
            "/tmp/.mcp-guardian-77-0",
            "/tmp/.mcp-guardian-77 (deleted)",
            "/tmp/.mcp-guardian-77-0-1 (deleted)",
            "/tmp/.mcp-guardian-x-0 (deleted)",
        ] {
            assert!(!is_its(other), "{other}");
        }
    }

    #[cfg(programs_available)]
    #[test]
    fn it_is_known_by_what_it_says_in_either_form() {
        let file = image().in_file(&directories()).unwrap();
        for image in [image(), file] {
            // Opened anew, to read from the beginning.
            let open = |fd: BorrowedFd<'_>| File::open(exec_path(fd)?.to_str().unwrap());
            assert!(is_image(&image.run(open).unwrap()));
        }
        assert!(!is_image(&File::open("/proc/self/exe").unwrap()));
        assert!(!is_image(&File::open("/dev/null").unwrap()));
    }
}
