// A checkpoint folder's entries: names by step, removal by rename first, and the search for the newest intact one;
// damaged checkpoints are renamed to .damaged, and only after an intact one is found. best.json names the best of
// several. In a save all ranks write their parts, then rank 0 renames the folder to its place.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/state/checkpoint_folder.h>

#include <ATen/core/Tensor.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_", kSuffix = ".safetensors", kPartsSuffix = ".sharded";
// Folders whose parts are not all written yet, or partly removed.
constexpr std::string_view kSaving = ".sharded.saving", kRemoved = ".sharded.removed";

std::optional<std::int64_t> step_of(const fs::path& file) {
  std::string name = file.filename().string();
  const auto suffix = name.ends_with(kPartsSuffix) ? kPartsSuffix : kSuffix;
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix)) return std::nullopt;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - suffix.size());
  const auto step = parse_integer(name);
  return step && *step >= 0 ? step : std::nullopt;
}

bool is_in_parts(const fs::path& path) {
  std::error_code failed;
  return path.extension() == kPartsSuffix && fs::is_directory(fs::symlink_status(path, failed));
}

// A description of an entry that is no checkpoint but has the name of one; empty: it is a file, or a folder of parts.
std::string why_none(const fs::path& path) {
  if (is_in_parts(path)) return "";
  std::error_code failed;
  const bool is_link = fs::is_symlink(fs::symlink_status(path, failed));
  const auto status = fs::status(path, failed);
  if (path.extension() == kPartsSuffix && fs::exists(status)) return "it is not a folder";
  if (fs::is_regular_file(status)) return "";
  if (fs::is_directory(status)) return "it is a folder, not a file";
  if (fs::exists(status)) return "it is not a regular file";
  return is_link ? "it is a link to nothing" : "it does not exist any more";
}

constexpr const char* kNote = "best.json";

struct Damaged {
  fs::path file;
  std::string why;
};

// An existing damaged checkpoint of the same step is kept, too.
fs::path free_name(const fs::path& file) {
  std::error_code unknown;
  auto aside = file;
  aside += ".damaged";
  for (int number = 2; fs::symlink_status(aside, unknown).type() != fs::file_type::not_found; ++number) {
    aside = file;
    aside += fmt::format(".damaged.{}", number);
  }
  return aside;
}

std::string set_aside(const Damaged& damaged) {
  const auto aside = free_name(damaged.file);
  std::error_code failed;
  fs::rename(damaged.file, aside, failed);
  if (failed) {
    fail(ErrorKind::io, "checkpoint", "cannot rename the damaged {} to {}: {}", damaged.file.string(), aside.string(),
         failed.message());
  }
  return fmt::format("skipped the damaged checkpoint {} (now {}): {}", damaged.file.string(), aside.filename().string(),
                     damaged.why);
}

// A folder is renamed first: a killed removal must not leave a folder that looks like a damaged checkpoint.
void remove_checkpoint(fs::path path) {
  std::error_code failed;
  if (is_in_parts(path)) {
    auto aside = path.parent_path() / (path.stem().string() + std::string(kRemoved));
    fs::remove_all(aside, failed);  // left by a killed removal
    fs::rename(path, aside, failed);
    if (!failed) path = std::move(aside);
  } else if (fs::is_directory(fs::symlink_status(path, failed))) {
    return;  // not a checkpoint of a run
  }
  if (!failed) fs::remove_all(path, failed);
  if (failed) fail(ErrorKind::io, "checkpoint", "cannot remove the old {}: {}", path.string(), failed.message());
}

namespace fs = std::filesystem;

[[noreturn]] void fail_with(std::string_view what, const fs::path& path, int error) {
  fail(ErrorKind::io, "checkpoint", "cannot {} {}: {}", what, path.string(), std::generic_category().message(error));
}

void write_entries_to_disk(const fs::path& folder) {
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) fail_with("open", folder, errno);
  if (::fsync(opened.get()) != 0) fail_with("write to disk", folder, errno);
}

/// Removes all but the newest `keep`. Error(io).
void remove_all_but(const fs::path& folder, std::int64_t keep) {
  const auto files = list_checkpoints(folder);
  for (std::size_t i = static_cast<std::size_t>(keep); i < files.size(); ++i) remove_checkpoint(files[i].path);
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

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("{}{:08}{}", kPrefix, step, kPartsSuffix);
}

fs::path unfinished_path(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("{}{:08}{}", kPrefix, step, kSaving);
}

void remove_remains(const fs::path& folder) noexcept {
  std::error_code failed;
  std::vector<fs::path> remains;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const auto name = entry->path().filename().string();
    if (name.starts_with(kPrefix) && (name.ends_with(kSaving) || name.ends_with(kRemoved))) {
      remains.push_back(entry->path());
    }
  }
  for (const auto& path : remains) fs::remove_all(path, failed);
}

std::optional<FoundCheckpoint> find_newest_intact(const fs::path& folder) {
  const auto files = list_checkpoints(folder);
  std::vector<Damaged> damaged;
  for (const auto& file : files) {
    if (auto why = why_none(file.path); !why.empty()) {
      damaged.push_back({file.path, std::move(why)});
      continue;
    }
    try {
      FoundCheckpoint found{open_checkpoint(file.path), {}};
      require_intact(found.saved);
      for (const auto& newer : damaged) found.remarks.push_back(set_aside(newer));
      return found;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      damaged.push_back({file.path, error.what()});
    }
  }
  if (files.empty()) return std::nullopt;
  fail(ErrorKind::data, "checkpoint",
       "none of the {} checkpoints in {} is intact; move them away to start from the beginning. The newest: {}",
       files.size(), folder.string(), damaged.front().why);
}

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

CheckpointWriter::CheckpointWriter(const WriterOptions& options, fs::path folder, const Group& group)
    : options_(options), folder_(std::move(folder)), group_(group) {}

void CheckpointWriter::save(std::int64_t step, const std::string& record, SavedState tensors) {
  finish();
  step_ = step;
  auto place = checkpoint_path(folder_, step_);
  if (group_.rank() == 0) {  // before any rank writes
    remove_remains(folder_);
    std::error_code unknown;
    if (!fs::exists(place, unknown)) place = unfinished_path(folder_, step_);
  }
  save_ = std::make_unique<ShardedSave>(place, std::move(tensors),
                                        SavedMetadata{{kVersionKey, kVersion}, {kRecordKey, record}},
                                        options_.async ? SavedValues::copied : SavedValues::in_place);
  writing_ = std::async(options_.async ? std::launch::async : std::launch::deferred,
                        [writes = save_.get()] { writes->write(); });
  if (!options_.async) finish();
}

bool CheckpointWriter::is_writing() const {
  return writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
}

void CheckpointWriter::finish() {
  const auto save = std::move(save_);
  if (writing_.valid()) writing_.get();
  if (save) save->commit([this] { publish(step_); });
}

void CheckpointWriter::finish_run() {
  finish();
  if (group_.rank() != 0) return;
  try {
    remove_remains(folder_);
    remove_all_but(folder_, options_.keep);
  } catch (const Error& error) {
    log_warning("{}", error.what());
  }
}

void CheckpointWriter::publish(std::int64_t step) const {
  const auto place = checkpoint_path(folder_, step), parts = unfinished_path(folder_, step);
  std::error_code failed;
  if (!fs::exists(place, failed)) {
    fs::rename(parts, place, failed);
    if (failed) fail_with("make the checkpoint", place, failed.value());
    write_entries_to_disk(folder_);
  }
  remove_all_but(folder_, options_.keep);
}

}  // namespace lockstep::state
