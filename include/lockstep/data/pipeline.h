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
  step_by_step,  ///< always one transform after the other: the reference, with the same bits
};

/// The key of one sample, on which its random choices depend, and nothing else.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;  ///< counted from 0
  std::int64_t index = 0;  ///< of the record in its data set
};

struct FusedScratch;

/// Buffers that a pipeline keeps from picture to picture: one for each thread that applies it.
class PipelineScratch {
 public:
  PipelineScratch();
  ~PipelineScratch();
  PipelineScratch(PipelineScratch&&) noexcept;
  PipelineScratch& operator=(PipelineScratch&&) noexcept;

  FusedScratch& buffers() { return *buffers_; }  ///< for Lockstep itself

 private:
  std::unique_ptr<FusedScratch> buffers_;
};

/// An immutable value, cheap to copy. Thread-safe, with one scratch a thread.
class Pipeline {
 public:
  using Scratch = PipelineScratch;

  /// The transforms, applied in this order to pictures of `input`: names and arguments as under data.train_transforms
  /// (docs/configuration.md). Error(config) for unknown names and arguments, values out of range, transforms that
  /// cannot follow the ones before, and when the result is not CHW float32.
  Pipeline(std::span<const TransformSpec> specs, const PictureShape& input, PipelineMode mode = PipelineMode::fastest);

  /// The picture of `key` into `out`, float32 [channels, height, width]. `pixels` are input() bytes (CHW) and `out`
  /// holds output() floats; Error(invalid_argument) otherwise.
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
