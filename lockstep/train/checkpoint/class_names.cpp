// The names of classes: the names of the data set, and the names that a run has written to its folder.
#include <lockstep/train/checkpoint/class_names.h>

#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/data/format.h>
#include <lockstep/train/checkpoint/run_folder.h>
#include <lockstep/train/resources/work_dir.h>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
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
    log_warning(
        "predictions have no names of classes, because the training data cannot be read: {}; --classes FILE gives "
        "names",
        error.what());
    return {};
  }
}

std::string classes_text(const std::vector<std::string>& names) {
  return nlohmann::json(names).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<std::string> classes_of_run(const std::filesystem::path& weights) {
  const auto file = find_file_of_run(weights, kClassesFile);
  if (file.empty()) return {};
  try {
    std::ifstream in(file);
    return nlohmann::json::parse(in).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorKind::data, "classes", "{} is damaged: it is no list of names; remove it if the data has its classes",
         file.string());
  }
}

void require_same_classes(const std::vector<std::string>& learned, const std::vector<std::string>& given) {
  // Names of files may be invalid UTF-8, which the file of a run cannot store.
  const auto found = nlohmann::json::parse(classes_text(given)).get<std::vector<std::string>>();
  if (learned.empty() || found.empty() || learned == found) return;
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(learned, found).in1 - learned.begin());
  const auto shown = [at](const std::vector<std::string>& names) {
    return at < names.size() ? fmt::format("'{}'", cut_text(names[at])) : std::string("missing");
  };
  fail(ErrorKind::data, "classes",
       "the weights have learned {} classes, and the data has {}; class {} was {} and is {}. Give the data the names "
       "that it had (folders of classes, words of a table), or their order by data.classes; or train again in another "
       "folder",
       learned.size(), found.size(), at, shown(learned), shown(found));
}

}  // namespace lockstep::train
