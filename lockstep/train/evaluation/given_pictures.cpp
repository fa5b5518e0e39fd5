// A data set of picture files named on a command line, after the evaluation transforms of the configuration.
#include <lockstep/train/evaluation/given_pictures.h>

#include <lockstep/train/resources/configured_data.h>

#include <utility>

namespace lockstep::train {

namespace {

std::shared_ptr<const samples::Dataset> prepared(const RunConfig& config,
                                                 std::shared_ptr<const samples::Dataset> pictures) {
  return samples::transformed(std::move(pictures), transforms_of(config.data, data::Split::test));
}

}  // namespace

std::shared_ptr<const samples::Dataset> given_pictures(const RunConfig& config, const std::filesystem::path& path,
                                                       const samples::PictureFilesOptions& options) {
  return prepared(config, samples::load_picture_files(path, options));
}

std::shared_ptr<const samples::Dataset> listed_pictures(const RunConfig& config, std::vector<std::string> files,
                                                        bool skips) {
  return prepared(config, samples::listed_picture_files(std::move(files), skips));
}

}  // namespace lockstep::train
