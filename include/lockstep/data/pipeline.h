// The transform pipeline from a record's bytes to the floats of a model's input.
#pragma once

#include <lockstep/data/dataset.h>
#include <lockstep/data/transform_spec.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::data {

enum class PipelineMode {
  fastest,       ///< one fused pass where the transforms allow it
  step_by_step,  ///< always one transform after the other: the reference implementation, whose results are bit-equal
};

/// The key of one sample. Its random choices depend on the key only.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;  ///< counted from 0
  std::int64_t index = 0;  ///< index of the record in its data set
};

struct FusedScratch;

/// Buffers that a pipeline reuses from picture to picture: one object for each thread that applies it.
class PipelineScratch {
 public:
  PipelineScratch();
  ~PipelineScratch();
  PipelineScratch(PipelineScratch&&) noexcept;
  PipelineScratch& operator=(PipelineScratch&&) noexcept;

  FusedScratch& buffers() { return *buffers_; }  ///< internal

 private:
  std::unique_ptr<FusedScratch> buffers_;
};

/// A sequence of transforms. An immutable value, cheap to copy. Thread-safe with one scratch per thread.
class Pipeline {
 public:
  using Scratch = PipelineScratch;

  /// The transforms, applied in this order to pictures of `input`: names and arguments as under data.train_transforms
  /// (docs/configuration.md). Error(config) for unknown names and arguments, values out of range, transforms that
  /// cannot follow the preceding ones, and when the result is not CHW float32.
  Pipeline(std::span<const TransformSpec> specs, const PictureShape& input, PipelineMode mode = PipelineMode::fastest);

  /// Transforms one picture: `pixels`, bytes (CHW) of shape input(), to `out`, float32 (CHW) of shape output(). `key`
  /// gives the random choices. Error(invalid_argument) when a span has another size.
  void apply(std::span<const std::uint8_t> pixels, const SampleKey& key, std::span<float> out, Scratch& scratch) const;

  const PictureShape& input() const;
  const PictureShape& output() const;
  bool is_fused() const;

  /// One line: "3x32x32 -> random_crop 32x32 padding 4,4,4,4 -> ... -> 3x32x32 (fused)".
  std::string describe() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace lockstep::data
