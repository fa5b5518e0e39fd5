// Transforms of samples as parts that a configuration names, such as `resize` and `random_crop`.
//
//   samples::TransformPart{.name = "scale", .doc = "multiplies the field x",
//                          .options = PartOptions::of(ScaleOptions{}),
//                          .make = [](const PartOptions& options, const samples::TransformStep&) {
//                            return [factor = options.as<ScaleOptions>().factor](samples::Sample sample, const auto&) {
//                              sample.tensors["x"] = sample.tensors["x"] * factor;
//                              return sample;
//                            };
//                          }};
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/samples/dataset.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {
class PicturePlan;
}

namespace lockstep::samples {

/// The context of a transform in its list.
struct TransformStep {
  /// The unique name under which the step draws random numbers (Chance): that of the part, with a number from the
  /// second
  /// equal part of a list on, `random_crop.2`. So an added step does not change the random numbers of other steps.
  std::string name;
  bool channels_first = false;  ///< pictures are CHW here, because a step before made them so
  /// Set for pictures in memory (from_pictures): the number of random steps before this one. The shipped steps then
  /// draw by this number instead of the name, and `resize` rounds halves up.
  std::optional<std::int64_t> position{};
};

/// The memory order of pictures that a transform needs and makes.
enum class PictureOrder { any, channels_last, makes_channels_first };

struct TransformPart {
  std::string name;
  std::string doc{};  ///< one line
  PartOptions options{};
  std::function<Transform(const PartOptions&, const TransformStep&)> make;
  bool random = false;  ///< left out of evaluation where data.eval_transforms is not given
  PictureOrder order = PictureOrder::any;
  /// Adds the step to the compiled form for pictures in memory, with equal results; false where that is not possible.
  /// Internal: empty for parts of users, whose lists run step by step.
  std::function<bool(const PartOptions&, const TransformStep&, data::PicturePlan&)> compile{};
  /// Instead of `make`, for a transform of batches, such as mixup; in a list these follow all transforms of samples.
  /// Called with the data set before its transforms.
  std::function<BatchTransform(const PartOptions&, const TransformStep&, const Dataset&)> make_for_batches{};
};

/// The shipped transforms of pictures, with the numeric results of torchvision on tensors.
std::vector<TransformPart> shipped_transforms();

/// `dataset` after the transforms of a list such as `[resize: {size: 256}, to_tensor]`, one after the other. Names may
/// be written as in MindSpore (RandomCrop, HWC2CHW), and a single number instead of a list of numbers. Without
/// `with_random` the random ones are left out. `what` is the list's key. Error(config), with the place in the file, for
/// unknown names and arguments (with the nearest name), values out of range, and steps that cannot follow the previous
/// ones. Pictures in memory (from_pictures) must end as float32 [C, H, W].
std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset, const ConfigNode& list,
                                           std::string_view what, const std::vector<TransformPart>& parts,
                                           bool with_random = true);

/// The same with the shipped transforms and a list as YAML: transformed(pictures, "[rescale: {scale: 0.004},
/// hwc2chw]").
std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset, std::string_view list);

/// The list as one transform of samples of data sets that are not in memory, without its transforms of batches; empty
/// without any step. Errors as above.
Transform transforms_of(const ConfigNode& list, std::string_view what, const std::vector<TransformPart>& parts,
                        bool with_random = true);

}  // namespace lockstep::samples
