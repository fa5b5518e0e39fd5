// Checkpoint saves: all ranks write their parts, then rank 0 renames the folder to its place and removes old ones.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/state/checkpoint_writer.h>

#include <fcntl.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

namespace lockstep::state {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_with(std::string_view what, const fs::path& path, int error) {
  fail(ErrorKind::io, "checkpoint", "cannot {} {}: {}", what, path.string(), std::generic_category().message(error));
}

void write_entries_to_disk(const fs::path& folder) {
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) fail_with("open", folder, errno);
  if (::fsync(opened.get()) != 0) fail_with("write to disk", folder, errno);
}

}  // namespace

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
