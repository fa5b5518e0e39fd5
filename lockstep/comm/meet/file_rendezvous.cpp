// The rendezvous in a file. Rank 0 starts a rendezvous in the file, under a random name. Every other rank writes its
// hello there, and accepts the rendezvous only when rank 0's reply holds this hello. So no rank can take the remains of
// an earlier job for a rendezvous:
//
//   current             the name of the rendezvous, by rank 0
//   NAME/hello/RANK     a random text, by each rank
//   NAME/met            the hellos of all ranks, "-" for a rank that is missing, by rank 0
//   NAME/left           the number of ranks that have left
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/meet/stores.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_read(const fs::path& path) {
  fail(ErrorKind::io, "connect", "cannot read the store file {}: {}", path.string(), std::strerror(errno));
}

/// A rank holds the lock while it writes, because it writes a record in several pieces. No descriptor: the file does
/// not exist, because the last rank of another job may remove it at any time.
UniqueFd open_locked(const fs::path& path, int mode, int operation) {
  UniqueFd fd(::open(path.c_str(), mode | O_CLOEXEC));
  if (!fd && errno != ENOENT) fail_to_read(path);
  while (fd && ::flock(fd.get(), operation) != 0 && errno == EINTR) {
  }
  return fd;
}

std::string read_all(const UniqueFd& fd, const fs::path& path) {
  struct stat info {};  // of the opened file, because the path may already be removed
  if (::fstat(fd.get(), &info) != 0) fail_to_read(path);
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t count = ::read(fd.get(), content.data() + size, content.size() - size);
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0) size += static_cast<std::size_t>(count);
  }
  content.resize(size);
  return content;
}

/// Takes one block, which follows its length in 4 bytes; nullopt when there is no complete one.
std::optional<std::string_view> take_block(std::string_view& rest) {
  std::uint32_t length = 0;
  if (rest.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, rest.data(), sizeof length);
  rest.remove_prefix(sizeof length);
  if (length > rest.size()) return std::nullopt;
  const auto block = rest.substr(0, length);
  rest.remove_prefix(length);
  return block;
}

/// Keys and values alternate; a later value replaces an earlier one. False: it is not such a file.
bool read_records(std::string_view content, const std::function<void(std::string_view, std::string_view)>& take) {
  while (!content.empty()) {
    const auto key = take_block(content);
    const auto value = take_block(content);
    if (!key || !value) return false;
    take(*key, *value);
  }
  return true;
}

bool is_store(const fs::path& path) {
  const auto fd = open_locked(path, O_RDONLY, LOCK_SH);
  return !fd || read_records(read_all(fd, path), [](auto, auto) {});
}

/// Error(io) if the file exists and is not completely the output of a FileStore: a FileStore would read any other
/// content without end.
void require_store_file(const fs::path& path) {
  std::error_code ignored;
  if (path.has_parent_path() && !fs::is_directory(path.parent_path(), ignored)) {
    fail(ErrorKind::io, "connect", "the store file {} cannot be made: {} is not a folder", path.string(),
         path.parent_path().string());
  }
  if (!fs::exists(path, ignored)) return;
  if (fs::is_regular_file(path, ignored) && is_store(path)) return;
  fail(ErrorKind::io, "connect",
       "{} is not a rendezvous file, or was damaged when a rank was killed; remove it, or name another path, the same "
       "on all ranks",
       path.string());
}

using Clock = std::chrono::steady_clock;

constexpr auto kCurrent = "current";
constexpr auto kAbsent = "-";
constexpr auto kPause = std::chrono::milliseconds(5);

void put_block(std::string& record, std::string_view block) {
  const auto length = static_cast<std::uint32_t>(block.size());
  record.append(reinterpret_cast<const char*>(&length), sizeof length);
  record += block;
}

/// Counts this rank among those that have left the rendezvous `name` of `size` ranks; the last one removes the file,
/// unless another rendezvous has begun in it. The FileStores of this process must be destroyed before, because their
/// destructors write, which creates a removed file again.
void leave_file(const fs::path& path, const std::string& name, int size) {
  const auto fd = open_locked(path, O_RDWR | O_APPEND, LOCK_EX);
  if (!fd) return;
  const auto key = name + "/left";
  std::string current;
  std::int64_t left = 0;
  const auto content = read_all(fd, path);
  read_records(content, [&](std::string_view words, std::string_view value) {
    if (words.empty()) return;
    words.remove_prefix(1);  // c10d prefixes users' keys with a letter
    if (words == kCurrent) current = value;
    if (words == key) left = parse_integer(value).value_or(0);
  });
  if (current != name) return;
  std::error_code ignored;
  if (++left >= size) {
    fs::remove(path, ignored);
    return;
  }
  std::string record;
  put_block(record, "/" + key);
  put_block(record, std::to_string(left));
  // A record that is cut short is like one of a killed rank: the file stays, and the next job replaces it.
  [[maybe_unused]] const auto written = ::write(fd.get(), record.data(), record.size());
}

std::string random_text() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

std::optional<std::string> find_value(c10d::Store& store, const std::string& key) {
  if (!store.check({key})) return std::nullopt;
  return to_text(store.get(key));
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// The current file; no descriptor: it does not exist. While the descriptor is open, no other file can have its inode
/// number; file systems reuse the number as soon as no process holds the old file.
UniqueFd hold_file(const std::string& path) { return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); }

/// Whether two open descriptors are of the same file.
bool are_same(const UniqueFd& a, const UniqueFd& b) {
  struct stat of_a {};
  struct stat of_b {};
  if (!a || !b || ::fstat(a.get(), &of_a) != 0 || ::fstat(b.get(), &of_b) != 0) return false;
  return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

class FileRendezvous {
 public:
  FileRendezvous(const World& world, std::chrono::milliseconds timeout)
      : path_(world.store_path),
        rank_(world.rank),
        size_(static_cast<std::size_t>(world.size)),
        timeout_(timeout),
        deadline_(Clock::now() + timeout) {}

  /// The name of the rendezvous, once all ranks have arrived.
  std::string meet() { return rank_ == 0 ? hold() : find_it(); }

  /// After `meet`.
  StorePtr take_store() { return std::move(store_); }

 private:
  void open() {
    store_ = c10::make_intrusive<c10d::FileStore>(path_, -1);
    store_->setTimeout(timeout_);
  }

  /// A FileStore continues at its last read position, even when the last rank of another job has removed the file and
  /// rank 0 has created a new one. False: there is no file.
  bool is_there() {
    UniqueFd found = hold_file(path_);
    if (found && !are_same(found, held_)) open();
    held_ = std::move(found);
    return static_cast<bool>(held_);
  }

  std::string hold() {
    std::string name = random_text();
    begin(name);
    say_hello(name);
    std::vector<std::string> hellos(size_, kAbsent);
    while (take_hellos(name, hellos) && Clock::now() < deadline_) {
      std::this_thread::sleep_for(kPause);
      require_current(name);
    }
    store_->set(name + "/met", to_bytes(fmt::format("{}", fmt::join(hellos, " "))));
    if (const auto missing = absent(hellos); !missing.empty()) fail_missing(missing);
    return name;
  }

  // The last rank of the previous rendezvous may be removing the file, and data that is written to a removed file is
  // lost. A file that remains names this rendezvous, and is not removed any more: see leave_file.
  void begin(const std::string& name) {
    do {
      open();
      store_->set(kCurrent, to_bytes(name));
      held_ = hold_file(path_);
    } while (!held_ || find_value(*store_, kCurrent) != name);
  }

  std::string find_it() {
    // A little longer than rank 0, which finds the missing ranks at its own deadline.
    const auto patience = deadline_ + std::chrono::seconds(1);
    std::string greeted;
    bool left_over = false;
    for (; Clock::now() < patience; std::this_thread::sleep_for(kPause)) {
      if (!is_there()) continue;
      try {
        const auto name = find_value(*store_, kCurrent);
        if (!name) continue;
        if (*name != greeted) say_hello(*name);
        greeted = *name;
        const auto met = find_value(*store_, *name + "/met");
        left_over = met && !holds_mine(words_of(*met));
        if (met && !left_over) return with_all(*name, words_of(*met));
      } catch (const Error&) {
        throw;
      } catch (const std::exception&) {
        held_.reset();  // the file was replaced meanwhile
      }
    }
    if (left_over || greeted.empty()) fail_without_rank_0(left_over);
    std::vector<std::string> hellos(size_, kAbsent);
    if (!take_hellos(greeted, hellos)) fail_without_rank_0(true);
    fail_missing(absent(hellos));
  }

  void say_hello(const std::string& name) { store_->set(fmt::format("{}/hello/{}", name, rank_), to_bytes(hello_)); }

  /// Looks for ranks that were absent; returns whether some still are.
  bool take_hellos(const std::string& name, std::vector<std::string>& hellos) {
    for (const auto rank : absent(hellos)) {
      hellos[rank] = find_value(*store_, fmt::format("{}/hello/{}", name, rank)).value_or(kAbsent);
    }
    return !absent(hellos).empty();
  }

  static std::vector<std::size_t> absent(const std::vector<std::string>& hellos) {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
      if (hellos[rank] == kAbsent) ranks.push_back(rank);
    }
    return ranks;
  }

  bool holds_mine(const std::vector<std::string>& hellos) const {
    const auto rank = static_cast<std::size_t>(rank_);
    return rank < hellos.size() && hellos[rank] == hello_;
  }

  std::string with_all(const std::string& name, const std::vector<std::string>& hellos) const {
    if (hellos.size() != size_) {
      fail(ErrorKind::mismatch, "connect",
           "rank 0 has a world of {} ranks in {}, but this is rank {} of {}; start all with the same world size",
           hellos.size(), path_, rank_, size_);
    }
    if (const auto missing = absent(hellos); !missing.empty()) fail_missing(missing);
    return name;
  }

  void require_current(const std::string& name) {
    if (find_value(*store_, kCurrent) == name) return;
    fail(ErrorKind::io, "connect",
         "another rank 0 began a rendezvous in {} while this one waited there; give each job a file of its own", path_);
  }

  double seconds() const { return static_cast<double>(timeout_.count()) / 1000; }

  [[noreturn]] void fail_missing(const std::vector<std::size_t>& missing) const {
    fail(ErrorKind::timeout, "connect",
         "{} of {} ranks did not register in the file {} within {:.1f} s: rank {}. Read their logs, check that all "
         "were started with the same file and world size, or raise LOCKSTEP_START_TIMEOUT_S",
         missing.size(), size_, path_, seconds(), fmt::join(missing, ", "));
  }

  [[noreturn]] void fail_without_rank_0(bool left_over) const {
    fail(ErrorKind::timeout, "connect",
         "rank 0 of {} did not register in the file {} within {:.1f} s{}. Read its log, check that all ranks were "
         "started with the same file, or raise LOCKSTEP_START_TIMEOUT_S",
         size_, path_, seconds(), left_over ? "; what is in the file was left by another job" : "");
  }

  StorePtr store_;
  UniqueFd held_;  ///< the file that store_ reads
  std::string path_;
  int rank_;
  std::size_t size_;
  std::chrono::milliseconds timeout_;
  Clock::time_point deadline_;
  std::string hello_ = random_text();
};

/// The keys of one rendezvous. Its destructor does this rank's part in removing the file. FileStore itself counts the
/// processes that left over all jobs that used the file, and would remove it during a later job.
class RendezvousStore : public c10d::PrefixStore {
 public:
  RendezvousStore(const std::string& name, StorePtr file, std::string path, int size)
      : c10d::PrefixStore(name, std::move(file)), path_(std::move(path)), name_(name), size_(size) {}
  RendezvousStore(const RendezvousStore&) = delete;
  RendezvousStore& operator=(const RendezvousStore&) = delete;
  ~RendezvousStore() override {
    store_.reset();  // the FileStore, before this rank leaves
    try {
      leave_file(path_, name_, size_);
    } catch (const std::exception&) {
      // The file stays; this does not disturb the next job.
    }
  }

 private:
  std::string path_;
  std::string name_;
  int size_;
};

}  // namespace

OpenedStore meet_in_file(const World& world, std::chrono::milliseconds timeout) {
  require_store_file(world.store_path);
  FileRendezvous rendezvous(world, timeout);
  const std::string name = rendezvous.meet();
  OpenedStore opened;
  opened.where = world.store_path;
  opened.store = c10::make_intrusive<RendezvousStore>(name, rendezvous.take_store(), world.store_path, world.size);
  return opened;
}

}  // namespace lockstep::detail
