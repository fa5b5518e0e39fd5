#include <lockstep/base/error.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/divided_checkpoint.h>
#include <lockstep/train/sharded/all_or_none.h>
#include <lockstep/train/sharded/checkpoint.h>
#include <lockstep/train/sharded/rewrite.h>
#include <lockstep/train/sharded/shard_reader.h>

#include <fcntl.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersionKey = "lockstep.checkpoint";
constexpr const char* kVersion = "1";

/// Where the parts lie until all are on disk.
fs::path unfinished(fs::path folder) { return folder += ".saving"; }

[[noreturn]] void fail_with(std::string_view what, const fs::path& path, int error) {
  fail(ErrorKind::io, "checkpoint", "cannot {} {}: {}", what, path.string(), std::generic_category().message(error));
}

void write_entries_to_disk(const fs::path& folder) {
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) fail_with("open", folder, errno);
  if (::fsync(opened.get()) != 0) fail_with("write to disk", folder, errno);
}

/// Makes `folder` of the parts. They are looked for first: ranks on other hosts may have written to disks of their own.
void publish(const fs::path& parts, const fs::path& folder) {
  const auto problems = problems_of_shards(parts, read_index(parts), /*only_there=*/true);
  if (!problems.empty()) {
    fail(ErrorKind::io, "checkpoint",
         "rank 0 does not see what another rank wrote to {}: {}. Every rank writes what it holds, so checkpoint.folder "
         "(or system.work_dir) must be on a file system that all hosts share",
         parts.string(), problems.front());
  }
  if (parts == folder) return;
  std::error_code failed;
  fs::rename(parts, folder, failed);
  if (failed) fail_with("make the checkpoint", folder, failed.value());
  write_entries_to_disk(folder.parent_path());
}

/// Rank 0 decides where the parts go, for all.
fs::path place_of_parts(const fs::path& folder, const Group& group) {
  std::string place;
  if (group.rank() == 0) {
    std::error_code unknown;
    place = fs::exists(folder, unknown) ? folder.string() : unfinished(folder).string();
  }
  return share_text(place, group);
}

}  // namespace

DividedSave::DividedSave(fs::path folder, const RunState& state, const NamedTensors& tensors, const Group& group,
                         SavedValues values)
    : group_(group),
      folder_(std::move(folder)),
      place_(place_of_parts(folder_, group)),
      parts_(place_, tensors, {{kVersionKey, kVersion}, {kRunStateKey, to_json(state)}}, values) {}

void DividedSave::commit() {
  parts_.commit();
  all_or_none(&group_, problem_of([this] {
    if (group_.rank() == 0) publish(place_, folder_);
  }));
}

Checkpoint load_divided(const fs::path& folder) {
  ShardReader reader(folder, read_index(folder));
  const auto& metadata = reader.index().metadata;
  const auto version = metadata.find(kVersionKey);
  const auto state = metadata.find(kRunStateKey);
  if (version == metadata.end() || (version->second == kVersion && state == metadata.end())) {
    throw Error(ErrorKind::data, "checkpoint",
                "these are tensors that a program saved, not the checkpoint of a run: the state of the run is missing",
                {(folder / kIndexName).string(), 0});
  }
  if (version->second != kVersion) {
    throw Error(ErrorKind::unsupported, "checkpoint",
                fmt::format("its layout is version {}, this program reads {}", version->second, kVersion),
                {(folder / kIndexName).string(), 0});
  }
  Checkpoint checkpoint{parse_run_state(state->second), {}};
  for (const auto& [name, tensor] : reader.index().tensors) {
    checkpoint.tensors.emplace(name, reader.read(name, whole_box(tensor.shape)));
  }
  return checkpoint;
}

}  // namespace lockstep::train
