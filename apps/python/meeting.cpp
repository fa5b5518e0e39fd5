// The keys of a meeting:
//
//   lockstep/epochs/RANK            how many groups this rank has made with these keys
//   lockstep/EPOCH/here/RANK        host and process of a rank that has arrived
//   lockstep/EPOCH/arrived          the number of ranks that have arrived
//   lockstep/EPOCH/address          where rank 0 listens for the other ranks
//
// A rank connects only once all have arrived, because only this wait can be cancelled, and can take as long as the
// program's preparations.
#include <apps/python/meeting.h>

#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
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

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return fmt::format("pid {}", ::getpid());
  return fmt::format("pid {} on {}", ::getpid(), host.data());
}

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

void await_all(const Member& member, Patience& patience) {
  member.store->set(key_of(member, fmt::format("here/{}", member.rank)), this_process());
  const auto arrived = key_of(member, "arrived");
  for (auto count = member.store->add(arrived, 1); count < member.size; count = member.store->add(arrived, 0)) {
    if (!patience.pause()) fail_missing(member, patience);
  }
}

std::string await_address(const Member& member, Patience& patience) {
  const auto key = key_of(member, "address");
  while (!member.store->check({key})) {
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

}  // namespace

std::int64_t next_epoch(c10d::Store& store, int rank) { return store.add(fmt::format("lockstep/epochs/{}", rank), 1); }

MetGroups meet(const Member& given, const std::shared_ptr<const std::atomic<bool>>& cancelled) {
  Member member = given;
  // A store serves one request at a time, and the program may wait in it for what follows from this meeting.
  member.store = given.store->clone();
  Patience patience(member.timeout, cancelled);
  await_all(member, patience);
  const Announcement announcement{
      [&](const std::string& text) { member.store->set(key_of(member, "address"), text); },
      [&] { return await_address(member, patience); },
      [&] { patience.throw_if_cancelled(); },
  };
  GroupOptions options;
  options.timeout = member.timeout;
  options.start_timeout = std::min(member.timeout, kLongestConnect);
  auto group = connect(world_of(member), announcement, options);
  auto messages = group.size() == 1 ? group : *group.subgroup(group.ranks());
  return {std::move(group), std::move(messages)};
}

}  // namespace lockstep::python
