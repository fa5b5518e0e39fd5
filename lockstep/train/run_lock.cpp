#include <lockstep/base/error.h>
#include <lockstep/base/file_text.h>
#include <lockstep/base/log.h>
#include <lockstep/base/this_host.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/run_lock.h>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
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
constexpr std::chrono::seconds kOfThisJob(2);   // whoever started this rank has given that one up
constexpr std::chrono::seconds kOfOneName(30);  // the same job, or another without a name
constexpr const char* kNoName = "none";         // torchrun's, for jobs without --rdzv_id

std::string reason() { return std::generic_category().message(errno); }

/// What the file says of the last that took it.
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
  if (host.empty()) return "a process that did not say who it is";
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
  // For messages only: the lock is what counts.
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, text.data(), text.size(), 0) < 0) {
    log_debug("cannot write who holds the lock: {}", reason());
  }
}

}  // namespace

std::string job_identity(const World& world, const Environment& environment) {
  if (world.meeting == Meeting::scheduler) return fmt::format("scheduler {}:{}", world.master_addr, world.master_port);
  return find(environment, "TORCHELASTIC_RUN_ID").value_or("");
}

RunLock::RunLock(std::filesystem::path file, std::string job) : file_(std::move(file)), job_(std::move(job)) {}

bool RunLock::try_to_take() {
  UniqueFd file(::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file) fail(ErrorKind::io, "system.work_dir", "cannot open {}: {}", file_.string(), reason());
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return false;
    log_warning("{} cannot be locked ({}): make sure that no other run uses this folder", file_.string(), reason());
  }
  write_holder(file.get(), job_);
  held_ = std::move(file);
  return true;
}

// Why it cannot be had; empty when this run may go on.
std::string RunLock::take(std::chrono::milliseconds patience, Console& console) {
  if (held_ || try_to_take()) return "";
  const auto holder = holder_of(file_);
  const bool same = !job_.empty() && text_of(holder, "job") == job_;
  const bool named = same && job_ != kNoName;
  const auto limit = std::min<std::chrono::milliseconds>(patience, named ? kOfThisJob : same ? kOfOneName : kOfAnother);
  tell(console,
       fmt::format("waiting up to {:.0f} s for {}, which uses {}", std::chrono::duration<double>(limit).count(),
                   words_about(holder), file_.parent_path().string()));
  for (const auto end = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < end;) {
    std::this_thread::sleep_for(kLook);
    if (try_to_take()) return "";
  }
  if (named) {
    log_warning("{} was replaced and has not ended; this rank goes on in its place", words_about(holder));
    return "";
  }
  return fmt::format(
      "another run uses the folder {}: {}. Two runs would overwrite each other's results and checkpoints: wait for "
      "that one, end it, or give this run a folder of its own (system.work_dir=...)",
      file_.parent_path().string(), words_about(holder));
}

void RunLock::hold(const Group& group, Console& console) {
  std::string refusal;
  if (group.rank() == 0) {
    refusal = take(std::chrono::duration_cast<std::chrono::milliseconds>(group.timeout()) / 2, console);
  } else {
    held_.reset();
  }
  refusal = share_text(refusal, group, 0);
  if (!refusal.empty()) fail(ErrorKind::config, "system.work_dir", "{}", refusal);
}

}  // namespace lockstep::train
