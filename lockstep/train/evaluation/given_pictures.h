// Pictures that a command line names, as a configuration would prepare them for evaluation.
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/train/config.h>

#include <filesystem>
#include <memory>

namespace lockstep::train {

/// samples::load_picture_files() after data.eval_transforms, or after those of training but the random ones. Errors of
/// both.
std::shared_ptr<const samples::Dataset> given_pictures(const RunConfig& config, const std::filesystem::path& path);

}  // namespace lockstep::train
