// The construction of callbacks from the items of callbacks.use: part, options, check, then conflicts of paths.
#include <lockstep/train/callbacks/used.h>

#include <lockstep/base/error.h>
#include <lockstep/base/home_paths.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/train/callbacks/own_paths.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/keys/refused_words.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

namespace lockstep::train {
namespace {

[[noreturn]] void fail_at(const FilePosition& position, std::string text) {
  throw Error(ErrorKind::config, "config", std::move(text), position);
}

/// nullptr if the part makes no callback.
std::unique_ptr<Callback> made_of(const NamedArguments& item, const std::string& path, const RunConfig& config) {
  const auto& parts = parts_or_shipped(config.callbacks.parts).callbacks;
  const auto* part = find_part(parts, item.name);
  if (part == nullptr) {
    const auto names = names_of(parts);
    fail_at(item.position, fmt::format("{}: there is no callback '{}'{}; known are {}", path, item.name,
                                       did_you_mean(item.name, names), fmt::join(names, ", ")));
  }
  auto options = part->options;
  read_options(item.arguments, fmt::format("{}.{}", path, item.name), options, refused_words());
  try {
    auto callback = part->make(options);
    if (callback) callback->check(config);
    return callback;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config || !error.position().file.empty()) throw;
    throw Error(error.kind(), error.where(), error.message(), item.position);
  }
}

}  // namespace

Callbacks make_used_callbacks(const RunConfig& config, Callbacks of_program) {
  auto callbacks = std::move(of_program);
  OwnPaths paths(config);
  for (const auto& callback : callbacks) {
    callback->check(config);
    paths.add(*callback, {});
  }
  std::set<std::string> seen;
  std::size_t index = 0;
  for (const auto& item : read_named_list(config.callbacks.use, "callbacks.use")) {
    const auto path = fmt::format("callbacks.use[{}]", index++);
    auto callback = made_of(item, path, config);
    const auto keys = item.arguments.entries.empty() ? std::string() : print_yaml_flow(item.arguments);
    if (!seen.insert(item.name + " " + keys).second) {
      fail_at(item.position, fmt::format("{}: {} is given twice with the same keys; remove one", path, item.name));
    }
    if (!callback) continue;
    paths.add(*callback, item.position);
    callbacks.push_back(std::move(callback));
  }
  return callbacks;
}

}  // namespace lockstep::train
