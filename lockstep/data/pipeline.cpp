// Transforms of small pictures, checked once and run by the fused plan where one exists, else step by step.
#include <lockstep/base/error.h>
#include <lockstep/data/fused_plan.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/step_by_step.h>

#include <algorithm>
#include <optional>
#include <utility>

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
              fmt::format("the transforms give pictures as {} {}, but a model needs CHW float32; add {}",
                          state.channels_first ? "CHW" : "HWC", type_name(state.type), missing),
              specs.empty() ? FilePosition{} : specs.back().position);
}

std::string shape_text(const PictureShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace

struct Pipeline::State {
  PictureShape input;
  PictureShape output;
  std::vector<Transform> transforms;
  std::optional<FusedPlan> fused;
};

PipelineScratch::PipelineScratch() : buffers_(std::make_unique<FusedScratch>()) {}
PipelineScratch::~PipelineScratch() = default;
PipelineScratch::PipelineScratch(PipelineScratch&&) noexcept = default;
PipelineScratch& PipelineScratch::operator=(PipelineScratch&&) noexcept = default;

Pipeline::Pipeline(std::span<const TransformSpec> specs, const PictureShape& input, PipelineMode mode) {
  if (input.channels < 1 || input.height < 1 || input.width < 1) {
    fail(ErrorKind::invalid_argument, "transforms", "pictures of {} (channels x height x width) hold nothing",
         shape_text(input));
  }
  PictureState picture{.shape = input};
  auto state = std::make_shared<State>();
  state->input = input;
  state->transforms = build_transforms(specs, picture);
  require_model_input(specs, picture);
  state->output = picture.shape;
  if (mode == PipelineMode::fastest) state->fused = FusedPlan::compile(state->transforms, input);
  state_ = std::move(state);
}

void Pipeline::apply(std::span<const std::uint8_t> pixels, const SampleKey& key, std::span<float> out,
                     Scratch& scratch) const {
  if (pixels.size() != picture_size(input()) || out.size() != picture_size(output())) {
    fail(ErrorKind::invalid_argument, "transforms", "{} bytes and {} floats were given; {} -> {} takes {} and {}",
         pixels.size(), out.size(), shape_text(input()), shape_text(output()), picture_size(input()),
         picture_size(output()));
  }
  if (state_->fused) {
    state_->fused->apply(pixels, key, out, scratch.buffers());
    return;
  }
  const FloatPicture picture = apply_transforms(state_->transforms, decode(pixels, input()), key);
  std::copy(picture.values.begin(), picture.values.end(), out.begin());
}

const PictureShape& Pipeline::input() const { return state_->input; }
const PictureShape& Pipeline::output() const { return state_->output; }
bool Pipeline::is_fused() const { return state_->fused.has_value(); }

std::string Pipeline::describe() const {
  std::string text = shape_text(input());
  for (const Transform& transform : state_->transforms) text += " -> " + to_text(transform);
  return fmt::format("{} -> {} ({})", text, shape_text(output()), is_fused() ? "fused" : "step by step");
}

}  // namespace lockstep::data
