//! Which errors a system call can be answered with. Pure.

use nix::libc::{self, c_long};

use crate::seccomp::Call;

/// The errors that are plausible for a call: by what the kernel's manual pages
/// say of it, and what sandboxes answer. None for what must not fail.
pub(crate) fn plausible(call: &Call) -> &'static [i32] {
    use libc::*;
    const DEL: u64 = libc::EPOLL_CTL_DEL as u64;
    const STACK: u64 = libc::MAP_STACK as u64;
    /// Stacks of threads and of `posix_spawn`: std's own, for signals, are smaller.
    const LARGE: u64 = 32 * 1024;
    const NOHANG: u64 = libc::WNOHANG as u64;
    let [first, second, third, flags, ..] = call.args;
    match call.number {
        libc::SYS_mmap if flags & STACK != 0 && second >= LARGE => &[ENOMEM],
        libc::SYS_mmap => &[],
        libc::SYS_epoll_ctl if second == DEL => &[],
        libc::SYS_epoll_ctl => &[ENOMEM, ENOSPC],
        libc::SYS_prctl if first == PR_SET_NAME as u64 => &[],
        libc::SYS_fcntl => match second as i32 {
            F_DUPFD_CLOEXEC | F_DUPFD => &[EMFILE, EPERM],
            F_SETPIPE_SZ => &[EPERM],
            F_ADD_SEALS => &[EPERM, EINVAL],
            _ => &[],
        },
        libc::SYS_clone | libc::SYS_clone3 => &[EAGAIN, ENOMEM, ENOSYS],
        libc::SYS_execve => &[ENOMEM, EACCES, EAGAIN, EPERM],
        libc::SYS_getrandom => &[ENOSYS],
        libc::SYS_openat | libc::SYS_memfd_create => {
            &[EMFILE, ENOMEM, EACCES, ENFILE, EPERM, ENOSYS]
        }
        libc::SYS_pipe2
        | libc::SYS_socketpair
        | libc::SYS_epoll_create1
        | libc::SYS_signalfd4
        | libc::SYS_eventfd2 => &[EMFILE, ENFILE, ENOMEM, EPERM],
        libc::SYS_pidfd_open => &[EMFILE, ENOMEM, EPERM, ENOSYS],
        libc::SYS_read | libc::SYS_pread64 => &[EINTR, EIO, ENOMEM],
        // The injector has the last one for files only, and sends the signal that comes with it.
        libc::SYS_write | libc::SYS_pwrite64 => &[EINTR, ENOSPC, EIO, EAGAIN, EFBIG],
        libc::SYS_sendto | libc::SYS_sendmsg => &[ENOBUFS, ENOMEM, EAGAIN, EPERM, EINTR],
        libc::SYS_recvfrom | libc::SYS_recvmsg => &[EINTR, ENOMEM],
        libc::SYS_ppoll => &[EINTR, ENOMEM],
        // glibc's `posix_spawn` reaps a child whose exec has failed, with all signals
        // blocked: nothing can interrupt it, and it does not repeat it.
        libc::SYS_wait4 if third & NOHANG == 0 => &[],
        // Not ECHILD: that would say that somebody else has reaped it, who has not.
        libc::SYS_waitid | libc::SYS_wait4 => &[EINTR],
        libc::SYS_kill | libc::SYS_pidfd_send_signal => &[EPERM, ENOMEM],
        libc::SYS_mkdirat | libc::SYS_unlinkat | libc::SYS_renameat | libc::SYS_renameat2 => {
            &[EACCES, ENOSPC, EAGAIN]
        }
        libc::SYS_flock => &[ENOLCK, EINTR],
        libc::SYS_close_range => &[ENOSYS, EPERM],
        libc::SYS_getdents64 => &[ENOMEM, EIO],
        _ => of_this_architecture(call.number),
    }
}

#[cfg(target_arch = "x86_64")]
fn of_this_architecture(number: c_long) -> &'static [i32] {
    use libc::*;
    match number {
        libc::SYS_poll => &[EINTR, ENOMEM],
        libc::SYS_open => &[EMFILE, ENOMEM, EACCES],
        libc::SYS_mkdir | libc::SYS_rmdir | libc::SYS_unlink | libc::SYS_rename => {
            &[EACCES, ENOSPC, EAGAIN]
        }
        libc::SYS_arch_prctl => &[],
        libc::SYS_dup2 => &[EBUSY, EMFILE],
        _ => &[EPERM, ENOMEM],
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn of_this_architecture(_number: c_long) -> &'static [i32] {
    &[libc::EPERM, libc::ENOMEM]
}

/// The name of a system call, if it is one that happens here.
pub(crate) fn name(number: c_long) -> String {
    macro_rules! names {
        ($($name:ident)*) => {
            match number {
                $(libc::$name => stringify!($name).trim_start_matches("SYS_").to_owned(),)*
                other => format!("call {other}"),
            }
        };
    }
    names!(SYS_read SYS_write SYS_openat SYS_newfstatat SYS_fstat SYS_statx SYS_mmap SYS_prctl
        SYS_fcntl SYS_clone SYS_clone3 SYS_execve SYS_getrandom SYS_memfd_create SYS_pipe2
        SYS_socketpair SYS_epoll_create1 SYS_epoll_ctl SYS_signalfd4 SYS_eventfd2 SYS_pidfd_open
        SYS_pread64 SYS_pwrite64 SYS_sendto SYS_recvfrom SYS_ppoll SYS_waitid SYS_wait4 SYS_kill
        SYS_pidfd_send_signal SYS_mkdirat SYS_unlinkat SYS_flock SYS_close_range SYS_getdents64
        SYS_setsid SYS_setpgid SYS_chdir SYS_prlimit64 SYS_readlinkat SYS_faccessat
        SYS_faccessat2 SYS_fstatfs SYS_statfs SYS_lseek SYS_ioctl SYS_dup SYS_dup3 SYS_renameat
        SYS_tgkill SYS_getcwd SYS_ftruncate SYS_sendmsg SYS_recvmsg SYS_uname SYS_sysinfo)
}
