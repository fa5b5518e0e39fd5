#include <lockstep/comm/roster.h>

#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kRosterKey = "roster";
constexpr auto kReadersKey = "roster_readers";
constexpr std::string_view kMissing = "missing ";

std::string presence_key(int rank) { return fmt::format("presence/{}", rank); }

// From one look at the store to the next: the first pause, which doubles, and the longest.
struct Pauses {
  milliseconds first{2};
  milliseconds longest{100};
};

// Together the ranks look no more than 1,000 times a second: the store has one thread, and each request costs it more
// the more of them are connected.
Pauses pauses_among(int ranks) {
  return {std::max(milliseconds(2), milliseconds(ranks / 10)), std::max(milliseconds(100), milliseconds(ranks))};
}

// Polls, because a TCPStore of libtorch 1.13 cannot take back a wait that timed out: the late answer would be read as
// that of the next request.
bool appears(c10d::Store& store, const std::string& key, Clock::time_point deadline, const GiveUp& give_up,
             Pauses pauses = {}) {
  auto pause = pauses.first;
  while (!store.check({key})) {
    give_up();
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(pause * 2, pauses.longest);
  }
  return true;
}

[[noreturn]] void fail_missing(const std::vector<int>& missing, int size, std::chrono::milliseconds timeout) {
  fail(ErrorKind::timeout, "connect",
       "{} of {} ranks did not come within {:.1f} s: rank {}. Look into their logs, check that all were started with "
       "the same master address and world size, or raise LOCKSTEP_START_TIMEOUT_S",
       missing.size(), size, static_cast<double>(timeout.count()) / 1000, fmt::join(missing, ", "));
}

// In place of the roster. Told apart by its first letter: thousands of ranks need not parse a roster twice.
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

// Rank 0 collects all and publishes them, so that the number of requests grows linearly with that of ranks; or it
// publishes who is missing, and stays a moment for the others to read it, as the store may live in its process.
void publish_roster(c10d::Store& store, int size, Clock::time_point deadline, const GiveUp& give_up) {
  std::vector<RankInfo> all;
  for (int rank = 0; rank < size; ++rank) {
    if (!appears(store, presence_key(rank), deadline, give_up)) break;
    all.push_back(decode_rank_info(to_text(store.get(presence_key(rank)))));
  }
  if (all.size() == static_cast<std::size_t>(size)) {
    store.set(kRosterKey, to_bytes(encode(all)));
    return;
  }
  const auto missing = absent_ranks(store, size);
  store.set(kRosterKey, to_bytes(encode_missing(missing)));
  const auto readers = size - static_cast<std::int64_t>(missing.size()) - 1;
  const auto patience = Clock::now() + std::chrono::seconds(2);
  while (store.add(kReadersKey, 0) < readers && Clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::vector<RankInfo> read_roster(c10d::Store& store, const RankInfo& self, int size,
                                  std::chrono::milliseconds timeout) {
  const auto text = to_text(store.get(kRosterKey));
  if (const auto missing = decode_missing(text)) {
    if (self.rank != 0) store.add(kReadersKey, 1);
    fail_missing(*missing, size, timeout);
  }
  return decode_ranks(text);
}

}  // namespace

std::vector<int> absent_ranks(c10d::Store& store, int size) {
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.check({presence_key(rank)})) missing.push_back(rank);
  }
  return missing;
}

std::vector<RankInfo> meet(c10d::Store& store, const RankInfo& self, int size, std::chrono::milliseconds timeout,
                           const GiveUp& give_up) {
  const auto deadline = Clock::now() + timeout;
  try {
    store.set(presence_key(self.rank), to_bytes(encode(self)));
    // Answered at once by a real store. It also limits how long the requests below wait for an answer.
    store.wait({presence_key(self.rank)}, timeout);
    if (self.rank == 0) publish_roster(store, size, deadline, give_up);
    // A moment more than rank 0 has, which finds out at its own deadline who is missing.
    if (!appears(store, kRosterKey, deadline + std::chrono::seconds(1), give_up, pauses_among(size))) {
      fail_missing(absent_ranks(store, size), size, timeout);
    }
    return read_roster(store, self, size, timeout);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    give_up();  // whoever held the store may have gone because of somebody else
    const std::string text = error.what();
    fail(ErrorKind::peer_lost, "connect", "the store broke off while {} ranks met there; rank 0 may have ended: {}",
         size, text.substr(0, text.find('\n')));
  }
}

}  // namespace lockstep::detail
