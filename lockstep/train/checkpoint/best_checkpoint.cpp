// best.json: the name, metric and value of the best checkpoint in a folder, written and read.
#include <lockstep/train/checkpoint/best_checkpoint.h>

#include <lockstep/base/atomic_file.h>
#include <lockstep/base/file_text.h>

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace lockstep::train {
namespace {

constexpr const char* kNote = "best.json";

}  // namespace

void note_best(const std::filesystem::path& folder, const BestCheckpoint& best) {
  // The value as text, because JSON has no NaN.
  const nlohmann::ordered_json json{
      {"checkpoint", best.name}, {"metric", best.metric}, {"value", fmt::format("{}", best.value)}};
  write_file_atomically(folder / kNote, json.dump(2) + "\n");
}

std::optional<BestCheckpoint> noted_best(const std::filesystem::path& folder) {
  const auto text = read_file(folder / kNote);
  if (!text) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  for (const auto* key : {"checkpoint", "metric", "value"}) {
    if (!json.contains(key) || !json[key].is_string()) return std::nullopt;
  }
  return BestCheckpoint{.name = json["checkpoint"],
                        .metric = json["metric"],
                        .value = std::strtod(json["value"].get_ref<const std::string&>().c_str(), nullptr)};
}

}  // namespace lockstep::train
