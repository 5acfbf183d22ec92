//! Agents that use servers and come and go.

use mcp_lifecycle_core::fleet::{FleetServer, ServerRecord, ServerState};
use mcp_lifecycle_core::launch::ErrorChain;
use mcp_lifecycle_core::{Scope, ServerPool};
use tokio::task::JoinSet;

/// How many agents there are.
pub(crate) const CREW: usize = 3;

/// Runs all agents to their end.
pub(crate) async fn run(pool: &ServerPool, servers: &[FleetServer]) -> Vec<String> {
    let mut crew = JoinSet::new();
    for n in 1..=CREW {
        // The scope belongs to the task: it ends with it, however that comes about.
        crew.spawn(agent(pool.scope(format!("agent-{n}")), servers.to_vec()));
    }
    let mut answers = crew.join_all().await;
    answers.sort();
    answers
}

async fn agent(scope: Scope, servers: Vec<FleetServer>) -> String {
    let mut found = Vec::new();
    for server in &servers {
        found.push(match scope.acquire(server).await {
            Ok(lease) => match lease.list_all_tools().await {
                Ok(tools) => format!("{} ({} tools)", server.name(), tools.len()),
                Err(error) => ErrorChain(&error).to_string(),
            },
            Err(error) => ErrorChain(&error).to_string(),
        });
    }
    format!("{}: {}", scope.name(), found.join(", "))
}

/// Waits until so many servers have been started for the agents.
pub(crate) async fn holding(pool: &ServerPool, servers: usize) {
    let settled =
        |record: &ServerRecord| record.state == ServerState::Ready || record.last_error.is_some();
    while pool.list().iter().filter(|record| settled(record)).count() < servers {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
