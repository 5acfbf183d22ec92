//! Locks that say that a host lives, or that somebody looks whether it does.

use std::borrow::Borrow;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::{Deref, DerefMut};

/// A locked file, or a reference to one.
///
/// # Drop
///
/// Unlocks it, also where a child that the host has forked has a copy of the
/// descriptor. An error of that is of no account: the file is about to be closed.
#[derive(Debug)]
pub(super) struct Locked<F: Borrow<File> = File>(F);

impl<F: Borrow<File>> Locked<F> {
    /// Locks it against everybody, without waiting.
    pub(super) fn alone(file: F) -> Result<Self, TryLockError> {
        uninterrupted(|| file.borrow().try_lock())?;
        Ok(Self(file))
    }
}

impl<'a> Locked<&'a File> {
    /// Locks it against those who lock it alone, without waiting.
    pub(super) fn shared(file: &'a File) -> Result<Self, TryLockError> {
        uninterrupted(|| file.try_lock_shared())?;
        Ok(Self(file))
    }
}

impl<F: Borrow<File>> Drop for Locked<F> {
    fn drop(&mut self) {
        let _ = self.0.borrow().unlock();
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

fn uninterrupted(mut lock: impl FnMut() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    loop {
        match lock() {
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked,
        }
    }
}
