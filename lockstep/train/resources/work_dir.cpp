// The list of paths that a run writes, and a probe that a folder can be made and is writable.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/resources/work_dir.h>

#include <cerrno>
#include <system_error>

namespace lockstep::train {

namespace {

/// Whether another path would help: not for a disk that is full or fails.
bool is_of_place(const std::error_code& error) {
  const auto code = error.default_error_condition();
  return code != std::errc::no_space_on_device && code != std::errc::io_error && error.value() != EDQUOT;
}

/// A dangling link on the path to the folder; empty: none.
std::filesystem::path dangling_link_in(const std::filesystem::path& folder) {
  std::error_code unknown;
  std::filesystem::path way;
  for (const auto& part : folder) {
    way /= part;
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(way, unknown)) &&
        !std::filesystem::exists(way, unknown)) {
      return way;
    }
  }
  return {};
}

}  // namespace

void require_writable_folder(const std::filesystem::path& folder, std::string_view key) {
  std::error_code failed;
  if (const auto link = dangling_link_in(folder); !link.empty()) {
    fail(ErrorKind::config, key,
         "cannot make the folder {}: {} is a link to {}, which is not there; make that folder, "
         "or choose another",
         folder.string(), link.string(), std::filesystem::read_symlink(link, failed).string());
  }
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    fail(is_of_place(failed) ? ErrorKind::config : ErrorKind::io, key, "cannot make the folder {}: {}; choose another",
         folder.string(), failed.message());
  }
  try {
    // Never committed: the probe only tests whether the folder is writable.
    AtomicFile probe(folder / "probe");
    probe.write("1");
  } catch (const Error& error) {
    fail(ErrorKind::io, key, "cannot write into the folder {}; choose another: {}", folder.string(), error.message());
  }
}

std::vector<std::filesystem::path> paths_of_run(const ResolvedRun& config) {
  const std::filesystem::path folder = config.system.work_dir;
  std::vector<std::filesystem::path> paths{checkpoint_folder_of(config)};
  for (const auto* name : {"config.yaml", "metrics.jsonl", "loss.svg", "result.json", "model.safetensors", "model.pt",
                           "plan.json", "lock", "log", "log/rank.0", "pictures", kClassesFile, kTableFile}) {
    paths.push_back(folder / name);
  }
  if (config.callbacks.tensorboard) paths.push_back(folder / "tensorboard");
  for (const auto& file : {config.parallel.plan, config.parallel.strategy_ckpt_save_file}) {
    if (file) paths.emplace_back(*file);
  }
  return paths;
}

void WorkDir::make() const { require_writable_folder(path_ / "log", "system.work_dir"); }

std::filesystem::path WorkDir::log(int rank) const { return path_ / "log" / fmt::format("rank.{}", rank); }

}  // namespace lockstep::train
