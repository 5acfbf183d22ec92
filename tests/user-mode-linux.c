/*
 * Preloaded into user-mode-linux (tests/user-mode-linux). Of a process's registers, its kernel 6.1 keeps as many bytes as AVX-512 has, and a
 * processor with AMX has more: the kernel below takes all of them back, or none. What was not kept is given back as never used.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Where it is written which registers are in use, and those that are kept: up to the keys of memory protection, and not AMX. */
enum { USED = 512, KEPT = 0x3ff };

long ptrace(enum __ptrace_request request, ...) {
    static __thread char all[1 << 16];
    va_list rest;
    va_start(rest, request);
    long pid = va_arg(rest, long);
    void *address = va_arg(rest, void *), *data = va_arg(rest, void *);
    va_end(rest);
    struct iovec *kept = data, whole = {all, sizeof all};
    if (request == PTRACE_SETREGSET && (uintptr_t)address == NT_X86_XSTATE &&
        !syscall(SYS_ptrace, (long)PTRACE_GETREGSET, pid, address, &whole) && whole.iov_len > kept->iov_len) {
        uint64_t used;
        memset(all, 0, sizeof all);
        memcpy(all, kept->iov_base, kept->iov_len);
        memcpy(&used, all + USED, sizeof used);
        used &= KEPT;
        memcpy(all + USED, &used, sizeof used);
        data = &whole;
    }
    /* As in the C library, whose function this is: a word that is read is what is returned. */
    long word, is_read = request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER;
    long result = syscall(SYS_ptrace, (long)request, pid, address, is_read ? &word : data);
    if (result < 0 || !is_read)
        return result;
    errno = 0;
    return word;
}
