// Conversion of the configuration's transforms to the specs from which data/ builds them.
#pragma once

#include <lockstep/base/config_node.h>
#include <lockstep/data/transform_spec.h>

#include <string_view>
#include <vector>

namespace lockstep::train {

/// Reads a list such as `[random_crop: {size: 32, padding: 4}, hwc2chw]`. A scalar that is a number becomes one, other
/// scalars are text. Error(config), with the place in the file, for anything that is not a name with arguments of those
/// kinds; names and arguments themselves are checked by data::build_transforms. `what` is the list's key.
std::vector<data::TransformSpec> transform_specs(const ConfigNode& list, std::string_view what);

}  // namespace lockstep::train
