// The fused execution of common pipelines in one pass: crops and flips, optionally a resize followed by further crops
// and flips, all on bytes, and then a lookup table from byte to value.
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

/// The result for each byte value.
using ByteLookup = std::array<float, 256>;

/// Buffers that a thread reuses from picture to picture.
struct FusedScratch {
  std::vector<std::uint8_t> cropped;
  std::vector<std::uint8_t> row;
  std::array<std::vector<float>, 2> widened;  ///< source rows, resized to the target's width
};

class FusedPlan {
 public:
  /// nullopt when the transforms cannot be fused: a value transform before a geometric transform, or two resizes.
  static std::optional<FusedPlan> compile(const std::vector<Transform>& transforms, const PictureShape& input);

  /// Computes results bit-equal to `apply_transforms` on the decoded record. Thread-safe with one scratch per thread.
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
    std::size_t moves_before = 0;  ///< number of moves before the resize
  };

  FusedPlan() = default;

  Maps draw(Maps maps, std::size_t first_move, std::size_t last_move, const SampleKey& key) const;
  PictureShape input_;
  std::vector<Move> moves_;
  std::optional<ResizePlan> resize_;
  std::vector<ByteLookup> lookups_;  ///< one for each channel
};

}  // namespace lockstep::data
