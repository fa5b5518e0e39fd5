// Shard files by save number: the next number, a probe file for other hosts, removal of older saves after the index.
#include <lockstep/state/sharded/shard_folder.h>

#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/parse.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <random>
#include <system_error>

namespace lockstep::state {
namespace {

/// 7 for save_00000007.rank_00003.safetensors.
std::optional<std::int64_t> save_number_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  constexpr std::string_view kBegin = "save_";
  const auto middle = name.find(".rank_");
  if (!name.starts_with(kBegin) || middle == std::string::npos || !name.ends_with(".safetensors")) return std::nullopt;
  const auto number = parse_integer(name.substr(kBegin.size(), middle - kBegin.size()));
  return number && *number >= 0 ? number : std::nullopt;
}

template <typename Visit>
void for_each_shard_file(const std::filesystem::path& folder, const Visit& visit) {
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (const auto number = save_number_of(entry->path())) visit(entry->path(), *number);
  }
  if (failed) fail(ErrorKind::io, "sharded checkpoint", "cannot list {}: {}", folder.string(), failed.message());
}

}  // namespace

std::int64_t next_save_number(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) fail(ErrorKind::io, "sharded checkpoint", "cannot make {}: {}", folder.string(), failed.message());
  std::int64_t last = 0;
  for_each_shard_file(folder, [&](const auto&, std::int64_t number) { last = std::max(last, number); });
  return last + 1;
}

std::filesystem::path put_mark(const std::filesystem::path& folder, std::int64_t save) {
  std::random_device random;
  // The name of a shard file, so that it is removed together with the files of its save.
  auto mark = folder / fmt::format("save_{:08}.rank_{:08x}{:08x}.safetensors", save, random(), random());
  if (!std::ofstream(mark)) {
    fail(ErrorKind::io, "sharded checkpoint", "cannot write to {}: {}", folder.string(),
         std::generic_category().message(errno));
  }
  return mark;
}

void finish_save(const std::filesystem::path& folder, const ShardedIndex& index) {
  write_file_atomically(folder / kIndexName, format_index(index));
  // The save is complete; files that cannot be removed only use disk space.
  try {
    for_each_shard_file(folder, [&](const std::filesystem::path& file, std::int64_t number) {
      std::error_code failed;
      if (number != index.save) std::filesystem::remove(file, failed);
    });
    remove_abandoned_temporaries(folder);
  } catch (const Error& error) {
    log_warning("files of earlier saves stay in {}: {}", folder.string(), error.what());
  }
}

void take_back(const std::filesystem::path& folder, std::int64_t save, const std::string& file) noexcept {
  try {
    if (read_index(folder).save == save) return;
  } catch (const std::exception&) {
    // If there is no readable index, no index names the file.
  }
  std::error_code failed;
  std::filesystem::remove(folder / file, failed);
}

}  // namespace lockstep::state
