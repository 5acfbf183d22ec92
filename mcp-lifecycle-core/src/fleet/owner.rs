/// Writes the methods of a manager or a pool that concern its servers as a whole.
macro_rules! owner {
    ($owner:ident) => {
        impl $owner {
            /// Lists every server that it owns, also until they are proven gone, and why it is
            /// alive.
            pub fn list(&self) -> Vec<ServerRecord> {
                self.engine.list()
            }

            /// Gives up the proof that the server of this [identity](ServerRecord::identity) is gone,
            /// because the user knows that it is: its node was removed, or was checked. Its slot is
            /// free from then on. Its end is reported with
            /// [`EndResult::WrittenOff`](crate::client::EndResult::WrittenOff), unless a proof attempt
            /// in progress wins.
            ///
            /// Returns `false` and does nothing if no end of this identity is unproven.
            pub fn write_off(&self, identity: &ServerIdentity) -> bool {
                self.engine.write_off(identity)
            }

            /// Ends every server in parallel, leased or not, and returns one outcome for each.
            ///
            /// From the first poll on nothing starts. Every server's waits are shortened to fit
            /// into `within`; shortly before its end all remaining processes are killed.
            /// Concurrent and repeated calls share one run, which dropping this future does not
            /// stop.
            ///
            /// # Errors
            ///
            /// [`ShutdownError`] names the servers that are not proven gone. They stay owned;
            /// calling again retries.
            pub async fn shutdown(
                &self,
                within: Duration,
            ) -> Result<ShutdownReport, ShutdownError> {
                self.engine.close(within).await.proven()
            }

            /// Shuts down, within this time, when `end` completes: a task, a channel, a
            /// `CancellationToken::cancelled_owned`. Of several ends the first wins.
            ///
            /// # Panics
            ///
            /// Outside a Tokio runtime.
            pub fn tie_to(&self, end: impl Future<Output = ()> + Send + 'static, within: Duration) {
                self.engine.tie_to(end, within);
            }
        }

        impl Drop for $owner {
            fn drop(&mut self) {
                self.engine.abandon();
            }
        }

        $crate::launch::macros::debug_fields!(
            $owner,
            it {
                name: &it.engine.owner,
                servers: &it.list().len()
            }
        );
    };
}

macro_rules! builder {
    ($owner:ident, $builder:ident) => {
        impl $owner {
            /// Creates one with the default settings and no servers.
            pub fn new(name: impl Into<String>) -> Self {
                Self::builder(name).build()
            }

            /// Begins to build one. Its name identifies the owner in lists, events and logs.
            pub fn builder(name: impl Into<String>) -> $builder {
                $builder::new(name.into())
            }
        }

        impl $builder {
            /// Sets the number of concurrent starts; the start-up clock of others begins later. 16
            /// by default, at least 1.
            pub fn concurrent_starts(mut self, limit: usize) -> Self {
                self.engine.limits.max_starting = limit.max(1);
                self
            }

            /// Sets the observer of events.
            pub fn observer(mut self, observer: impl ServerObserver) -> Self {
                self.engine.observer = Some(Arc::new(observer));
                self
            }
        }

        $crate::launch::macros::debug_fields!($builder, it { engine: &it.engine });
    };
}

pub(super) use {builder, owner};
