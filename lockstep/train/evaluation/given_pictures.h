// Pictures from a command line, with the evaluation transforms of a configuration.
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/samples/picture_sets.h>
#include <lockstep/train/config.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::train {

/// samples::load_picture_files() after data.eval_transforms, or else after the training transforms except random ones.
/// Errors of both.
std::shared_ptr<const samples::Dataset> given_pictures(const RunConfig& config, const std::filesystem::path& path,
                                                       const samples::PictureFilesOptions& options);

/// The same for samples::listed_picture_files().
std::shared_ptr<const samples::Dataset> listed_pictures(const RunConfig& config, std::vector<std::string> files,
                                                        bool skips);

}  // namespace lockstep::train
