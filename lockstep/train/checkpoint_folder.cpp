#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/train/checkpoint_folder.h>

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <system_error>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_", kSuffix = ".safetensors";

std::optional<std::int64_t> step_of(const fs::path& file) {
  std::string name = file.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  const auto step = parse_integer(name);
  return step && *step >= 0 ? step : std::nullopt;
}

struct Damaged {
  fs::path file;
  std::string why;
};

std::string set_aside(const Damaged& damaged) {
  auto aside = damaged.file;
  aside += ".damaged";
  std::error_code failed;
  fs::rename(damaged.file, aside, failed);
  if (failed) {
    fail(ErrorKind::io, "checkpoint", "cannot rename the damaged {} to {}: {}", damaged.file.string(), aside.string(),
         failed.message());
  }
  return fmt::format("skipped the damaged checkpoint {} (now {}): {}", damaged.file.string(), aside.filename().string(),
                     damaged.why);
}

}  // namespace

std::vector<CheckpointFile> list_checkpoints(const fs::path& folder) {
  std::vector<CheckpointFile> files;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (const auto step = step_of(entry->path())) files.push_back({*step, entry->path()});
  }
  if (failed && failed != std::errc::no_such_file_or_directory) {
    fail(ErrorKind::io, "checkpoint", "cannot list {}: {}", folder.string(), failed.message());
  }
  std::ranges::sort(files, std::ranges::greater(), &CheckpointFile::step);
  return files;
}

fs::path checkpoint_file(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("{}{:08}{}", kPrefix, step, kSuffix);
}

void save_into_folder(const fs::path& folder, const Checkpoint& checkpoint, std::int64_t keep) {
  save_checkpoint(checkpoint_file(folder, checkpoint.state.step), checkpoint);
  const auto files = list_checkpoints(folder);
  for (std::size_t i = static_cast<std::size_t>(keep); i < files.size(); ++i) {
    std::error_code failed;
    fs::remove(files[i].file, failed);
    if (failed) {
      fail(ErrorKind::io, "checkpoint", "cannot remove the old {}: {}", files[i].file.string(), failed.message());
    }
  }
}

std::optional<FoundCheckpoint> find_newest_intact(const fs::path& folder) {
  const auto files = list_checkpoints(folder);
  std::vector<Damaged> damaged;
  for (const auto& file : files) {
    try {
      FoundCheckpoint found{file.file, load_checkpoint(file.file), {}};
      for (const auto& newer : damaged) found.skipped.push_back(set_aside(newer));
      return found;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      damaged.push_back({file.file, error.what()});
    }
  }
  if (files.empty()) return std::nullopt;
  fail(ErrorKind::data, "checkpoint",
       "none of the {} checkpoints in {} is intact; move them away to start anew. The newest: {}", files.size(),
       folder.string(), damaged.front().why);
}

}  // namespace lockstep::train
