use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mcp_lifecycle_core::launch::{BoxError, ErrorChain};
use mcp_lifecycle_core::lock::Lock;

/// A value loaded from files.
///
/// The files are checked whenever the value is requested, once per connection. A change that cannot
/// be loaded, such as a certificate before its key is replaced, is logged once, and the earlier
/// value remains.
pub(super) struct Reloading<T> {
    files: Vec<PathBuf>,
    load: Box<dyn Fn() -> Result<T, BoxError> + Send + Sync>,
    current: Lock<(Vec<Stamp>, Arc<T>)>,
}

/// Time, size and inode of a file; `None` if it does not exist.
type Stamp = Option<(SystemTime, u64, u64)>;

impl<T> Reloading<T> {
    pub(super) fn new(
        files: Vec<PathBuf>,
        load: impl Fn() -> Result<T, BoxError> + Send + Sync + 'static,
    ) -> Result<Self, BoxError> {
        // Checked before loading, so that a concurrent change is noticed next time.
        let stamps = files.iter().map(|file| stamp(file)).collect();
        let value = Arc::new(load()?);
        Ok(Self {
            files,
            load: Box::new(load),
            current: Lock::new((stamps, value)),
        })
    }

    pub(super) fn current(&self) -> Arc<T> {
        let stamps: Vec<_> = self.files.iter().map(|file| stamp(file)).collect();
        let mut current = self.current.lock();
        let (known, value) = &mut *current;
        if *known != stamps {
            *known = stamps;
            match (self.load)() {
                Ok(new) => {
                    tracing::info!(files = ?self.files, "loaded again");
                    *value = Arc::new(new);
                }
                Err(error) => tracing::warn!(
                    files = ?self.files,
                    error = %ErrorChain(&*error),
                    "the new content cannot be used; the earlier one holds"
                ),
            }
        }
        Arc::clone(value)
    }
}

fn stamp(file: &Path) -> Stamp {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_read_again_and_a_bad_one_leaves_the_earlier_value() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        std::fs::write(&file, "1").unwrap();
        let read = file.clone();
        let value: Reloading<u32> = Reloading::new(vec![file.clone()], move || {
            Ok(std::fs::read_to_string(&read)?.trim().parse()?)
        })
        .unwrap();
        assert_eq!(*value.current(), 1);
        for (text, expected) in [("22", 22), ("none", 22), ("333", 333)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(*value.current(), expected, "after {text}");
        }
        std::fs::remove_file(&file).unwrap();
        assert_eq!(*value.current(), 333);
    }
}
