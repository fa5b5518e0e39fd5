// The compiled form of transforms of small pictures, which runs in one pass: crops and flips, then optionally a resize
// and further crops and flips, all on bytes, and then a lookup table from byte to value.
//
// The parts of samples/picture_transforms.cpp compute the same on tensors, one step after the other, with bit-equal
// results.
#pragma once

#include <lockstep/data/pictures.h>
#include <lockstep/data/sampler.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace lockstep::data {

/// The key of one sample. Its random choices depend on the key only.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;  ///< counted from 0
  std::int64_t index = 0;  ///< index of the record in its data set
};

/// The random stream of the `position`-th random step of a list for pictures in memory; only random steps are counted,
/// from 0.
inline RandomStream step_stream(const SampleKey& key, std::int64_t position) {
  return {key.seed,
          RandomPurpose::transform,
          {static_cast<std::uint64_t>(key.epoch), static_cast<std::uint64_t>(key.index),
           static_cast<std::uint64_t>(position)}};
}

/// A bilinear resize along one axis: the two source pixels of a target pixel, and their weights.
struct ResizeTap {
  int first;
  int second;          ///< first + 1, or first at the far edge
  float first_weight;  ///< 1 - second_weight
  float second_weight;
};

/// Half-pixel centres: the centre of target pixel i is at (i + 0.5) * source / target - 0.5, clamped to the picture.
std::vector<ResizeTap> resize_axis(int source, int target);

/// Adds `padding` zeros on each side, then cuts out a window at a uniformly random place.
struct RandomCrop {
  int height = 0;
  int width = 0;
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
};

/// Steps are added in the order of the list. `add_` functions return false, and change nothing, where a step cannot be
/// compiled after those before it: geometry after a change of values, or a second resize.
class PicturePlan {
 public:
  /// Buffers that a thread reuses from picture to picture.
  struct Scratch {
    std::vector<std::uint8_t> cropped;
    std::vector<std::uint8_t> row;
    std::array<std::vector<float>, 2> widened;  ///< source rows, resized to the target's width
  };

  explicit PicturePlan(const PictureShape& input);

  const PictureShape& input() const { return input_; }
  const PictureShape& output() const { return output_; }
  bool changes_values() const { return changes_values_; }

  /// The row is drawn before the column. The window is not larger than the picture with its padding.
  bool add_random_crop(const RandomCrop& crop, std::int64_t position);
  /// Mirrored left to right with probability `prob`.
  bool add_random_flip(double prob, std::int64_t position);
  /// Bytes are rounded to nearest, halves up.
  bool add_resize(int height, int width);

  /// Bytes become float32, so that nothing after it is rounded.
  bool add_float();
  /// value * scale + shift, in float32.
  bool add_rescale(float scale, float shift);
  /// value / divisor, in float32.
  bool add_division(float divisor);
  /// (value - mean[c]) / std[c] for each channel, in float32; one number is for all channels.
  bool add_normalize(const std::vector<float>& mean, const std::vector<float>& std);
  /// Without the fraction; never -0.
  bool add_truncation();

  /// From the bytes of a record (CHW), of input(), to float32 (CHW), of output(). Thread-safe with one scratch per
  /// thread. The spans have the pictures' sizes.
  void apply(std::span<const std::uint8_t> pixels, const SampleKey& key, std::span<float> out, Scratch& scratch) const;

 private:
  struct RandomFlip {
    double prob;
  };
  struct Move {
    std::variant<RandomCrop, RandomFlip> step;
    std::int64_t position;
  };
  struct Maps;

  struct Resize {
    std::vector<ResizeTap> rows;
    std::vector<ResizeTap> columns;
    std::size_t moves_before = 0;
  };

  template <typename Change>
  bool change_values(Change change);
  Maps draw(Maps maps, std::size_t first_move, std::size_t last_move, const SampleKey& key) const;

  PictureShape input_;
  PictureShape output_;
  std::vector<Move> moves_;
  std::optional<Resize> resize_;
  bool changes_values_ = false;
  std::vector<std::array<float, 256>> lookups_;  ///< for each channel, the result for each byte
};

}  // namespace lockstep::data
