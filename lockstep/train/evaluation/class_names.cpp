// The names of classes for predictions: those of the data set, or a file that the run left.
#include <lockstep/train/evaluation/class_names.h>

#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/data/format.h>

#include <algorithm>
#include <sstream>

namespace lockstep::train {

std::vector<std::string> class_names(const RunConfig& config, const Program& program) {
  const auto formats = data::dataset_formats();
  const auto format = std::ranges::find(formats, config.data.name, &data::DatasetFormat::name);
  if (!config.data.is_own && format != formats.end()) {
    std::vector<std::string> names;
    std::istringstream words{std::string(format->class_names)};
    for (std::string word; words >> word;) names.push_back(word);
    return names;
  }
  try {
    const auto training = program.data ? program.data(data::Split::train) : nullptr;
    return training ? training->classes() : std::vector<std::string>();
  } catch (const Error& error) {
    log_info(
        "predictions have no names of classes, because the training data cannot be read: {}; --classes FILE gives "
        "names",
        error.what());
    return {};
  }
}

}  // namespace lockstep::train
