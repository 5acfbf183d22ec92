//! Choices that a fuzz target makes by its input.

/// Bytes as choices; zero when there are no more.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn more(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Whether to do what is rarer than its opposite.
    pub(crate) fn one_in(&mut self, many: u8) -> bool {
        self.byte().is_multiple_of(many)
    }

    pub(crate) fn number(&mut self) -> u64 {
        // Small ones mostly, and the ends of the range.
        match self.byte() {
            255 => u64::MAX,
            254 => u64::from(u32::MAX),
            253 => u64::from(self.byte()) << 56,
            small => u64::from(small),
        }
    }

    /// A piece of as many bytes as the next one says.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        piece
    }
}
