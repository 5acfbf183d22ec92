//! Texts that people read when something goes wrong.

use std::time::Duration;

use mcp_lifecycle_core::client::{
    CallErrorKind, CallOptions, LifecycleClient, ProtocolPreference, ServerConfig,
};
use mcp_lifecycle_core::fleet::{KeptBy, ServerManager};
use mcp_lifecycle_core::launch::{ErrorChain, ServerSpec};
use mcp_lifecycle_core::terminate::EndReason;

use crate::fake::{Fake, call, seconds};

async fn start_error(args: &[&str]) -> String {
    let spec = ServerSpec::builder("s", "fake").args(args).build().unwrap();
    let error = LifecycleClient::builder(
        ServerConfig::new(Fake::new(), spec)
            .protocol(ProtocolPreference::Legacy)
            .startup_timeout(seconds(3)),
    )
    .start()
    .await
    .unwrap_err();
    ErrorChain(&error).to_string()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_logs_to_its_output_is_told_so() {
    let text = start_error(&["--garbage", "412", "--silent"]).await;
    assert!(text.contains("412 lines on its standard output"), "{text}");
    assert!(text.contains(r#"the first: "listening 0""#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_last_words_are_more_than_the_last_line() {
    let text = start_error(&["--chatty", "7", "--silent"]).await;
    for n in 2..7 {
        assert!(text.contains(&format!("line {n} ")), "{n}: {text}");
    }
    assert!(!text.contains("line 1 "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_error_tells_its_cause_and_names_the_command_once() {
    let spec = ServerSpec::builder("s", "fake").arg("--fail");
    let config = ServerConfig::new(Fake::new(), spec.build().unwrap());
    let error = LifecycleClient::start(config).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("program `fake` was not found"), "{text}");
    assert_eq!(text.matches("`fake --fail`").count(), 1, "{text}");
    assert_eq!(ErrorChain(&error).to_string(), text, "said twice");
}

#[tokio::test(start_paused = true)]
async fn the_list_says_why_a_server_ends() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let config = fake.config("s", &["--hush", "--stubborn"]);
    manager.refresh([config]).await.unwrap();
    tokio::time::sleep(seconds(1)).await;
    let record = &manager.list()[0];
    assert_eq!(record.kept_by, KeptBy::Ending(EndReason::OutputClosed));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_names_the_limit_that_was_set() {
    let spec = ServerSpec::builder("s", "fake").build().unwrap();
    let client = LifecycleClient::builder(
        ServerConfig::new(Fake::new(), spec).protocol(ProtocolPreference::Legacy),
    )
    .start()
    .await
    .unwrap();
    let limit = Duration::from_millis(700);
    let options = CallOptions::new().timeout(limit);
    let error = client.call_tool_with(call(60_000), &options).await;
    let error = error.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Timeout(timeout) if *timeout == limit));
    assert_eq!(
        error.to_string(),
        "tool `wait` of server `s`: no answer within 700ms"
    );
}
