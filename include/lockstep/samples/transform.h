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

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::samples {

/// The context of a transform in its list.
struct TransformStep {
  /// The unique name under which the step draws random numbers (Chance): that of the part, with a number from the
  /// second
  /// equal part of a list on, `random_crop.2`. So an added step does not change the random numbers of other steps.
  std::string name;
  bool channels_first = false;  ///< pictures are CHW here, because a step before made them so
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
};

/// The shipped transforms of pictures, with the numeric results of torchvision on tensors.
std::vector<TransformPart> shipped_transforms();

/// The transforms of a list such as `[resize: {size: 256}, to_tensor]`, one after the other; empty without any. Names
/// may be written as in MindSpore (RandomCrop, HWC2CHW), and a single number instead of a list of numbers. Without
/// `with_random` the random ones are left out. `what` is the list's key. Error(config), with the place in the file, for
/// unknown names and arguments (with the nearest name), values out of range, and steps that cannot follow the previous
/// ones.
Transform transforms_of(const ConfigNode& list, std::string_view what, const std::vector<TransformPart>& parts,
                        bool with_random = true);

}  // namespace lockstep::samples
