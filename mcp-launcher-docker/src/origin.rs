//! The origin of a container's labels: an image that was committed from a container has its labels, and
//! every container run from it inherits them.

use crate::engine::{Engine, EngineError, Found};
use crate::labels::{self, Host, Role};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Own,
    /// Inherited from its image: the container is a third party's.
    Image,
    /// Its image is gone and cannot be compared.
    Unknown,
}

/// Compares with the image, unless the name proves that we created the container as a server: names
/// are not inherited.
pub(crate) async fn of(
    engine: &Engine,
    found: &Found,
    host: &Host<'_>,
) -> Result<Origin, EngineError> {
    let (Some(launch), Some(server)) = (host.get(labels::LAUNCH), host.get(labels::SERVER)) else {
        return Ok(Origin::Unknown);
    };
    let role = host.get(labels::ROLE);
    let is_server = role.is_some_and(|role| role != Role::Nested.value());
    if is_server && found.name == labels::container_name(server, launch) {
        return Ok(Origin::Own);
    }
    match engine.image_facts(&found.image).await {
        Ok(image)
            if image
                .labels
                .get(&labels::key(host.instance, labels::LAUNCH))
                .map(String::as_str)
                == Some(launch) =>
        {
            Ok(Origin::Image)
        }
        Ok(_) => Ok(Origin::Own),
        Err(EngineError::Absent(_)) => Ok(Origin::Unknown),
        Err(error) => Err(error),
    }
}
