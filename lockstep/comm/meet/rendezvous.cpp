// The rendezvous over the store's keys: each rank registers its presence, the first of each 64 ranks collects its
// group, and rank 0 collects the groups and publishes the outcome: the list of ranks, or the missing ranks.
#include <lockstep/comm/meet/rendezvous.h>

#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kReadersKey = "outcome_readers";
constexpr std::string_view kMissing = "missing ";
constexpr std::string_view kClosed = "closed";

// Consecutive ranks, which the first of them collects.
constexpr int kGroup = 64;

std::string presence_key(int rank) { return fmt::format("presence/{}", rank); }
std::string group_key(int first) { return fmt::format("presence_from/{}", first); }

// The value of `key`, if it exists. It uses a compare-and-set that never takes place, because no key here has the value
// "?". This is a single request, where check() and get() are three, and each request costs the store more when more
// ranks are connected.
std::optional<std::string> value_of(c10d::Store& store, const std::string& key) {
  const auto none = to_bytes("?");
  const auto value = store.compareSet(key, none, none);
  return value == none ? std::nullopt : std::optional(to_text(value));
}

// Called repeatedly by a waiting rank; returns whether to stop.
using IsOver = std::function<bool()>;

// Polls, because a rank that collects must meanwhile detect that another rank is lost.
std::optional<std::string> await_value(c10d::Store& store, const std::string& key, const IsOver& over) {
  constexpr milliseconds kLongestPause(100);
  for (milliseconds pause(2);; pause = std::min(pause * 2, kLongestPause)) {
    if (auto value = value_of(store, key)) return value;
    if (over()) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

[[noreturn]] void fail_missing(const std::vector<int>& missing, int size, milliseconds timeout) {
  fail(ErrorKind::timeout, "connect",
       "{} of {} ranks did not register, or ended meanwhile, within {:.1f} s: rank {}. Read their logs, check that all "
       "were started with the same master address and world size, or raise LOCKSTEP_START_TIMEOUT_S",
       missing.size(), size, static_cast<double>(timeout.count()) / 1000, fmt::join(missing, ", "));
}

// Published instead of the list of ranks. The first letter distinguishes it, so that thousands of ranks need not parse
// the list twice.
std::string encode_missing(const std::vector<int>& missing) {
  return fmt::format("{}{}", kMissing, fmt::join(missing, ","));
}

std::optional<std::vector<int>> decode_missing(std::string_view text) {
  if (!text.starts_with(kMissing)) return std::nullopt;
  std::vector<int> ranks;
  std::istringstream list{std::string(text.substr(kMissing.size()))};
  for (std::string rank; std::getline(list, rank, ',');) {
    ranks.push_back(static_cast<int>(parse_integer(rank).value_or(-1)));
  }
  return ranks;
}

// The missing ranks, and the first rank of each group that is complete but was not published, because that rank had to
// collect it.
std::vector<int> lost_ranks(c10d::Store& store, int size) {
  auto lost = absent_ranks(store, size);
  const auto absent = lost;
  for (int first = kGroup; first < size; first += kGroup) {
    const bool whole =
        std::none_of(absent.begin(), absent.end(), [&](int rank) { return rank / kGroup == first / kGroup; });
    if (whole && !value_of(store, group_key(first))) lost.push_back(first);
  }
  std::sort(lost.begin(), lost.end());
  return lost;
}

// Rank 0 stays until the other ranks have read the outcome, because the store may be in this process.
void await_readers(c10d::Store& store, std::int64_t readers) {
  const auto patience = Clock::now() + std::chrono::seconds(2);
  while (store.add(kReadersKey, 0) < readers && Clock::now() < patience) {
    std::this_thread::sleep_for(milliseconds(10));
  }
}

[[noreturn]] void publish_missing(c10d::Store& store, const std::vector<int>& missing, int size, milliseconds timeout) {
  store.set(kOutcomeKey, to_bytes(encode_missing(missing)));
  await_readers(store, size - static_cast<std::int64_t>(missing.size()) - 1);
  fail_missing(missing, size, timeout);
}

// A rank reads at most 64 keys, and one of each group, one after the other. The groups are collected in parallel, and
// rank 0 collects the groups. False: a rank was missing at the deadline.
bool collect(c10d::Store& store, const std::string& key, std::vector<RankInfo>& ranks, const IsOver& over) {
  const auto found = await_value(store, key, over);
  if (!found) return false;
  for (auto& info : decode_ranks(*found)) ranks.push_back(std::move(info));
  return true;
}

// `first` and the ranks that follow it in its group; nullopt: some were missing at the deadline.
std::optional<std::vector<RankInfo>> collect_group(c10d::Store& store, int first, int size, milliseconds timeout,
                                                   const IsOver& over) {
  // Answered at once. With libtorch 1.13 it also limits how long the requests below wait.
  store.wait({presence_key(first)}, timeout);
  std::vector<RankInfo> ranks;
  for (int rank = first; rank < std::min(first + kGroup, size); ++rank) {
    if (!collect(store, presence_key(rank), ranks, over)) return std::nullopt;
  }
  return ranks;
}

std::optional<std::vector<RankInfo>> collect_all(c10d::Store& store, int size, milliseconds timeout,
                                                 const IsOver& over) {
  auto all = collect_group(store, 0, size, timeout, over);
  for (int first = kGroup; all && first < size; first += kGroup) {
    if (!collect(store, group_key(first), *all, over)) all.reset();
  }
  return all;
}

// False: another rank 0 has already ended it with a different outcome.
bool end_rendezvous(c10d::Store& store, const std::string& outcome) {
  const bool first = to_text(store.compareSet(kOutcomeKey, {}, to_bytes(outcome))) == outcome;
  if (first) store.set(kOutcomeKey, to_bytes(outcome));  // unlike compareSet, set() wakes clients that wait for the key
  return first;
}

// Rank 0 collects all ranks and publishes them, so that the number of requests grows linearly with the number of ranks.
// If ranks are missing, it publishes those.
std::vector<RankInfo> lead(c10d::Store& store, int size, milliseconds timeout, const IsOver& over) {
  auto all = collect_all(store, size, timeout, over);
  if (!all) {
    if (const auto lost = lost_ranks(store, size); !lost.empty()) publish_missing(store, lost, size, timeout);
    all = collect_all(store, size, timeout, [] { return true; });  // the last rank arrived shortly before the deadline
    if (!all) fail(ErrorKind::io, "connect", "the entries of ranks that had registered are no longer in the store");
  }
  if (end_rendezvous(store, encode(*all))) return std::move(*all);
  fail(ErrorKind::io, "connect",
       "another rank 0 began a rendezvous in the same store while this one waited there; give each job a port of its "
       "own (MASTER_PORT)");
}

// The first rank of a group. Rank 0 finds the missing ranks, perhaps before this rank's own deadline.
void lead_group(c10d::Store& store, int first, int size, milliseconds timeout, const IsOver& over) {
  const auto over_for_all = [&] { return over() || store.check({kOutcomeKey}); };
  const auto group = collect_group(store, first, size, timeout, over_for_all);
  if (group) store.set(group_key(first), to_bytes(encode(*group)));
}

// The other ranks wait for rank 0's outcome, in a single request. If rank 0 gives up, its store ends with it; if
// another rank gives up, rank 0 does not wait for it.
std::optional<std::vector<RankInfo>> follow(c10d::Store& store, const RankInfo& self, int size, milliseconds timeout,
                                            Clock::time_point deadline) {
  // A little longer than rank 0, which finds the missing ranks at its own deadline.
  const auto patience = deadline + std::chrono::seconds(1);
  try {
    store.wait({kOutcomeKey}, std::max(std::chrono::ceil<milliseconds>(patience - Clock::now()), milliseconds(1000)));
  } catch (const std::exception&) {
    if (Clock::now() < patience) throw;
    // libtorch 1.13 cannot cancel a wait that timed out. A reply that arrives now would be read as the reply to the
    // next request: then the list below is wrong by at most one rank.
    auto lost = lost_ranks(store, size);
    if (lost.empty()) lost.push_back(0);  // all ranks are present, but rank 0's outcome is missing
    fail_missing(lost, size, timeout);
  }
  const auto text = value_of(store, kOutcomeKey).value_or("");
  if (const auto missing = decode_missing(text)) {
    store.add(kReadersKey, 1);
    fail_missing(*missing, size, timeout);
  }
  if (text == kClosed) return std::nullopt;
  auto ranks = decode_ranks(text);
  if (static_cast<int>(ranks.size()) != size) {
    fail(ErrorKind::mismatch, "connect",
         "rank 0 has a world of {} ranks, but this is rank {} of {}; start all with the same world size", ranks.size(),
         self.rank, size);
  }
  // Perhaps the outcome holds an earlier process of this rank.
  if (ranks[static_cast<std::size_t>(self.rank)].hello != self.hello) return std::nullopt;
  return ranks;
}

}  // namespace

std::vector<int> absent_ranks(c10d::Store& store, int size) {
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.check({presence_key(rank)})) missing.push_back(rank);
  }
  return missing;
}

bool is_over(c10d::Store& store, int rank) {
  const auto outcome = value_of(store, kOutcomeKey);
  if (!outcome) return false;
  const auto missing = decode_missing(*outcome).value_or(std::vector<int>());
  if (std::count(missing.begin(), missing.end(), rank) != 0) {
    log_warning(
        "rank {} is too late: the time limit of the other ranks has passed; this rank waits until they begin a new "
        "rendezvous",
        rank);
  }
  return true;
}

void leave_together(c10d::Store& store, int rank, int size) {
  try {
    if (rank == 0) return await_readers(store, size - 1);
    store.add(kReadersKey, 1);
  } catch (const std::exception&) {  // the others have left: the caller's own error is the one to report
  }
}

void close_rendezvous(c10d::Store& store) { end_rendezvous(store, std::string(kClosed)); }

std::optional<std::vector<RankInfo>> meet(c10d::Store& store, const RankInfo& self, int size,
                                          std::chrono::milliseconds timeout, const GiveUp& give_up) {
  const auto deadline = Clock::now() + timeout;
  try {
    store.set(presence_key(self.rank), to_bytes(encode({self})));
    const auto over = [&] {
      give_up();
      return Clock::now() >= deadline;
    };
    if (self.rank == 0) return lead(store, size, timeout, over);
    if (self.rank % kGroup != 0) return follow(store, self, size, timeout, deadline);
    lead_group(store, self.rank, size, timeout, over);
    auto ranks = follow(store, self, size, timeout, deadline);
    store.wait({kOutcomeKey},
               timeout);  // answered at once: the remaining deadline must not limit later requests
    return ranks;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    give_up();  // the store's holder may have ended because of another rank
    const std::string text = error.what();
    fail(ErrorKind::peer_lost, "connect",
         "the connection to the store broke during the rendezvous of {} ranks; rank 0 may have ended: {}", size,
         text.substr(0, text.find('\n')));
  }
}

}  // namespace lockstep::detail
