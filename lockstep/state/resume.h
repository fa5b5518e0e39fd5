// Where a run goes on: the source of a state, in memory or in files of which a rank reads only the parts that it needs,
// and the search for the checkpoint to continue from.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/state/checkpoint.h>
#include <lockstep/state/sharded/load.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::state {

/// Names as in saved_checkpoint.h. Not thread-safe. Errors of ShardReader.
class StateSource {
 public:
  explicit StateSource(NamedTensors in_memory);
  /// A source in files whose checksums were compared.
  explicit StateSource(ShardReader files);

  /// Names, shapes and dtypes of all tensors, or of one part ("model", "optimizer") without its prefix: tensors of the
  /// meta device, which have no values.
  const NamedTensors& outline() const { return outline_; }
  NamedTensors outline(std::string_view part) const;

  /// Copies the box of a tensor of the outline into `into`, of the box's sizes.
  void read(const std::string& name, const Box& box, at::Tensor& into);
  /// A whole tensor: on the CPU, or sharing the memory of the source.
  at::Tensor read(const std::string& name);
  /// All tensors of one part, without its prefix.
  NamedTensors read_part(std::string_view part);

 private:
  NamedTensors in_memory_;
  std::optional<ShardReader> files_;
  NamedTensors outline_;
};

struct ResumePoint {
  std::int64_t step = 0;
  std::string record;  ///< as in saved_checkpoint.h
  StateSource tensors;
  std::vector<std::string> remarks;  ///< for users, rank 0 only: the origin, and the damaged files that were skipped
  std::string origin{};              ///< for messages, on all ranks: "the checkpoint of step 12 in out/checkpoints"
};

/// `resume` is checkpoint.resume: auto, none, or the path of a checkpoint; `folder` has those of the run. Rank 0 finds
/// the checkpoint and compares its checksums. If all ranks see it, each reads the tensors that it needs; else rank 0
/// reads all and sends it to all. nullopt: the run starts from the beginning. A collective. Error(config) when the
/// folder holds checkpoints that this run would mix with its own: any with resume=none, newer ones with resume=FILE.
/// Else errors of find_newest_intact and open_checkpoint. All ranks throw the same error, unless rank 0 cannot read
/// (io).
std::optional<ResumePoint> find_resume_point(const std::filesystem::path& folder, const std::string& resume,
                                             const Group& group);

}  // namespace lockstep::state
