use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex without poison. A launcher's or an application's panic must not wedge the host.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "client")]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        use std::sync::TryLockError::{Poisoned, WouldBlock};
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(WouldBlock) => None,
        }
    }
}
