// Checkpoints that tests write and read without a run.
#pragma once

#include <lockstep/base/crypto.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/checkpoint/run_state.h>

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <utility>

namespace lockstep::test {

/// The content of a checkpoint.
struct Checkpoint {
  train::RunState state;
  state::NamedTensors tensors;
};

/// The file of a whole state that data parallel runs of older programs wrote.
inline void write_old_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint) {
  const auto state = train::to_json(checkpoint.state);
  Sha256 hash;
  hash.update(state);
  hash.update(state::sha256_of(checkpoint.tensors));
  state::save_safetensors(file, checkpoint.tensors,
                          {{"lockstep.checkpoint", "1"}, {"lockstep.state", state}, {"lockstep.sha256", hash.hex()}});
}

/// As a run of one rank saves it.
inline void save_in_parts(const std::filesystem::path& folder, const Checkpoint& checkpoint, std::int64_t keep) {
  World world;
  world.rendezvous = Rendezvous::alone;
  const auto group = connect(world);
  state::CheckpointWriter writer({.keep = keep}, folder, group);
  writer.save(
      checkpoint.state.step, train::to_json(checkpoint.state),
      {.group = group, .mesh = {.sizes = {1}, .names = {"data"}}, .tensors = checkpoint.tensors, .in_parts = {}});
}

inline Checkpoint content_of(const state::SavedCheckpoint& saved) {
  return {train::parse_run_state(saved.record), state::read_whole(saved)};
}

/// All of an intact checkpoint. Errors of open_checkpoint and require_intact.
inline Checkpoint load_intact(const std::filesystem::path& path) {
  const auto saved = state::open_checkpoint(path);
  state::require_intact(saved);
  return content_of(saved);
}

}  // namespace lockstep::test
