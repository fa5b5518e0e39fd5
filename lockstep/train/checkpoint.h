// The checkpoint of a run: a safetensors file (so that Python can read it) with the run's state in its metadata.
//
// Tensors:  "model.<name>"      parameters and buffers (under the buffer policy local: rank 0's)
//           "optimizer.<name>"  see optimizer_state
//           "generators"        uint8 [ranks, bytes]: the state of each rank's random number generator
// Metadata: "lockstep.checkpoint" = "1", the version of this layout
//           "lockstep.state"      the RunState as JSON
//           "lockstep.sha256"     SHA-256 of that JSON followed by sha256_of(tensors): it protects the content of the
//                                 file, so a flipped byte anywhere is either found or has no effect
#pragma once

#include <lockstep/train/named_tensors.h>
#include <lockstep/train/run_state.h>

#include <filesystem>
#include <string_view>

namespace lockstep::train {

/// The key of the RunState in the metadata of a checkpoint of either kind.
inline constexpr const char* kRunStateKey = "lockstep.state";

struct Checkpoint {
  RunState state;
  NamedTensors tensors;
};

/// The tensors of one part ("model", "optimizer"), without its prefix; and the inverse, with the prefix.
NamedTensors part_of(const NamedTensors& tensors, std::string_view part);
void add_part(NamedTensors& tensors, std::string_view part, const NamedTensors& content);

/// Writes the file as a whole or not at all. Error(io) naming the path.
void save_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);

/// Error(data) when the file is damaged or no checkpoint, Error(unsupported) when a newer program wrote it, Error(io)
/// when it cannot be read.
Checkpoint load_checkpoint(const std::filesystem::path& file);

}  // namespace lockstep::train
