// The reference implementation of the transforms: one after the other, on one picture of floats. Simple, but slow.
#pragma once

#include <lockstep/data/sample_key.h>
#include <lockstep/data/transform.h>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

/// A picture with values as floats. All pixel types fit: bytes exactly, and int32 because such values only come from
/// floats.
struct FloatPicture {
  PictureState state;
  std::vector<float> values;  ///< height x width x channels, or channels x height x width
};

/// Converts the bytes of a record (CHW) to the HWC uint8 picture that is the input of the first transform.
FloatPicture decode(std::span<const std::uint8_t> pixels, const PictureShape& shape);

FloatPicture apply_transforms(const std::vector<Transform>& transforms, FloatPicture picture, const SampleKey& key);

/// Applies an elementwise transform (rescale, normalize, type_cast) to one value of a channel; returns it unchanged for
/// other transforms.
float apply_to_value(const Transform& transform, float value, std::size_t channel);

}  // namespace lockstep::data
