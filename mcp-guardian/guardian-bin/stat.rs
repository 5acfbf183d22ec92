//! Parses `/proc/PID/stat`. Pure: guardian, host and tests include this file by path.

/// The fields of a process's `stat` file (proc_pid_stat(5)).
#[derive(Debug)]
pub(crate) struct Stat {
    /// The process name, padded with zeros.
    pub(crate) comm: [u8; 16],
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) flags: u64,
    /// Clock ticks of processor time, without its children's.
    pub(crate) used: u64,
    pub(crate) threads: u64,
    /// Clock ticks since boot. With the pid, it identifies a process until reboot.
    pub(crate) started: u64,
    /// Its first thread has an environment, which may be empty: not before it executes, nor once it
    /// has ended. `false` for a process that may not be read.
    pub(crate) has_environment: bool,
}

impl Stat {
    /// Parses a line. A name may contain anything, such as `) R 1`, so it ends at the last
    /// parenthesis.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|&byte| byte == b'(')?;
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let mut comm = [0; 16];
        let name = line.get(open + 1..close)?;
        comm.iter_mut().zip(name).for_each(|(to, &from)| *to = from);
        let mut fields = line
            .get(close + 1..)?
            .split(|&byte| byte == b' ' || byte == b'\n')
            .filter(|field| !field.is_empty());
        // Numbered as in proc(5): state is field 3, and `nth` counts on from the previous one.
        let state = *fields.next()?.first()?;
        let [parent, group, session] = [fields.next()?, fields.next()?, fields.next()?];
        // Reaped while it was being read: it has no parent and no group any more.
        let (state, parent, group) = match group {
            b"-1" => (b'X', 0, 0),
            _ => (state, number(parent)?, number(group)?),
        };
        Some(Self {
            comm,
            state,
            parent,
            group,
            session: number(session).unwrap_or(0),
            flags: number(fields.nth(9 - 7)?)?,
            used: number::<u64>(fields.nth(14 - 10)?)?.saturating_add(number(fields.next()?)?),
            threads: number(fields.nth(20 - 16)?)?,
            started: number(fields.nth(22 - 21)?)?,
            has_environment: fields.nth(51 - 23).is_some_and(|end| end != b"0"),
        })
    }

    /// Returns whether the whole process has ended and only needs reaping. The state is that of the
    /// first thread: a zombie with other living threads keeps its files and children, and may live
    /// for ever.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }

    /// Returns whether the whole process is exiting: it has left its cgroup or is about to, and is
    /// not dead yet.
    pub(crate) fn is_exiting(&self) -> bool {
        self.flags & PF_EXITING != 0 && self.threads <= 1
    }

    /// Returns whether its first thread is exiting, or has ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.flags & PF_EXITING != 0 || matches!(self.state, b'Z' | b'X')
    }

    pub(crate) fn is_kernel(&self) -> bool {
        const PF_KTHREAD: u64 = 0x0020_0000;
        self.flags & PF_KTHREAD != 0
    }
}

const PF_EXITING: u64 = 4;

/// Parses digits only.
pub(crate) fn number<N: TryFrom<u64>>(digits: &[u8]) -> Option<N> {
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then_some(u64::from(digit & 0xf))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    number?.try_into().ok()
}
