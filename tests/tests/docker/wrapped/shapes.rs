//! The shapes of the field: how servers start containers.

use mcp_launcher_docker::ReapPolicy;

use super::{Shape, ends_clean};
use crate::support::Rig;

/// A test for a shape that a plain tracker catches.
macro_rules! shape {
    ($name:ident, $shape:expr, $program:expr, $args:expr) => {
        #[tokio::test]
        async fn $name() {
            let Some(rig) = Rig::new(stringify!($name)) else {
                return;
            };
            let tracker = rig.tracker().reap(ReapPolicy::All);
            let spec = rig.wrapped($program, &$args);
            ends_clean(&rig, &tracker, &spec, $shape).await;
        }
    };
    // One that goes around DOCKER_HOST.
    ($name:ident, $shape:expr, $program:expr, $args:expr, private_mounts) => {
        #[tokio::test]
        async fn $name() {
            let Some(rig) = Rig::new(stringify!($name)) else {
                return;
            };
            let tracker = rig.tracker().reap(ReapPolicy::All).private_mounts(true);
            let spec = rig.wrapped($program, &$args);
            ends_clean(&rig, &tracker, &spec, $shape).await;
        }
    };
}

const NODE: &str = r#"require("child_process").spawn("sh", ["-c", "exec docker run -i --rm $RUN $PAYLOAD"], {stdio: "inherit"})"#;

const COMPOSE: &str = r#"
cat > compose.yml <<END
version: "2.4"
services:
  one:
    image: mcp-fixture:test
    network_mode: none
    labels: ["test=$TEST"]
    volumes: ["$DIRECTORY:$DIRECTORY"]
    command: $COMMAND
END
docker-compose -p "$(echo $TEST | tr -d _-)" -f compose.yml up -d && exec sleep 1000"#;

const PYTHON: &str = r#"
import docker, os, time
c = docker.from_env()
d = os.environ["DIRECTORY"]
c.containers.run("mcp-fixture:test", os.environ["COMMAND"], detach=True, network_mode="none",
    labels={"test": os.environ["TEST"]}, volumes={d: {"bind": d, "mode": "rw"}})
time.sleep(1000)"#;

const CURL: &str = r#"
id=$(curl -s --unix-socket "$SOCKET" -H 'Content-Type: application/json' -X POST http://d/containers/create \
  -d "{\"Image\":\"mcp-fixture:test\",\"Cmd\":[\"/mcp-fixture\",\"ignore-eof-term\"],\"Labels\":{\"test\":\"$TEST\"},\"HostConfig\":{\"NetworkMode\":\"none\"},\"OpenStdin\":true}" \
  | tr -d '"{}' | tr ',:' '\n\n' | sed -n 2p)
curl -s --unix-socket "$SOCKET" -X POST http://d/containers/$id/start; exec sleep 1000"#;

const SIBLING: &str = r#"
exec docker run -i --rm --network none --label test=$TEST -v "$SOCKET:/docker.sock" \
  -v /usr:/usr:ro -v /lib:/lib:ro -v /lib64:/lib64:ro -v "$DIRECTORY:$DIRECTORY" mcp-fixture:test \
  /usr/bin/docker -H unix:///docker.sock run -i --rm $RUN $PAYLOAD"#;

shape!(
    shape_01_docker_run,
    Shape::Speaks,
    "sh",
    ["-c", "exec docker run -i --rm $RUN $PAYLOAD"]
);
shape!(
    shape_02_npm_exec_node,
    Shape::Speaks,
    "npm",
    ["exec", "--offline", "-c", &format!("node -e '{NODE}'")]
);
shape!(
    shape_03_sh_wrapper,
    Shape::Speaks,
    "sh",
    ["-c", "docker run -i --rm $RUN $PAYLOAD; true"]
);
shape!(
    shape_04_setsid,
    Shape::Speaks,
    "sh",
    ["-c", "setsid docker run -i --rm $RUN $PAYLOAD"]
);
shape!(
    shape_05_detached,
    Shape::Speaks,
    "sh",
    ["-c", "docker run -d $RUN $PAYLOAD; exec sleep 1000"]
);
shape!(
    shape_06_exec,
    Shape::Speaks,
    "sh",
    [
        "-c",
        "id=$(docker run -d $RUN mcp-fixture:test /mcp-fixture ignore-eof-term) && exec docker exec -i $id $COMMAND"
    ]
);
shape!(
    shape_07_created,
    Shape::Silent(1),
    "sh",
    ["-c", "docker create $RUN $PAYLOAD; exec sleep 1000"]
);
shape!(
    shape_08_compose,
    Shape::Speaks,
    "sh",
    ["-c", &format!("cd $DIRECTORY && {COMPOSE}")]
);
shape!(shape_09_docker_py, Shape::Speaks, "python3", ["-c", PYTHON]);
shape!(
    shape_10_absolute_path,
    Shape::Speaks,
    "sh",
    ["-c", "exec /usr/bin/docker run -i --rm $RUN $PAYLOAD"]
);
shape!(
    shape_11_explicit_host,
    Shape::Speaks,
    "sh",
    ["-c", "docker -H unix://$SOCKET run -i --rm $RUN $PAYLOAD"],
    private_mounts
);
shape!(
    shape_12_scrubbed_environment,
    Shape::Speaks,
    "sh",
    [
        "-c",
        "env -i PATH=$PATH DOCKER_HOST=unix://$SOCKET docker run -i --rm $RUN $PAYLOAD"
    ],
    private_mounts
);
shape!(
    shape_13_raw_socket,
    Shape::Silent(1),
    "sh",
    ["-c", CURL],
    private_mounts
);
shape!(shape_14_sibling, Shape::Speaks, "sh", ["-c", SIBLING]);
