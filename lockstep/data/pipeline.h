// The transform pipeline from a record's bytes to the floats of a model's input.
#pragma once

#include <lockstep/data/dataset.h>
#include <lockstep/data/fused_plan.h>
#include <lockstep/data/sample_key.h>
#include <lockstep/data/transform.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::data {

enum class PipelineMode {
  fastest,       ///< one fused pass where the transforms allow it
  step_by_step,  ///< always one transform after the other: the reference, with the same bits
};

/// An immutable value; copies are independent. Thread-safe, with one scratch a thread.
class Pipeline {
 public:
  using Scratch = FusedScratch;

  /// Error(config) as in `build_transforms`, and when the result is not CHW float32.
  Pipeline(std::span<const TransformSpec> specs, const PictureShape& input, PipelineMode mode = PipelineMode::fastest);

  /// The picture of `key` into `out`, channels x height x width. `pixels` are input() bytes (CHW) and `out` holds
  /// output() floats; Error(invalid_argument) otherwise.
  void apply(std::span<const std::uint8_t> pixels, const SampleKey& key, std::span<float> out, Scratch& scratch) const;

  const PictureShape& input() const { return input_; }
  const PictureShape& output() const { return output_; }
  bool is_fused() const { return fused_.has_value(); }

  /// One line: "3x32x32 -> random_crop 32x32 padding 4,4,4,4 -> ... -> 3x32x32 (fused)".
  std::string describe() const;

 private:
  PictureShape input_;
  PictureShape output_;
  std::vector<Transform> transforms_;
  std::optional<FusedPlan> fused_;
};

}  // namespace lockstep::data
