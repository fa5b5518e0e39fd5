// The random choices of one sample, which depend only on its key (pipeline.h).
#pragma once

#include <lockstep/data/loader.h>
#include <lockstep/data/random.h>
#include <lockstep/data/transform.h>

#include <cstdint>

namespace lockstep::data {

/// The random stream of the `position`-th random transform of a pipeline; only random transforms are counted, from 0.
inline RandomStream transform_stream(const SampleKey& key, std::size_t position) {
  return {key.seed,
          RandomPurpose::transform,
          {static_cast<std::uint64_t>(key.epoch), static_cast<std::uint64_t>(key.index), position}};
}

/// The origin of a crop's window, in the coordinates of the picture without padding; may be negative.
struct CropOrigin {
  int top;
  int left;
};

/// Draws the origin for a picture of height x width. The row is drawn before the column.
inline CropOrigin draw_crop(const RandomCrop& crop, int height, int width, RandomStream stream) {
  const int rows = height + crop.top + crop.bottom - crop.height + 1;
  const int columns = width + crop.left + crop.right - crop.width + 1;
  const int top = static_cast<int>(stream.below(static_cast<std::uint64_t>(rows)));
  const int left = static_cast<int>(stream.below(static_cast<std::uint64_t>(columns)));
  return {top - crop.top, left - crop.left};
}

inline bool draw_flip(const RandomHorizontalFlip& flip, RandomStream stream) { return stream.uniform() < flip.prob; }

}  // namespace lockstep::data
