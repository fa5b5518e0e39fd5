#include <lockstep/train/callbacks/used.h>

#include <lockstep/base/error.h>
#include <lockstep/base/home_paths.h>
#include <lockstep/base/nearest.h>
#include <lockstep/train/part_kinds.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace lockstep::train {

Callbacks make_used_callbacks(const CallbacksConfig& config) {
  Callbacks callbacks;
  const auto& parts = parts_or_shipped(config.parts).callbacks;
  std::size_t index = 0;
  for (const auto& item : read_named_list(config.use, "callbacks.use")) {
    const auto* part = find_part(parts, item.name);
    const auto path = fmt::format("callbacks.use[{}]", index++);
    if (part == nullptr) {
      const auto names = names_of(parts);
      throw Error(ErrorKind::config, "config",
                  fmt::format("{}: there is no callback '{}'{}; known are {}", path, item.name,
                              did_you_mean(item.name, names), fmt::join(names, ", ")),
                  item.position);
    }
    auto options = part->options;
    read_options(item.arguments, fmt::format("{}.{}", path, item.name), options);
    if (auto callback = part->make(options)) callbacks.push_back(std::move(callback));
  }
  return callbacks;
}

}  // namespace lockstep::train
