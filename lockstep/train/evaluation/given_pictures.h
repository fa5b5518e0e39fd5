// Pictures that a command line names, as a configuration would prepare them for evaluation.
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/samples/unlabelled_pictures.h>
#include <lockstep/train/config.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::train {

/// samples::load_picture_files() after data.eval_transforms, or after those of training but the random ones. Errors of
/// both.
std::shared_ptr<const samples::Dataset> given_pictures(const RunConfig& config, const std::filesystem::path& path,
                                                       const samples::PictureFilesOptions& options);

/// The same of samples::listed_picture_files().
std::shared_ptr<const samples::Dataset> listed_pictures(const RunConfig& config, std::vector<std::string> files,
                                                        bool skips);

}  // namespace lockstep::train
