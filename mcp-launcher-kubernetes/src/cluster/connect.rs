//! From a kubeconfig, or the account of the host's own pod, to a client.

use std::time::Duration;

use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::timeout;
use tower::{BoxError, ServiceBuilder};

use super::{Connected, Source};
use crate::error::ClusterError;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// A peer that says nothing is asked after this time, and again.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long the program that gives credentials may take.
const CREDENTIALS: Duration = Duration::from_secs(10);

/// How long a connection without a request is kept.
const IDLE: Duration = Duration::from_secs(5);

/// Reads the configuration. Nothing is connected to yet.
pub(super) async fn connect(source: &Source) -> Result<Connected, ClusterError> {
    let mut config = config(source).await?;
    if let Some(exec) = &mut config.auth_info.exec {
        // The standard input of a host may be its protocol.
        exec.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    let namespace = source.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let address = config.cluster_url.to_string();
    // A program that gives credentials is run within, and waited for.
    let made = {
        let namespace = namespace.clone();
        tokio::task::spawn_blocking(move || client(&config, namespace))
    };
    let late = || {
        ClusterError::NoCluster(format!(
            "the credentials do not come within {} s",
            CREDENTIALS.as_secs()
        ))
    };
    let made = timeout(CREDENTIALS, made).await.map_err(|_| late())?;
    let client = made.map_err(|error| ClusterError::NoCluster(error.to_string()))??;
    Ok(Connected {
        client,
        namespace,
        address,
    })
}

fn client(config: &Config, namespace: String) -> Result<Client, ClusterError> {
    let no_cluster = |error: kube::Error| {
        ClusterError::NoCluster(mcp_lifecycle_core::launch::ErrorChain(&error).to_string())
    };
    if config.proxy_url.is_some() {
        let problem = "a proxy-url in the kubeconfig is not supported".to_owned();
        return Err(ClusterError::NoCluster(problem));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(KEEP_ALIVE));
    tcp.set_keepalive_interval(Some(KEEP_ALIVE / 3));
    tcp.set_keepalive_retries(Some(3));
    // Keep-alive says nothing while data waits for its acknowledgement.
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(KEEP_ALIVE * 2));
    let tls = config
        .rustls_https_connector_with_connector(tcp)
        .map_err(no_cluster)?;
    let http: Http<_, Body> = Http::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(2)
        .build(tls);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(no_cluster)?)
        .layer(config.extra_headers_layer().map_err(no_cluster)?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, namespace))
}

async fn config(source: &Source) -> Result<Config, ClusterError> {
    let no_cluster = |error: &dyn std::error::Error| {
        ClusterError::NoCluster(mcp_lifecycle_core::launch::ErrorChain(error).to_string())
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
