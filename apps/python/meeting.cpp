// The keys of a meeting:
//
//   lockstep/epochs/RANK            how many groups this rank has made with these keys
//   lockstep/EPOCH/here/RANK        the process of a rank that has made the group
//   lockstep/EPOCH/arrived          the number of ranks that have arrived
//   lockstep/EPOCH/address          where rank 0 listens for the other ranks
//   lockstep/EPOCH/failed           why the first rank that failed gave up
//
// A rank connects only once all have arrived, because only this wait can be cancelled, and can take as long as the
// program's preparations.
#include <apps/python/meeting.h>

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::python {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// All ranks have arrived then.
constexpr milliseconds kLongestConnect = std::chrono::seconds(60);

std::string key_of(const Member& member, const std::string& name) {
  return fmt::format("lockstep/{}/{}", member.epoch, name);
}

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  std::string text;
  std::getline(in, text);
  return text;
}

/// When a process of this machine began, in ticks since boot (proc(5)); nothing where it has ended.
std::optional<std::string> start_of(const std::string& pid) {
  const auto text = text_of("/proc/" + pid + "/stat");
  const auto end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
  constexpr std::size_t kState = 0, kStart = 19;
  if (words.size() <= kStart || words[kState] == "Z" || words[kState] == "X") return std::nullopt;
  return words[kStart];
}

/// Where numbers of processes mean the same: the machine and its namespace.
std::string this_machine() {
  std::error_code unknown;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", unknown);
  return text_of("/proc/sys/kernel/random/boot_id") + space.string();
}

std::string this_host() {
  std::array<char, 256> host{};
  return ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "?";
}

/// A process that has made the group, as the store has it: one line for each member.
struct Process {
  std::string size, machine, pid, start, host;

  std::string text() const { return fmt::format("{}\n{}\n{}\n{}\n{}", size, machine, pid, start, host); }
  std::string name() const { return fmt::format("pid {} on {}", pid, host); }
  /// False where that cannot be seen: on another machine than `here`, and without /proc.
  bool has_ended(const std::string& here) const { return machine == here && !start.empty() && start_of(pid) != start; }
};

Process this_process(int size) {
  const auto pid = fmt::to_string(::getpid());
  return {fmt::to_string(size), this_machine(), pid, start_of(pid).value_or(""), this_host()};
}

Process parsed(const std::string& text) {
  std::istringstream lines(text);
  Process process;
  for (auto* each : {&process.size, &process.machine, &process.pid, &process.start, &process.host}) {
    std::getline(lines, *each);
  }
  return process;
}

/// What the other ranks have left in the store.
class Others {
 public:
  explicit Others(const Member& member) : member_(member) {}

  /// Throws where a rank has given up, has another number of ranks, or has ended on this machine.
  void check() {
    if (const auto failed = key_of(member_, "failed"); member_.store->check({failed})) {
      fail(ErrorKind::peer_lost, "meet", "{}", member_.store->get_to_str(failed));
    }
    if (Clock::now() < next_) return;
    next_ = Clock::now() + std::chrono::seconds(1);
    // A store serves one request at a time, so a rank looks for a few others in turn.
    for (int i = 0; i < std::min(member_.size, 16); ++i) {
      look_for(turn_);
      turn_ = (turn_ + 1) % member_.size;
    }
    for (const auto& [rank, process] : known_) {
      if (!process.has_ended(machine_)) continue;
      fail(ErrorKind::peer_lost, "meet", "rank {} ({}) ended before all {} ranks of the group had met", rank,
           process.name(), member_.size);
    }
  }

 private:
  void look_for(int rank) {
    const auto key = key_of(member_, fmt::format("here/{}", rank));
    if (rank == member_.rank || known_.contains(rank) || !member_.store->check({key})) return;
    auto process = parsed(member_.store->get_to_str(key));
    if (process.size != fmt::to_string(member_.size)) {
      fail(ErrorKind::mismatch, "meet",
           "rank {} ({}) has a group of {} ranks, and rank {} of {}; all ranks need the same WORLD_SIZE", rank,
           process.name(), process.size, member_.rank, member_.size);
    }
    known_.emplace(rank, std::move(process));
  }

  const Member& member_;
  const std::string machine_ = this_machine();
  std::map<int, Process> known_;
  int turn_ = 0;
  Clock::time_point next_{};
};

/// The waiting of one rank: with a limit, and with pauses that grow.
class Patience {
 public:
  Patience(milliseconds limit, std::shared_ptr<const std::atomic<bool>> cancelled)
      : limit_(limit), cancelled_(std::move(cancelled)) {}

  /// Returns false once the limit has passed.
  bool pause() {
    throw_if_cancelled();
    if (Clock::now() - begin_ >= limit_) return false;
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(pause_ * 2, milliseconds(50));
    return true;
  }
  void throw_if_cancelled() const {
    if (*cancelled_) fail(ErrorKind::peer_lost, "meet", "the group was destroyed before all of its ranks had met");
  }
  double seconds() const { return static_cast<double>(limit_.count()) / 1000; }

 private:
  milliseconds limit_;
  std::shared_ptr<const std::atomic<bool>> cancelled_;
  Clock::time_point begin_ = Clock::now();
  milliseconds pause_{1};
};

[[noreturn]] void fail_missing(const Member& member, const Patience& patience) {
  std::vector<int> missing;
  for (int rank = 0; rank < member.size; ++rank) {
    if (!member.store->check({key_of(member, fmt::format("here/{}", rank))})) missing.push_back(rank);
  }
  fail(ErrorKind::timeout, "meet",
       "{} of {} ranks of the group did not arrive within {:.1f} s: rank {} (numbers within the group). Read their "
       "logs; all ranks of a group call init_process_group or new_group in the same order",
       missing.size(), member.size, patience.seconds(), fmt::join(missing, ", "));
}

void await_all(const Member& member, Patience& patience, Others& others) {
  const auto arrived = key_of(member, "arrived");
  for (auto count = member.store->add(arrived, 1); count < member.size; count = member.store->add(arrived, 0)) {
    others.check();
    if (!patience.pause()) fail_missing(member, patience);
  }
}

std::string await_address(const Member& member, Patience& patience, Others& others) {
  const auto key = key_of(member, "address");
  while (!member.store->check({key})) {
    others.check();
    if (patience.pause()) continue;
    fail(ErrorKind::timeout, "meet", "rank 0 of the group did not open its port within {:.1f} s; read its log",
         patience.seconds());
  }
  return member.store->get_to_str(key);
}

/// Launchers say whether all ranks of the job, and so those of each group, are on this host.
bool all_on_this_host() {
  const auto environment = current_environment();
  const auto all = find(environment, "WORLD_SIZE");
  return all && find(environment, "LOCAL_WORLD_SIZE") == all;
}

World world_of(const Member& member) {
  World world;
  world.rank = member.rank;
  world.size = member.size;
  world.local_rank = all_on_this_host() ? member.rank : -1;
  world.local_size = all_on_this_host() ? member.size : 0;
  world.launcher = "torch.distributed";
  return world;
}

MetGroups connected(const Member& member, Patience& patience) {
  Others others(member);
  await_all(member, patience, others);
  const Announcement announcement{
      [&](const std::string& text) { member.store->set(key_of(member, "address"), text); },
      [&] { return await_address(member, patience, others); },
      [&] {
        patience.throw_if_cancelled();
        others.check();
      },
  };
  GroupOptions options;
  options.name = member.name;
  options.timeout = member.timeout;
  options.start_timeout = std::min(member.timeout, kLongestConnect);
  auto group = connect(world_of(member), announcement, options);
  auto messages = group.size() == 1 ? group : *group.subgroup(group.ranks());
  return {std::move(group), std::move(messages)};
}

/// Leaves the reason for the ranks that still wait, and throws: that of the rank that failed first, if it is another.
[[noreturn]] void fail_with_all(const Member& member, const Error& seen) {
  auto own = fmt::format("rank {} ({}) gave up: {}", member.rank, this_process(member.size).name(), seen.message());
  std::string first;
  try {
    const auto key = key_of(member, "failed");
    const auto left = member.store->compareSet(key, {}, std::vector<std::uint8_t>(own.begin(), own.end()));
    first.assign(left.begin(), left.end());
  } catch (const std::exception&) {
    // The store has ended, and the other ranks notice that.
  }
  const bool of_other = !first.empty() && first != own && seen.kind() != ErrorKind::mismatch;
  throw Error(of_other ? ErrorKind::peer_lost : seen.kind(), "meet", of_other ? first : seen.message());
}

}  // namespace

std::int64_t next_epoch(c10d::Store& store, int rank) { return store.add(fmt::format("lockstep/epochs/{}", rank), 1); }

void announce(const Member& member) {
  member.store->set(key_of(member, fmt::format("here/{}", member.rank)), this_process(member.size).text());
}

MetGroups meet(const Member& given, const std::shared_ptr<const std::atomic<bool>>& cancelled) {
  Member member = given;
  // A store serves one request at a time, and the program may wait in it for what follows from this meeting.
  member.store = given.store->clone();
  const auto limit = find_integer(current_environment(), "LOCKSTEP_START_TIMEOUT_S", 1, 1 << 20);
  Patience patience(limit ? std::chrono::seconds(*limit) : member.timeout, cancelled);
  try {
    return connected(member, patience);
  } catch (const Error& seen) {
    fail_with_all(member, seen);
  } catch (const c10::Error& seen) {
    fail(ErrorKind::peer_lost, "meet", "the store of the job has ended, with its process, before all ranks had met: {}",
         seen.what_without_backtrace());
  }
}

}  // namespace lockstep::python
