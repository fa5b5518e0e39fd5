// Callbacks from the items of callbacks.use (part, options, check, and the refusal of a second writer to a path), and
// their calls, sorted by priority, with unique names: points, state for checkpoints, error texts.
#include <lockstep/base/config_reader.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/callbacks/run_callbacks.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/resources/work_dir.h>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <typeinfo>
#include <utility>

namespace lockstep::train {
namespace {

/// One spelling of each path, whether or not it exists.
std::filesystem::path whole(const std::filesystem::path& path) {
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(path, failed);
  auto canonical = std::filesystem::weakly_canonical(absolute, failed);
  auto found = failed ? absolute.lexically_normal() : std::move(canonical);
  return found.has_filename() ? found : found.parent_path();  // "best/" is "best"
}

[[noreturn]] void fail_at(const FilePosition& position, std::string text) {
  throw Error(ErrorKind::config, "config", std::move(text), position);
}

/// nullptr if the part makes no callback.
std::unique_ptr<Callback> made_of(const NamedArguments& item, const std::string& path, const ResolvedRun& config) {
  const auto& parts = config.parts->callbacks;
  const auto* part = find_part(parts, item.name);
  if (part == nullptr) {
    const auto names = names_of(parts);
    fail_at(item.position,
            fmt::format("{}: there is no callback '{}'{}", path, item.name,
                        did_you_mean(item.name, names, fmt::format("known are {}", fmt::join(names, ", ")))));
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

/// The paths that callbacks write to: no two parts of a run may write to the same one.
class OwnPaths {
 public:
  /// Starts with the files and folders of the run itself.
  explicit OwnPaths(const ResolvedRun& config) : work_dir_(config.system.work_dir) {
    for (const auto& path : paths_of_run(config)) owners_.emplace(whole(path), "the run itself");
  }

  /// Adds the paths of a callback. Error(config) at `position`, naming both owners and the option that would help,
  /// where a path is already in use.
  void add(const Callback& callback, const FilePosition& position) {
    for (const auto& own : callback.own_paths()) {
      const auto [owner, is_free] = owners_.emplace(whole(work_dir_ / own.path), callback.name());
      if (is_free) continue;
      const auto fix =
          own.option.empty() ? "remove one of them" : fmt::format("give {} another `{}`", callback.name(), own.option);
      throw Error(ErrorKind::config, "callbacks.use",
                  fmt::format("{} would write to {}, where {} writes; {}", callback.name(), owner->first.string(),
                              owner->second == callback.name() ? "another " + owner->second : owner->second, fix),
                  position);
    }
  }

 private:
  std::filesystem::path work_dir_;
  std::map<std::filesystem::path, std::string> owners_;
};

}  // namespace

Callbacks make_used_callbacks(const ResolvedRun& config, Callbacks of_program) {
  auto callbacks = std::move(of_program);
  std::erase(callbacks, nullptr);
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

std::string Callback::name() const { return c10::demangle(typeid(*this).name()); }

CallbackState Callback::state() const { return {}; }

CallbackPoints::CallbackPoints(Callbacks callbacks) {
  std::ranges::stable_sort(callbacks, {}, [](const auto& each) { return each->priority(); });
  std::map<std::string, int> seen;
  for (auto& callback : callbacks) {
    auto name = callback->name();
    std::ranges::replace(name, '.', '_');  // names of tensors begin with it
    const int number = ++seen[name];
    if (number > 1) name += fmt::format("#{}", number);
    callbacks_.push_back({std::move(name), std::move(callback)});
  }
}

void CallbackPoints::rethrow(const std::string& name, std::string_view point) {
  const auto words = [&](std::string_view reason) { return fmt::format("callback {}, {}: {}", name, point, reason); };
  try {
    throw;
  } catch (const Error& error) {
    if (is_loss(error)) throw;
    throw Error(error.kind(), error.where(), words(error.message()), error.position());
  } catch (const c10::Error& error) {
    throw std::runtime_error(words(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw std::runtime_error(words(error.what()));
  } catch (...) {
    throw std::runtime_error(words("something was thrown that is not a std::exception"));
  }
}

CallbackState CallbackPoints::state_of(const Named& each) {
  try {
    return each.callback->state();
  } catch (...) {
    rethrow(each.name, "state");
  }
}

std::map<std::string, std::string, std::less<>> CallbackPoints::texts() const {
  std::map<std::string, std::string, std::less<>> texts;
  for (const auto& each : callbacks_) {
    if (auto text = state_of(each).text; !text.empty()) texts.emplace(each.name, std::move(text));
  }
  return texts;
}

NamedTensors CallbackPoints::tensors() const {
  NamedTensors tensors;
  for (const auto& each : callbacks_) add_part(tensors, each.name, state_of(each).tensors);
  return tensors;
}

void CallbackPoints::restore(const std::map<std::string, std::string, std::less<>>& texts,
                             const NamedTensors& tensors) const {
  for (const auto& [name, callback] : callbacks_) {
    const auto text = texts.find(name);
    CallbackState state{text == texts.end() ? std::string() : text->second, part_of(tensors, name)};
    if (state.text.empty() && state.tensors.empty()) continue;
    try {
      callback->restore(state);
    } catch (...) {
      rethrow(name, "restore");
    }
  }
}

}  // namespace lockstep::train
