// Checkpoints that tests write and read without a run.
#pragma once

#include <lockstep/base/sha256.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/checkpoint/checkpoint_writer.h>

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <utility>

namespace lockstep::test {

/// The file of a whole state that data parallel runs of older programs wrote.
inline void write_old_checkpoint(const std::filesystem::path& file, const train::Checkpoint& checkpoint) {
  const auto state = train::to_json(checkpoint.state);
  Sha256 hash;
  hash.update(state);
  hash.update(state::sha256_of(checkpoint.tensors));
  state::save_safetensors(file, checkpoint.tensors,
                          {{"lockstep.checkpoint", "1"}, {"lockstep.state", state}, {"lockstep.sha256", hash.hex()}});
}

/// As a run of one rank saves it.
inline void save_in_parts(const std::filesystem::path& folder, const train::Checkpoint& checkpoint, std::int64_t keep) {
  World world;
  world.rendezvous = Rendezvous::alone;
  const auto group = connect(world);
  train::CheckpointConfig config;
  config.keep = keep;
  train::CheckpointWriter writer(config, folder, group);
  writer.save(
      checkpoint.state,
      {.group = group, .mesh = {.sizes = {1}, .names = {"data"}}, .tensors = checkpoint.tensors, .in_parts = {}});
}

/// All of an intact checkpoint. Errors of open_saved_run and require_intact.
inline train::Checkpoint load_intact(const std::filesystem::path& path) {
  const auto saved = train::open_saved_run(path);
  train::require_intact(saved);
  return train::read_whole(saved);
}

}  // namespace lockstep::test
