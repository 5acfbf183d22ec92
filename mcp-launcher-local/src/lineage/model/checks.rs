//! What has to hold when nothing happens any more.

use super::world::World;
use crate::lineage::Lineage;

/// Whoever is linked is known, and its forks will be told.
pub(super) fn everybody_is_known(world: &World, lineage: &Lineage) -> Result<(), String> {
    for (pid, process) in &world.processes {
        if !process.is_ours || process.is_zombie || !world.is_linked(process) {
            continue;
        }
        let mut remembered = lineage.remembered();
        let known = remembered.find(|(unique, _)| *unique == process.unique);
        match known {
            None => return Err(format!("{pid} is linked, and not known")),
            Some((_, is_watched)) if !is_watched || !process.is_watched => {
                return Err(format!("{pid} is not watched"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Whoever lives could be known by no means, or be ended by none.
pub(super) fn nobody_is_left(world: &World) -> Result<(), String> {
    for (pid, process) in &world.processes {
        let is_left = process.is_ours && !process.is_zombie && !process.is_anothers;
        if is_left && world.known_since(process.unique).is_some() {
            return Err(format!("{pid} lives, and could be known"));
        }
    }
    Ok(())
}

/// What is remembered does not grow with the age of the server.
pub(super) fn the_dead_are_forgotten(world: &World, lineage: &Lineage) -> Result<(), String> {
    for (unique, _) in lineage.remembered() {
        let is_there = world
            .processes
            .values()
            .any(|process| process.unique == unique);
        if !is_there && unique != world.server {
            return Err(format!("{unique} is remembered, and has long gone"));
        }
    }
    Ok(())
}
