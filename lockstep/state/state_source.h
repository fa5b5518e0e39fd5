// The source of a state from which a run continues: tensors in memory, or files from which a rank reads only the parts
// that it needs.
#pragma once

#include <lockstep/state/named_tensors.h>
#include <lockstep/state/sharded/shard_reader.h>

#include <optional>
#include <string>
#include <string_view>

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

}  // namespace lockstep::state
