// Meeting in a file that other jobs may have used before.
#pragma once

#include <lockstep/comm/open_store.h>

namespace lockstep::detail {

/// The store in the file world.store_path, with keys under a prefix of this meeting alone: what an earlier job left in
/// the file, because it was killed, is recognised and passed over. The last rank to leave removes the file.
///
/// Waits until all ranks of the world have come. Error(timeout) names those that did not; Error(io) when the file
/// cannot be made, is something else than a store, or another job begins to meet there meanwhile.
OpenedStore meet_in_file(const World& world, std::chrono::milliseconds timeout);

}  // namespace lockstep::detail
