//! Finds the directory of a cgroup in what the kernel writes in `/proc`. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Returns the path of the process in the version 2 hierarchy: the line of `/proc/PID/cgroup`
/// without a number and controllers (cgroups(7)).
pub(super) fn own_path(membership: &[u8]) -> Option<&[u8]> {
    let path = membership
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"0::"))?;
    // Outside of the cgroup namespace, or removed meanwhile.
    let hidden = path.starts_with(b"/..") || path.ends_with(b" (deleted)");
    (path.starts_with(b"/") && !hidden).then_some(path)
}

/// Returns the directories under which `path` is visible, by `/proc/PID/mountinfo`: one for each
/// mount of the hierarchy that shows it, also on a hybrid system.
pub(super) fn directories(mountinfo: &[u8], path: &[u8]) -> Vec<PathBuf> {
    let lines = mountinfo.split(|&byte| byte == b'\n');
    lines.filter_map(|line| directory(line, path)).collect()
}

/// Returns the mount points of both versions, by `/proc/PID/mountinfo`.
pub(super) fn mounts(mountinfo: &[u8]) -> Vec<PathBuf> {
    let lines = mountinfo.split(|&byte| byte == b'\n');
    let mounts = lines
        .filter_map(mount)
        .filter(|(kind, ..)| kind.starts_with(b"cgroup"));
    mounts
        .map(|(.., at)| PathBuf::from(OsString::from_vec(at)))
        .collect()
}

/// Parses a line: id, parent, device, root, mount point, options, any number of tags, `-`, type,
/// source, options (proc_pid_mountinfo(5)). Returns type, root and mount point.
fn mount(line: &[u8]) -> Option<(&[u8], Vec<u8>, Vec<u8>)> {
    let mut fields = line.split(|&byte| byte == b' ');
    let root = unescape(fields.nth(3)?);
    let at = unescape(fields.next()?);
    let kind = fields.skip_while(|field| field != b"-").nth(1)?;
    Some((kind, root, at))
}

fn directory(line: &[u8], path: &[u8]) -> Option<PathBuf> {
    let (kind, root, mut directory) = mount(line)?;
    if kind != b"cgroup2" {
        return None;
    }
    let below = match root.as_slice() {
        b"/" => path,
        root => path.strip_prefix(root)?,
    };
    // A root of "/a" is not above "/ab".
    if !below.is_empty() && !below.starts_with(b"/") {
        return None;
    }
    if below != b"/" {
        directory.extend_from_slice(below);
    }
    Some(PathBuf::from(OsString::from_vec(directory)))
}

/// Decodes white space and backslashes, which are written as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'\\')
            .then(|| after.split_first_chunk::<3>())
            .flatten()
            .and_then(|(digits, after)| Some((octal(digits)?, after)));
        let (byte, after) = escaped.unwrap_or((byte, after));
        text.push(byte);
        rest = after;
    }
    text
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
25 20 0:22 / /sys/fs/cgroup ro,nosuid shared:8 - tmpfs tmpfs ro,mode=755
26 25 0:23 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
27 25 0:24 / /sys/fs/cgroup/systemd rw,nosuid shared:10 - cgroup cgroup rw,name=systemd
";

    fn places(mountinfo: &str, path: &str) -> Vec<PathBuf> {
        directories(mountinfo.as_bytes(), path.as_bytes())
    }

    #[test]
    fn the_line_without_controllers_is_ours() {
        let membership = b"9:name=systemd:/x\n0::/user.slice/a.service\n";
        assert_eq!(own_path(membership), Some(&b"/user.slice/a.service"[..]));
        assert_eq!(own_path(b"9:name=systemd:/x\n"), None);
        assert_eq!(own_path(b"0::/../outside\n"), None);
        assert_eq!(own_path(b"0::/gone (deleted)\n"), None);
        assert_eq!(own_path(b"0::\n"), None);
        assert_eq!(own_path(b""), None);
    }

    #[test]
    fn hybrid_mounts_count_and_version_1_does_not() {
        let expected = [PathBuf::from("/sys/fs/cgroup/unified/a/b")];
        assert_eq!(places(HYBRID, "/a/b"), expected);
        let root = [PathBuf::from("/sys/fs/cgroup/unified")];
        assert_eq!(places(HYBRID, "/"), root);
    }

    #[test]
    fn mounts_of_both_versions_are_listed() {
        let expected = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"];
        assert_eq!(mounts(HYBRID.as_bytes()), expected.map(PathBuf::from));
    }

    #[test]
    fn a_mount_of_a_part_shows_that_part() {
        let part = "40 1 0:23 /a /mnt/with\\040space rw - cgroup2 cgroup2 rw";
        let below = [PathBuf::from("/mnt/with space/b")];
        assert_eq!(places(part, "/a/b"), below);
        assert_eq!(places(part, "/a"), [PathBuf::from("/mnt/with space")]);
        assert!(places(part, "/ab").is_empty());
        assert!(places(part, "/").is_empty());
    }

    #[test]
    fn garbage_is_nowhere() {
        for garbage in [
            "",
            "1 2 3",
            "1 2 3 / /x rw -",
            "\\\\ \\0 \\999 \\ \\ - cgroup2",
        ] {
            let found = places(garbage, "/a");
            assert!(found.len() <= 1, "{found:?}");
        }
    }
}
