// Lists of transforms in a run's configuration, for the samples of one data set.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/nearest.h>
#include <lockstep/data/picture_plan.h>
#include <lockstep/samples/dataset.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::samples {

/// A plain value.
struct TransformList {
  Transform steps;  ///< those of samples, one after the other; empty: there are none
  /// Those of batches, in order, each made for the data set before the list.
  std::vector<std::function<BatchTransform(const Dataset&)>> of_batches{};
  std::optional<data::PicturePlan> plan{};  ///< their compiled form, if each step of a list for `stored` has one
  data::PictureShape output{};              ///< of pictures of `stored`
  std::string text{};  ///< for those, one line: "3x32x32 -> random_crop {size: 32} -> ... (compiled)"
  /// A warning that applies if pictures have values above those from 0 to 1 after `steps_before_warning`, which may be
  /// empty: `normalize` is for such values, and no shipped step scales them before it. Empty: there is none.
  std::string warning{};
  Transform steps_before_warning{};
};

/// The list for pictures of any size, or for pictures in memory of the shape `stored`: these are tried on a black
/// picture, so that wrong sizes and types are errors of the list. Messages about unknown arguments translate `words`;
/// else as transformed() of dataset.h.
TransformList read_transforms(const ConfigNode& list, std::string_view what, const ForeignWords& words,
                              const std::vector<TransformPart>& parts, bool with_random,
                              const std::optional<data::PictureShape>& stored);

/// `dataset` after the list, which was read for its pictures if they are in memory. Reports its warning, if it applies
/// to the first sample.
std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset, const TransformList& list);

}  // namespace lockstep::samples
