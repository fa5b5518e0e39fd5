// The reference implementation of the transforms: one after the other, on one picture of floats. Slow, but simple.
#pragma once

#include <lockstep/data/sample_key.h>
#include <lockstep/data/transform.h>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

/// All pixel types fit into floats: bytes exactly, and int32 because it only comes from floats.
struct FloatPicture {
  PictureState state;
  std::vector<float> values;  ///< height x width x channels, or channels x height x width
};

/// Record bytes (CHW) as the HWC uint8 picture that transforms begin with.
FloatPicture decode(std::span<const std::uint8_t> pixels, const PictureShape& shape);

FloatPicture apply_transforms(const std::vector<Transform>& transforms, FloatPicture picture, const SampleKey& key);

/// The result for one value of a channel of a transform that treats every value alone (rescale, normalize, type_cast);
/// other transforms do not change it.
float apply_to_value(const Transform& transform, float value, std::size_t channel);

}  // namespace lockstep::data
