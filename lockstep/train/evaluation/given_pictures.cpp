// A data set of picture files named on a command line, after the evaluation transforms of the configuration.
#include <lockstep/train/evaluation/given_pictures.h>

#include <lockstep/samples/transforms.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/keys/refused_words.h>

#include <utility>

namespace lockstep::train {

namespace {

std::shared_ptr<const samples::Dataset> prepared(const RunConfig& config,
                                                 std::shared_ptr<const samples::Dataset> pictures) {
  const auto& data = config.data;
  const auto& parts = parts_or_shipped(data.parts).transforms;
  const bool has_own = data.eval_transforms.kind != ConfigNode::Kind::null;
  auto transform = has_own
                       ? samples::transforms_of(data.eval_transforms, "data.eval_transforms", refused_words(), parts)
                       : samples::transforms_of(data.train_transforms, "data.train_transforms", refused_words(), parts,
                                                /*with_random=*/false);
  return transform ? samples::mapped(std::move(pictures), std::move(transform)) : pictures;
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
