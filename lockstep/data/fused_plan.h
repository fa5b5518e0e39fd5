// The fused execution of common pipelines in one pass: crops and flips, perhaps a resize with more of them, all on
// bytes, and then a table that gives a value for each byte.
#pragma once

#include <lockstep/data/axis_map.h>
#include <lockstep/data/resize_axis.h>
#include <lockstep/data/sample_key.h>
#include <lockstep/data/transform.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::data {

/// The result for each value of a byte.
using ByteLookup = std::array<float, 256>;

/// Buffers that a thread keeps from picture to picture.
struct FusedScratch {
  std::vector<std::uint8_t> cropped;
  std::vector<std::uint8_t> row;
  std::array<std::vector<float>, 2> widened;  ///< source rows, resized to the target's width
};

class FusedPlan {
 public:
  /// nullopt when the transforms have another shape: values changed before a geometric transform, or two resizes.
  static std::optional<FusedPlan> compile(const std::vector<Transform>& transforms, const PictureShape& input);

  /// The same bits as `apply_transforms` on the decoded record. Thread-safe with one scratch a thread.
  void apply(std::span<const std::uint8_t> pixels, const SampleKey& key, std::span<float> out,
             FusedScratch& scratch) const;

 private:
  using Move = std::variant<RandomCrop, RandomHorizontalFlip>;

  struct Maps {
    AxisMap rows;
    AxisMap columns;
  };

  struct ResizePlan {
    std::vector<ResizeTap> rows;
    std::vector<ResizeTap> columns;
    std::size_t moves_before = 0;  ///< how many of the moves come before the resize
  };

  FusedPlan() = default;

  Maps draw(Maps maps, std::size_t first_move, std::size_t last_move, const SampleKey& key) const;
  PictureShape input_;
  std::vector<Move> moves_;
  std::optional<ResizePlan> resize_;
  std::vector<ByteLookup> lookups_;  ///< one a channel
};

}  // namespace lockstep::data
