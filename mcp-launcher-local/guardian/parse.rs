//! What the kernel writes in /proc, parsed. Pure: the tests of the crate include this file by path.

/// What a `stat` file says of a process.
pub(crate) struct Stat {
    pub(crate) comm: [u8; 16],
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// Clock ticks since boot. With the pid, it identifies a process for the life of the machine.
    pub(crate) started: u64,
}

impl Stat {
    /// A name may contain anything, also `) R 1`, so it ends at the last parenthesis.
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
        // Numbered as in proc(5): state is field 3, and `nth` counts on from the one before.
        let state = *fields.next()?.first()?;
        let parent = u32::try_from(number(fields.next()?)?).ok()?;
        let group = u32::try_from(number(fields.next()?)?).ok()?;
        let started = number(fields.nth(22 - 6)?)?;
        Some(Self {
            comm,
            state,
            parent,
            group,
            started,
        })
    }

    /// Dead, waiting to be reaped.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then_some(u64::from(digit & 0xf))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Numbers separated by spaces, which may be cut anywhere between two calls.
#[derive(Default)]
pub(crate) struct Numbers {
    current: Option<u32>,
}

impl Numbers {
    pub(crate) fn feed(&mut self, text: &[u8], each: &mut impl FnMut(u32)) {
        for &byte in text {
            if byte.is_ascii_digit() {
                self.current = Some(
                    self.current
                        .unwrap_or(0)
                        .wrapping_mul(10)
                        .wrapping_add(u32::from(byte & 0xf)),
                );
            } else if let Some(number) = self.current.take() {
                each(number);
            }
        }
    }

    pub(crate) fn finish(self, each: &mut impl FnMut(u32)) {
        if let Some(number) = self.current {
            each(number);
        }
    }
}

/// The entries of a `getdents64` buffer whose names are numbers.
pub(crate) fn numeric_entries(mut buffer: &[u8], each: &mut impl FnMut(u32)) {
    // An entry: inode (8 bytes), offset (8), length of the entry (2), type (1), terminated name.
    const NAME: usize = 19;
    while let Some(&[low, high]) = buffer.get(16..18) {
        let len = usize::from(u16::from_le_bytes([low, high]));
        let Some((entry, rest)) = buffer.split_at_checked(len).filter(|_| len > NAME) else {
            return;
        };
        let name = entry.get(NAME..).unwrap_or_default();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if !name.is_empty()
            && let Some(number) = number(name).and_then(|number| u32::try_from(number).ok())
        {
            each(number);
        }
        buffer = rest;
    }
}
