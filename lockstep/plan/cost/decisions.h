// A cache of decisions: the placements that execution chooses for an operator with given input placements, and their
// cost.
#pragma once

#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/cost/program.h>

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::plan {

/// Placements of one mesh as a number, so that they are cheap to compare.
using PlacedAs = std::uint16_t;
inline constexpr PlacedAs kReplicated = 0;
inline constexpr PlacedAs kNotWanted = 0xffff;

struct Traffic {
  std::array<double, kCollectives> count{};
  std::array<Bytes, kCollectives> bytes{};  ///< bytes of each rank in the collectives of that kind

  void add(Collective kind, Bytes of, double times = 1);
  void add(const Traffic& other, double times = 1);
};

struct Decision {
  std::vector<PlacedAs> inputs;   ///< placements of the inputs afterwards
  std::vector<PlacedAs> outputs;  ///< placements of the results
  Seconds compute{};
  Seconds communication{};   ///< collectives inside the operator
  Seconds redistribution{};  ///< redistribution of inputs, and of results that are written to existing tensors
  Traffic traffic;
  Bytes copies{};  ///< memory for redistributed inputs
  std::vector<Bytes> output_bytes;

  Seconds total() const { return compute + communication + redistribution; }
};

/// The decisions on one mesh with one cost model. Not thread-safe.
class Decisions {
 public:
  Decisions(const Program& program, std::vector<int> mesh_sizes, CostModel model);

  PlacedAs number(const Placements& placements);
  const Placements& placements(PlacedAs number) const { return known_[number]; }
  std::span<const int> mesh_sizes() const { return mesh_sizes_; }
  const CostModel& model() const { return model_; }
  std::size_t made() const { return decisions_.size(); }

  /// The decision of choose(), which execution uses. `wanted[i]`: the placements of the tensor to which output i is
  /// written; kNotWanted if it is a new tensor. The reference is valid as long as this object.
  const Decision& decide(std::uint32_t op, std::span<const PlacedAs> inputs, std::span<const PlacedAs> wanted);

  /// The cost of a redistribution: communication and copies.
  Seconds redistribution(const TensorInfo& info, const Placements& from, const Placements& to, Traffic& traffic) const;

 private:
  std::span<const std::vector<global::Signature>* const> candidates(std::uint32_t op);
  bool follow_strategy(std::uint32_t op);
  Decision make(std::uint32_t op, std::span<const PlacedAs> inputs, std::span<const PlacedAs> wanted);

  const Program& program_;
  std::vector<int> mesh_sizes_;
  CostModel model_;
  std::deque<Placements> known_;
  std::unordered_map<std::string, PlacedAs> numbers_;
  std::unordered_map<std::u16string, Decision> decisions_;
  std::u16string key_;
  std::vector<std::vector<const std::vector<global::Signature>*>> candidates_;  ///< by operator and axis
  std::deque<std::vector<global::Signature>> signatures_;
};

}  // namespace lockstep::plan
