// The extraction of a model's weights, or of their average by the callback ema, from a checkpoint on disk.
#include <lockstep/base/error.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/state/checkpoint_weights.h>
#include <lockstep/state/saved_checkpoint.h>
#include <lockstep/state/state_source.h>

#include <ATen/core/Tensor.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace lockstep::state {
namespace {

constexpr std::size_t kMostListed = 10;

/// The only checkpoint in the folder, the best of several if best.json names it, or the path itself.
std::filesystem::path checkpoint_in(const std::filesystem::path& folder, std::vector<std::string>& remarks) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(folder, unknown)) return folder;
  auto found = list_checkpoints(folder);
  if (found.size() == 1) return found.front().path;
  if (found.empty()) return folder;  // the path is a checkpoint itself, or there is none
  if (const auto best = noted_best(folder)) {
    for (const auto& each : found) {
      if (each.path.filename() != best->name) continue;
      remarks.push_back(fmt::format("of the {} checkpoints in {}, {} is the best by {}, {:.6g}", found.size(),
                                    folder.string(), best->name, best->metric, best->value));
      return each.path;
    }
  }
  std::vector<std::string> names;
  for (const auto& each : found) names.push_back(each.path.filename().string());
  const auto more = names.size() > kMostListed ? ", ..." : "";
  names.resize(std::min(names.size(), kMostListed));
  throw Error(ErrorKind::data, "load_weights",
              fmt::format("there are {} checkpoints in this folder; give one of them: {}{}", found.size(),
                          fmt::join(names, ", "), more),
              {folder.string(), 0});
}

/// Replaces the parameters that are averaged.
void put_average(StateSource& source, const std::filesystem::path& path, NamedTensors& weights) {
  const auto part = fmt::format("{}.{}", kCallbacksPart, kAverageCallback);
  auto average = source.read_part(part);
  if (average.empty()) {
    throw Error(ErrorKind::data, "load_weights",
                "this checkpoint has no average of the weights: its run did not have ema in callbacks.use; take the "
                "trained ones, without model.weights_average (--average)",
                {path.string(), 0});
  }
  for (auto& [name, tensor] : average) weights.insert_or_assign(name, std::move(tensor));
}

}  // namespace

NamedTensors load_checkpoint_weights(const std::filesystem::path& path, bool average,
                                     std::vector<std::string>& remarks) {
  const auto saved = open_checkpoint(checkpoint_in(path, remarks));
  if (saved.is_file) require_intact(saved);
  remarks.push_back(fmt::format("the weights are {} of the checkpoint {} after step {}",
                                average ? "the average (ema)" : "those", saved.path.string(), saved.step));
  StateSource source(saved.reader(Checksums::compare));
  auto weights = source.read_part("model");
  if (average) put_average(source, saved.path, weights);
  return weights;
}

}  // namespace lockstep::state
