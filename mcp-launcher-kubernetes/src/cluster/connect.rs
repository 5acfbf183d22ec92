use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::config::{AuthInfo, ExecConfig, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::timeout;
use tower::filter::AsyncFilterLayer;
use tower::{BoxError, ServiceBuilder};

use super::credentials::{Certificate, Credentials};
use super::{Connected, Source};
use crate::error::{ClusterError, NoCredentials, Result};

const CONNECT: Duration = Duration::from_secs(10);

/// Idle time after which TCP keep-alive probes the peer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const READ: Duration = Duration::from_secs(10);

const IDLE: Duration = Duration::from_secs(5);

/// Reads the configuration and gets credentials. Connects to nothing yet.
pub(super) async fn connect(source: &Source) -> Result<Connected> {
    let mut config = config(source).await?;
    let namespace = source.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let address = config.cluster_url.to_string();
    let credentials = program(&mut config.auth_info)?.map(Credentials::new);
    if let Some(credentials) = &credentials {
        let none = |error: NoCredentials| {
            ClusterError::unaccepted("connection", &address, &error.to_string())
        };
        if let Some(certificate) = credentials.certificate().await.map_err(none)? {
            use_certificate(&mut config.auth_info, &certificate);
        }
    }
    let made = {
        let namespace = namespace.clone();
        tokio::task::spawn_blocking(move || client(&config, credentials, namespace))
    };
    let late = || {
        let limit = READ.as_secs();
        ClusterError::no_cluster(format!(
            "the files of the configuration are not read within {limit} s"
        ))
    };
    let made = timeout(READ, made).await.map_err(|_| late())?;
    let client = made.map_err(ClusterError::no_cluster)??;
    Ok(Connected {
        client,
        namespace,
        address,
    })
}

/// Takes the credential program out of the configuration. Ignored where that holds other credentials.
fn program(auth: &mut AuthInfo) -> Result<Option<ExecConfig>> {
    let runs = |auth: &AuthInfo| {
        let provider = auth.auth_provider.as_ref();
        provider.is_some_and(|provider| provider.config.contains_key("cmd-path"))
    };
    if runs(auth) {
        let problem = "an auth-provider with a program is not supported; give it as `exec`";
        return Err(ClusterError::no_cluster(problem));
    }
    let has_others = auth.auth_provider.is_some()
        || auth.username.is_some() && auth.password.is_some()
        || auth.token.is_some()
        || auth.token_file.is_some();
    Ok(auth.exec.take().filter(|_| !has_others))
}

fn use_certificate(auth: &mut AuthInfo, given: &Certificate) {
    auth.client_certificate_data = Some(BASE64_STANDARD.encode(&given.certificate));
    auth.client_key_data = Some(BASE64_STANDARD.encode(&given.key).into());
}

fn client(config: &Config, credentials: Option<Credentials>, namespace: String) -> Result<Client> {
    let no_cluster = |error: kube::Error| {
        ClusterError::no_cluster(mcp_lifecycle_core::launch::ErrorChain(&error))
    };
    if config.proxy_url.is_some() {
        let problem = "a proxy-url in the kubeconfig is not supported";
        return Err(ClusterError::no_cluster(problem));
    }
    let tls = config
        .rustls_https_connector_with_connector(connector())
        .map_err(no_cluster)?;
    let http: Http<_, Body> = Http::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(2)
        .build(tls);
    let asked = credentials.clone();
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(credentials.map(AsyncFilterLayer::new))
        .option_layer(config.auth_layer().map_err(no_cluster)?)
        .layer(config.extra_headers_layer().map_err(no_cluster)?)
        .map_response(move |answer: http::Response<_>| {
            if let Some(credentials) = &asked {
                credentials.answered(answer.status());
            }
            answer
        })
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, namespace))
}

fn connector() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(KEEP_ALIVE));
    tcp.set_keepalive_interval(Some(KEEP_ALIVE / 3));
    tcp.set_keepalive_retries(Some(3));
    // Keep-alive does not probe while data waits for its acknowledgement.
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(KEEP_ALIVE * 2));
    tcp
}

async fn config(source: &Source) -> Result<Config> {
    let no_cluster = |error: &dyn std::error::Error| {
        ClusterError::no_cluster(mcp_lifecycle_core::launch::ErrorChain(error))
    };
    let options = KubeConfigOptions {
        context: source.context.clone(),
        ..KubeConfigOptions::default()
    };
    if let Some(path) = &source.kubeconfig {
        let file = Kubeconfig::read_from(path).map_err(|error| no_cluster(&error))?;
        let config = Config::from_custom_kubeconfig(file, &options).await;
        return config.map_err(|error| no_cluster(&error));
    }
    if source.context.is_some() {
        let config = Config::from_kubeconfig(&options).await;
        return config.map_err(|error| no_cluster(&error));
    }
    Config::infer().await.map_err(|error| no_cluster(&error))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use socket2::SockRef;
    use tower::ServiceExt;

    use super::*;

    /// Keep-alive is not sent while data waits for its acknowledgement; the limit to that is
    /// the user timeout, else some 15 minutes.
    #[tokio::test]
    async fn a_connection_without_an_answer_ends_with_and_without_data_under_way() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let made = connector().oneshot(address.parse().unwrap()).await.unwrap();
        let socket = SockRef::from(made.inner());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(KEEP_ALIVE * 2));
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEP_ALIVE);
        let probes = socket.tcp_keepalive_retries().unwrap();
        assert_eq!(
            socket.tcp_keepalive_interval().unwrap() * probes,
            KEEP_ALIVE
        );
    }

    /// What stands between may answer for the API server: the next try finds it again.
    #[tokio::test]
    async fn a_server_that_cannot_be_trusted_is_told_at_once() {
        use tokio::io::AsyncWriteExt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let answer = connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                answer.await.unwrap();
            }
        });
        let file = tempfile::NamedTempFile::new().unwrap();
        let config = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {}}]});
        std::fs::write(file.path(), config.to_string()).unwrap();
        let cluster = crate::cluster::Cluster::new(Source {
            kubeconfig: Some(file.path().to_owned()),
            ..Source::default()
        });
        let what = crate::cluster::Deletion {
            name: "p",
            ..Default::default()
        };
        let answer = cluster.delete(crate::cluster::Kind::Pod, what).await;
        let error = answer.unwrap_err();
        assert_eq!(error.case, crate::error::Case::Untrusted, "{error}");
        assert!(error.to_string().contains("delete pods"), "{error}");
    }
}
