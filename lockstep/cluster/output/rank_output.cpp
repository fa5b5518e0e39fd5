// Rules from --redirects, --tee and filters to the outlets of one rank, and the prefix of its lines; and log folders of
// a launch: torchrun's layout, or a locked temporary folder; abandoned ones are removed.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/cluster/flag_values.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/rank_start.h>

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>
#include <optional>
#include <system_error>

namespace lockstep::cluster {
namespace {

std::optional<Streams> parse_streams(std::string_view text) {
  if (text == "0") return Streams{};
  if (text == "1") return Streams{.out = true, .err = false};
  if (text == "2") return Streams{.out = false, .err = true};
  if (text == "3") return Streams{.out = true, .err = true};
  return std::nullopt;
}

Outlet outlet(bool shown, bool redirected, bool teed, const std::filesystem::path& file) {
  Outlet one;
  one.console = shown && (teed || !redirected);
  if (redirected || teed) one.file = file;
  return one;
}

constexpr const char* kTemporary = "lockstep-run";

void make_folders(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(ErrorKind::io, "launch", "cannot make the folder {}: {}", path.string(), error.message());
}

/// <parent>/<name>_<random>.
std::filesystem::path make_own_folder(const std::filesystem::path& parent, std::string_view name) {
  std::string path = (parent / fmt::format("{}_XXXXXX", name)).string();
  if (::mkdtemp(path.data()) == nullptr) {
    fail(ErrorKind::io, "launch", "cannot make a folder for logs in {}: {}", parent.string(), std::strerror(errno));
  }
  return path;
}

std::filesystem::path make_log_dir(const std::filesystem::path& wanted) {
  if (wanted.empty()) return TemporaryFolder("lockstep-logs").release();
  std::error_code ignored;
  if (std::filesystem::exists(wanted, ignored) && !std::filesystem::is_directory(wanted, ignored)) {
    fail(ErrorKind::invalid_argument, "run", "--log_dir {} is a file; give a folder, which is made where it is missing",
         wanted.string());
  }
  make_folders(wanted);
  return wanted;
}

/// Locks a folder while its owner lives; empty where it cannot be locked.
UniqueFd lock_folder(const std::filesystem::path& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) folder.reset();
  return folder;
}

/// The time of its last change, if it is a temporary folder of this user's launchers.
std::optional<std::time_t> time_of_folder(const std::filesystem::path& path) {
  struct stat info {};
  if (!path.filename().string().starts_with(kTemporary) || ::lstat(path.c_str(), &info) != 0) return std::nullopt;
  const bool mine = S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
  return mine ? std::optional(info.st_mtime) : std::nullopt;
}

bool is_abandoned(const std::filesystem::directory_entry& entry) {
  constexpr std::time_t kYoung = 60;  // younger than this, its owner may still be about to lock it
  const auto changed = time_of_folder(entry.path());
  return changed && *changed + kYoung < std::time(nullptr) && lock_folder(entry.path());
}

/// Removes the folders of killed launchers.
void remove_abandoned(const std::filesystem::path& parent) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(parent, ignored), end; !ignored && entry != end;) {
    const auto one = *entry;
    entry.increment(ignored);
    std::error_code failed;
    if (is_abandoned(one)) std::filesystem::remove_all(one.path(), failed);
  }
}

}  // namespace

std::vector<std::filesystem::path> running_log_folders() {
  std::vector<std::filesystem::path> folders;
  std::error_code none;
  const auto parent = std::filesystem::temp_directory_path(none);
  for (std::filesystem::directory_iterator entry(parent, none), end; !none && entry != end; entry.increment(none)) {
    if (time_of_folder(entry->path()) && !lock_folder(entry->path())) folders.push_back(entry->path());
  }
  std::ranges::sort(folders);
  return folders;
}

Streams StreamChoice::of(int local_rank) const {
  const auto own = by_rank.find(local_rank);
  return own != by_rank.end() ? own->second : rest;
}

bool StreamChoice::any() const {
  const auto chosen = [](const Streams& streams) { return streams.out || streams.err; };
  return chosen(rest) ||
         std::any_of(by_rank.begin(), by_rank.end(), [&](const auto& own) { return chosen(own.second); });
}

StreamChoice parse_stream_choice(std::string_view flag, std::string_view text) {
  if (const auto all = parse_streams(text)) return {*all, {}};
  StreamChoice choice;
  for (const std::string_view part : split_at_commas(text)) {
    const auto colon = part.find(':');
    const auto rank = parse_integer(part.substr(0, colon));
    const auto streams = colon == std::string_view::npos ? std::nullopt : parse_streams(part.substr(colon + 1));
    if (!rank || *rank < 0 || *rank > std::numeric_limits<int>::max() || !streams) {
      fail(
          ErrorKind::invalid_argument, "run",
          "{} '{}' must be 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a value for each of some local ranks, "
          "as in 0:3,1:1; '{}' is neither",
          flag, cut_text(text), cut_text(part));
    }
    if (!choice.by_rank.emplace(static_cast<int>(*rank), *streams).second) {
      fail(ErrorKind::invalid_argument, "run", "{} '{}' names local rank {} twice", flag, cut_text(text), *rank);
    }
  }
  return choice;
}

RankOutlets outlets_of(const OutputOptions& options, int local_rank, const std::filesystem::path& folder) {
  const bool shown = options.shown.empty() || options.shown.contains(local_rank);
  const Streams redirected = options.redirects.of(local_rank);
  const Streams teed = options.tee.of(local_rank);
  const auto in_folder = [&](const char* name) { return folder.empty() ? folder : folder / name; };
  RankOutlets outlets = {outlet(shown, redirected.out, teed.out, in_folder("stdout.log")),
                         outlet(shown, redirected.err, teed.err, in_folder("stderr.log"))};
  const auto filter = [&](const std::vector<std::string>& words, const char* name, Outlet& one) {
    if (words.empty() || folder.empty()) return;
    one.words = words;
    one.filtered = folder.parent_path() / name;
  };
  filter(options.out_filters, "filtered_stdout.log", outlets.out);
  filter(options.err_filters, "filtered_stderr.log", outlets.err);
  return outlets;
}

std::string LinePrefix::of(int rank, int local_rank) const {
  if (!shown) return "";
  if (!format.empty()) {
    return replace_macros(format, {{"role_name", role},
                                   {"rank", std::to_string(rank)},
                                   {"local_rank", std::to_string(local_rank)},
                                   {"host", host_name().value_or("localhost")}});
  }
  return role == "default" ? fmt::format("[rank {}] ", rank) : fmt::format("[{} rank {}] ", role, rank);
}

LogFolder::LogFolder(const OutputOptions& options, std::string_view run_id) {
  if (options.log_dir == "/dev/null") return;
  if (options.log_dir.empty() && !options.wants_files()) {
    path_ = temporary_.emplace(kTemporary).path();
    lock_ = lock_folder(path_);
    remove_abandoned(path_.parent_path());
    return;
  }
  std::string name(run_id);
  std::replace(name.begin(), name.end(), '/', '_');
  path_ = make_own_folder(std::filesystem::absolute(make_log_dir(options.log_dir)), name);
}

std::filesystem::path LogFolder::attempt(int restart_count) const {
  return path_.empty() ? path_ : path_ / fmt::format("attempt_{}", restart_count);
}

void make_empty_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) fail(ErrorKind::io, "launch", "cannot empty the folder {}: {}", path.string(), error.message());
  make_folders(path);
}

}  // namespace lockstep::cluster
