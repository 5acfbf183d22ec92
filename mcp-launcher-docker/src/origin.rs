//! The origin of a container's labels.
//!
//! An image that was committed from a container has that container's labels, and
//! gives them to every container that is run from it, by anybody. So labels
//! alone say whose a container is only where its image does not say the same.

use crate::engine::{Engine, EngineError, Found};
use crate::labels;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// They were given to this container.
    Own,
    /// They are its image's: it is somebody else's.
    Image,
    /// Its image is not there any more, to be compared with.
    Unknown,
}

/// Asks for the image, unless the name says that the container is a server that
/// we created: a name is not inherited.
pub(crate) async fn of(engine: &Engine, found: &Found) -> Result<Origin, EngineError> {
    let label = |key| found.labels.get(key).map(String::as_str);
    let (Some(launch), Some(server)) = (label(labels::LAUNCH), label(labels::SERVER)) else {
        return Ok(Origin::Unknown);
    };
    let is_server = label(labels::ROLE) == Some(labels::ROLE_SERVER);
    if is_server && found.name == labels::container_name(server, launch) {
        return Ok(Origin::Own);
    }
    match engine.image_facts(&found.image).await {
        Ok(image)
            if image
                .labels
                .get(labels::LAUNCH)
                .is_some_and(|l| l == launch) =>
        {
            Ok(Origin::Image)
        }
        Ok(_) => Ok(Origin::Own),
        Err(EngineError::Absent(_)) => Ok(Origin::Unknown),
        Err(error) => Err(error),
    }
}
