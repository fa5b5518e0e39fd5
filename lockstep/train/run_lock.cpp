// The run lock: flock on a file in each folder with a JSON record of its holder; a wait whose length depends on the
// holder's job. Rank 0 locks, and its refusal goes to all ranks.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/base/this_host.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/resources/work_dir.h>
#include <lockstep/train/run_lock.h>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep::train {
namespace {

constexpr std::chrono::milliseconds kLook(50);
constexpr std::chrono::seconds kOfAnother(10);  // for a run that is ending
constexpr std::chrono::seconds kOfThisJob(2);   // the launcher of this rank has given up the previous process
constexpr std::chrono::seconds kOfOneName(30);  // the same job, or another without a name
constexpr const char* kFile = "lock";           // in the folder
constexpr const char* kNoName = "none";         // torchrun's name for jobs without --rdzv_id

std::string reason() { return std::generic_category().message(errno); }

/// The record in the file about the last holder.
nlohmann::json holder_of(const std::filesystem::path& file) {
  auto holder = nlohmann::json::parse(read_file(file).value_or(""), nullptr, /*allow_exceptions=*/false);
  return holder.is_object() ? holder : nlohmann::json::object();
}

std::string text_of(const nlohmann::json& holder, const char* key) {
  const auto found = holder.find(key);
  return found != holder.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string words_about(const nlohmann::json& holder) {
  const auto host = text_of(holder, "host");
  if (host.empty()) return "an unidentified process";
  return fmt::format("process {} on host {}, since {}", text_of(holder, "pid"), host, text_of(holder, "since"));
}

void write_holder(int file, const std::string& job) {
  const nlohmann::json holder = {
      {"host", host_name().value_or("unknown")},
      {"pid", std::to_string(::getpid())},
      {"since", fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)))},
      {"job", job},
  };
  const std::string text = holder.dump() + "\n";
  // Only for messages: the kernel lock decides.
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, text.data(), text.size(), 0) < 0) {
    log_debug("cannot write the holder of the lock: {}", reason());
  }
}

}  // namespace

std::string job_identity(const World& world, const Environment& environment) {
  if (world.rendezvous == Rendezvous::scheduler)
    return fmt::format("scheduler {}:{}", world.master_addr, world.master_port);
  return find(environment, "TORCHELASTIC_RUN_ID").value_or("");
}

RunLock::RunLock(std::vector<LockedFolder> folders, std::string job) : job_(std::move(job)) {
  for (auto& folder : folders) locks_.push_back({std::move(folder), {}});
}

// Two of the paths may name the same folder.
bool RunLock::is_held(const UniqueFd& file) const {
  struct stat wanted {};
  if (::fstat(file.get(), &wanted) != 0) return false;
  return std::ranges::any_of(locks_, [&](const Held& lock) {
    struct stat held {};
    return lock.file && ::fstat(lock.file.get(), &held) == 0 && held.st_dev == wanted.st_dev &&
           held.st_ino == wanted.st_ino;
  });
}

bool RunLock::try_to_take(Held& lock) {
  require_writable_folder(lock.folder.path, lock.folder.key);
  const auto name = lock.folder.path / kFile;
  UniqueFd file(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file) fail(ErrorKind::io, lock.folder.key, "cannot open {}: {}; choose another folder", name.string(), reason());
  if (is_held(file)) return true;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return false;
    log_warning("{} cannot be locked ({}): make sure that no other run uses this folder", name.string(), reason());
  }
  write_holder(file.get(), job_);
  lock.file = std::move(file);
  return true;
}

// The reason why the lock is not available; empty when this run may continue.
std::string RunLock::take(Held& lock, std::chrono::milliseconds patience, Console& console) {
  if (lock.file || try_to_take(lock)) return "";
  const auto& [folder, key] = lock.folder;
  const auto holder = holder_of(folder / kFile);
  const bool same = !job_.empty() && text_of(holder, "job") == job_;
  const bool named = same && job_ != kNoName;
  const auto limit = std::min<std::chrono::milliseconds>(patience, named ? kOfThisJob : same ? kOfOneName : kOfAnother);
  tell(console, fmt::format("waiting up to {:.0f} s for {}, which uses {}",
                            std::chrono::duration<double>(limit).count(), words_about(holder), folder.string()));
  for (const auto end = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < end;) {
    std::this_thread::sleep_for(kLook);
    if (try_to_take(lock)) return "";
  }
  if (named) {
    log_warning("{} was replaced and has not ended; this rank goes on in its place", words_about(holder));
    return "";
  }
  return fmt::format(
      "another run uses the folder {}: {}. Two runs would overwrite each other's results and checkpoints: wait for "
      "that one, end it, or give this run a folder of its own ({}=...)",
      folder.string(), words_about(holder), key);
}

// Takes the locks in order, until one is not available.
RunLock::Refusal RunLock::take_all(std::chrono::milliseconds patience, Console& console, bool goes_on) {
  for (auto& lock : locks_) {
    try {
      auto why = take(lock, patience, console);
      if (!why.empty()) return {lock.folder.key, std::move(why)};
    } catch (const Error& error) {
      if (!goes_on) throw;
      log_error("training goes on without a lock: {}", error.message());
    }
  }
  return {};
}

// Only rank 0 needs the folders.
void RunLock::hold(const Group& group, Console& console, bool goes_on) {
  Refusal refusal;
  if (group.rank() == 0) {
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(group.timeout()) / 2;
    refusal = take_all(patience, console, goes_on);
  } else {
    for (auto& lock : locks_) lock.file.reset();
  }
  const auto why = share_text(refusal.why, group, 0);
  if (!why.empty()) fail(ErrorKind::config, share_text(refusal.key, group, 0), "{}", why);
}

}  // namespace lockstep::train
