// A map from canonical paths to the part of a run that writes there, for the refusal of a second writer.
#include <lockstep/train/callbacks/own_paths.h>

#include <lockstep/train/resources/work_dir.h>

#include <fmt/format.h>

#include <system_error>

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

}  // namespace

OwnPaths::OwnPaths(const RunConfig& config) : work_dir_(config.system.work_dir) {
  for (const auto& path : paths_of_run(config)) owners_.emplace(whole(path), "the run itself");
}

void OwnPaths::add(const Callback& callback, const FilePosition& position) {
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

}  // namespace lockstep::train
