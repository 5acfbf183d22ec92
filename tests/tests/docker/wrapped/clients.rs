//! Real clients of the engine, which know no more than the `DOCKER_HOST` of their
//! environment: what each creates is labelled, and gone after the end.
//!
//! Not here, for Debian has none of them: compose v2, buildx (BuildKit), docker-java.

use mcp_launcher_docker::ReapPolicy;
use mcp_lifecycle_core::launch::ServerSpec;

use super::{Shape, ends_clean};
use crate::support::{Rig, tools};

/// Runs this script of the shell, in which the address of the engine is only known
/// from `DOCKER_HOST`, until there are so many containers.
async fn client(test: &str, script: &str, containers: usize) {
    let Some(rig) = Rig::new(test) else {
        return;
    };
    let all = rig.wrapped("sh", &["-c", script]);
    let mut spec = ServerSpec::builder(&rig.server, "sh")
        .args(["-c", script])
        .env("TOOLS", tools());
    for (name, value) in all.env().literals() {
        if name != "SOCKET" {
            spec = spec.env(name, value);
        }
    }
    let tracker = rig.tracker().reap(ReapPolicy::All);
    let spec = spec.build().unwrap();
    ends_clean(&rig, &tracker, &spec, Shape::Silent(containers)).await;
}

#[tokio::test]
async fn docker_cli() {
    let script = r#"
docker create $RUN $PAYLOAD
docker run -d --rm $RUN --env "X=$(printf 'caf\351')" $PAYLOAD
exec sleep 1000"#;
    client("cli", script, 2).await;
}

#[tokio::test]
async fn compose() {
    let script = r#"
cd "$DIRECTORY" && cat > compose.yml <<END
version: "2.4"
services:
  one: {image: "mcp-fixture:test", network_mode: none, labels: ["test=$TEST"], command: "$COMMAND"}
  two: {image: "mcp-fixture:test", network_mode: none, labels: ["test=$TEST"], command: "$COMMAND"}
END
docker-compose -p "$(echo $TEST | tr -d _-)" -f compose.yml up"#;
    client("compose-up", script, 2).await;
}

/// The whole environment of the server is given to the container, and one variable
/// of it is not UTF-8: docker-py writes half a surrogate pair.
#[tokio::test]
async fn docker_py_with_the_servers_environment() {
    let script = r#"
export ODD="$(printf 'caf\351')"
exec "$TOOLS/python/bin/python" -c '
import docker, os, time
client = docker.from_env()
client.containers.run("mcp-fixture:test", os.environ["COMMAND"], detach=True, network_mode="none",
    labels={"test": os.environ["TEST"]}, environment=dict(os.environ))
time.sleep(1000)'"#;
    client("docker-py", script, 1).await;
}

#[tokio::test]
async fn dockerode() {
    let script = r#"
exec node -e '
const Docker = require(process.env.TOOLS + "/npm/node_modules/dockerode");
(async () => {
  const docker = new Docker();
  const one = await docker.createContainer({
    Image: "mcp-fixture:test", Cmd: process.env.COMMAND.split(" "), OpenStdin: true,
    Labels: {test: process.env.TEST}, HostConfig: {NetworkMode: "none", AutoRemove: true},
  });
  await one.attach({stream: true, stdin: true, stdout: true, hijack: true});
  await one.start();
  setTimeout(() => {}, 1e6);
})()'"#;
    client("dockerode", script, 1).await;
}

/// Without its reaper, which is an image of a registry.
#[tokio::test]
async fn testcontainers_for_python() {
    let script = r#"
export TESTCONTAINERS_RYUK_DISABLED=true
exec "$TOOLS/python/bin/python" -c '
import os, time
from testcontainers.core.container import DockerContainer
one = DockerContainer("mcp-fixture:test").with_command(os.environ["COMMAND"])
one.with_kwargs(network_mode="none", labels={"test": os.environ["TEST"]}).start()
time.sleep(1000)'"#;
    client("testcontainers", script, 1).await;
}

/// It asks for HTTP/2 by an upgrade, and goes on by HTTP/1.1 where it is refused.
#[tokio::test]
async fn curl_with_http2() {
    let script = r#"
body="{\"Image\":\"mcp-fixture:test\",\"Cmd\":[\"/mcp-fixture\",\"ignore-eof-term\"],\"Labels\":{\"test\":\"$TEST\"},\"HostConfig\":{\"NetworkMode\":\"none\"}}"
engine="curl -s --fail --http2 --max-time 20 --unix-socket ${DOCKER_HOST#unix://}"
id=$($engine -H 'Content-Type: application/json' -d "$body" http://d/containers/create | sed 's/.*"Id":"\([0-9a-f]*\)".*/\1/')
$engine -X POST http://d/containers/$id/start && exec sleep 1000"#;
    client("curl-http2", script, 1).await;
}
