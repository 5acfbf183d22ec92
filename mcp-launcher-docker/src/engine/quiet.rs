use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

/// Runs a request that carries secrets: bollard logs requests and responses through `log`, which is
/// not forwarded to `tracing` meanwhile. The crate's documentation has a filter for other loggers.
pub(super) async fn quietly<F: Future>(request: F) -> F::Output {
    request.with_subscriber(Dispatch::none()).await
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use bollard::models::ContainerCreateBody;
    use tracing::dispatcher;
    use tracing::subscriber::NoSubscriber;

    use crate::engine::Engine;
    use crate::fake::{FakeEngine, within};

    /// Takes a record to the subscriber, as the crate `tracing-log` does.
    struct Bridge;

    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    impl log::Log for Bridge {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &log::Record<'_>) {
            dispatcher::get_default(|subscriber| {
                if !subscriber.is::<NoSubscriber>() {
                    SEEN.lock().unwrap().push(record.args().to_string());
                }
            });
        }

        fn flush(&self) {}
    }

    #[test]
    fn the_environment_of_a_container_is_not_logged() {
        log::set_logger(&Bridge).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
        let daemon = FakeEngine::start(|request| {
            Some(match request.split(' ').next() {
                Some("POST") => (201, r#"{"Id":"x","Warnings":[]}"#.to_owned()),
                Some("DELETE") => (204, String::new()),
                _ if request.contains("/x/json") => {
                    (200, r#"{"Config":{"Env":["TOKEN=hunter2"]}}"#.to_owned())
                }
                _ => (200, r#"[{"Id":"x","Command":"a hunter2"}]"#.to_owned()),
            })
        });
        let engine = Engine::new(daemon.endpoint());
        let body = ContainerCreateBody {
            env: Some(vec!["TOKEN=hunter2".to_owned()]),
            labels: Some(HashMap::new()),
            ..Default::default()
        };
        let _default = tracing::subscriber::set_default(tracing_subscriber::registry());
        within("all are answered", async {
            engine.create("n", None, body).await.unwrap();
            engine.state("x").await.unwrap();
            engine.list(&[]).await.unwrap();
            engine.remove("x").await.unwrap();
        });
        let seen = SEEN.lock().unwrap().join("\n");
        assert!(seen.contains("containers/x"), "the bridge works: {seen}");
        assert!(!seen.contains("hunter2"), "{seen}");
    }
}
