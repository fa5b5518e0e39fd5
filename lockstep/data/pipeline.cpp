#include <lockstep/base/error.h>
#include <lockstep/data/pipeline.h>
#include <lockstep/data/step_by_step.h>

#include <algorithm>

namespace lockstep::data {
namespace {

std::string_view type_name(PixelType type) {
  switch (type) {
    case PixelType::uint8: return "uint8";
    case PixelType::int32: return "int32";
    case PixelType::float32: return "float32";
  }
  return "unknown";
}

void require_model_input(std::span<const TransformSpec> specs, const PictureState& state) {
  std::string missing;
  if (state.type != PixelType::float32) missing = "rescale, normalize or type_cast {type: float32}";
  if (!state.channels_first) missing += missing.empty() ? "hwc2chw" : ", and hwc2chw";
  if (missing.empty()) return;
  throw Error(ErrorKind::config, "transforms",
              fmt::format("the pictures come out as {} {}, but a model takes CHW float32; add {}",
                          state.channels_first ? "CHW" : "HWC", type_name(state.type), missing),
              specs.empty() ? FilePosition{} : specs.back().position);
}

std::string shape_text(const PictureShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace

Pipeline::Pipeline(std::span<const TransformSpec> specs, const PictureShape& input, PipelineMode mode) : input_(input) {
  if (input.channels < 1 || input.height < 1 || input.width < 1) {
    fail(ErrorKind::invalid_argument, "transforms", "pictures of {} (channels x height x width) hold nothing",
         shape_text(input));
  }
  PictureState state{.shape = input};
  transforms_ = build_transforms(specs, state);
  require_model_input(specs, state);
  output_ = state.shape;
  if (mode == PipelineMode::fastest) fused_ = FusedPlan::compile(transforms_, input);
}

void Pipeline::apply(std::span<const std::uint8_t> pixels, const SampleKey& key, std::span<float> out,
                     Scratch& scratch) const {
  if (pixels.size() != picture_size(input_) || out.size() != picture_size(output_)) {
    fail(ErrorKind::invalid_argument, "transforms", "{} bytes and {} floats were given; {} -> {} takes {} and {}",
         pixels.size(), out.size(), shape_text(input_), shape_text(output_), picture_size(input_),
         picture_size(output_));
  }
  if (fused_) {
    fused_->apply(pixels, key, out, scratch);
    return;
  }
  const FloatPicture picture = apply_transforms(transforms_, decode(pixels, input_), key);
  std::copy(picture.values.begin(), picture.values.end(), out.begin());
}

std::string Pipeline::describe() const {
  std::string text = shape_text(input_);
  for (const Transform& transform : transforms_) text += " -> " + to_text(transform);
  return fmt::format("{} -> {} ({})", text, shape_text(output_), is_fused() ? "fused" : "step by step");
}

}  // namespace lockstep::data
