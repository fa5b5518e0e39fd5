// The job in the store: the keys under which ranks publish failures, delays and traces, and the search for causes.
#include <lockstep/base/json.h>
#include <lockstep/comm/job_context.h>

#include <lockstep/base/log.h>
#include <lockstep/base/stack_signal.h>
#include <lockstep/base/status_page.h>
#include <lockstep/comm/group_impl.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kFailureKey = "failure";
constexpr auto kPoll = milliseconds(20);
constexpr auto kStoreAnswer = std::chrono::seconds(2);
/// The time for which a waiting rank sends no request to a store that did not answer, because each such request takes
/// kStoreAnswer.
constexpr auto kStoreAway = std::chrono::seconds(10);

std::string encode(const Failure& fault) {
  return nlohmann::json{{"rank", fault.rank}, {"aborted", fault.aborted}, {"reason", fault.reason}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string acknowledged_key(int rank) { return fmt::format("failure_acknowledged/{}", rank); }

Failure decode_failure(const std::string& text) {
  const auto parsed = nlohmann::json::parse(text);
  return {integer_of<int>(parsed.at("rank")), parsed.at("aborted").get<bool>(), parsed.at("reason").get<std::string>()};
}

}  // namespace

JobContext::JobContext(World world, GroupOptions options, OpenedStore store, std::vector<RankInfo> members,
                       std::string bind_address, std::shared_ptr<MemberSession> session)
    : session_(std::move(session)),
      generation_(session_ ? session_->place().generation : 0),
      world_(std::move(world)),
      options_(std::move(options)),
      store_(std::move(store)),
      members_(std::move(members)),
      bind_address_(std::move(bind_address)),
      peers_(members_, world_.rank) {
  status_page_.name_rank(world_.rank);
  if (!session_) {
    answer_where_are_you();  // a session sends this request in another way
    return;
  }
  session_->read_page_with([this] { return status_page_.content(Clock::now()); });
}

JobContext::~JobContext() {
  if (session_) session_->read_page_with(nullptr);
  // With recovery the scheduler reports the failure to the other ranks, and they wait until this rank joins again.
  if (failed_ && store_.held_here && !recovers()) linger();
}

void JobContext::enlist(const std::weak_ptr<GroupImpl>& group) {
  const std::lock_guard lock(groups_mutex_);
  std::erase_if(groups_, [](const auto& one) { return one.expired(); });
  groups_.push_back(group);
}

void JobContext::end_groups(const Error& error) noexcept {
  std::vector<std::shared_ptr<GroupImpl>> alive;
  {
    const std::lock_guard lock(groups_mutex_);
    for (const auto& one : groups_) {
      if (auto group = one.lock()) alive.push_back(std::move(group));
    }
  }
  // Without the lock, because each group takes its own lock.
  for (const auto& group : alive) group->end_because(error);
}

// A request that is answered at once. Its timeout also limits how long the next requests on this connection wait.
bool JobContext::store_answers() noexcept {
  try {
    store_.store->wait({fmt::format("presence/{}", world_.rank)}, kStoreAnswer);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::optional<Failure> JobContext::read_failure() {
  if (!store_.store->check({kFailureKey})) return std::nullopt;
  return decode_failure(to_text(store_.store->get(kFailureKey)));
}

void JobContext::complete_step(std::int64_t step) noexcept {
  status_page_.complete_step(step);
  if (!session_) return;
  const std::lock_guard lock(steps_mutex_);
  steps_.complete(step, Clock::now(), Clock::duration(waited_.load(std::memory_order_relaxed)));
  session_->completed_step(step, steps_.recent());
}

Failure JobContext::publish(const Failure& fault) noexcept {
  if (session_ && (fault.aborted || !recovers())) session_->leave(false, fault.reason);
  if (world_.size == 1) return fault;
  const bool first = !failed_.exchange(true);
  try {
    if (!store_answers()) return fault;
    const auto agreed = store_.store->compareSet(kFailureKey, {}, to_bytes(encode(fault)));
    if (first) acknowledge();
    return decode_failure(to_text(agreed));
  } catch (const std::exception& error) {
    log_debug("the reason of the failure could not be sent to the other ranks: {}", error.what());
    return fault;
  }
}

std::optional<std::string> JobContext::failure_elsewhere() {
  const auto fault = read_failure();
  if (!fault || fault->rank == world_.rank) return std::nullopt;
  const auto* did = fault->aborted ? "aborted" : "failed first";
  return fmt::format("{} {}: {}", describe(rank_info(fault->rank)), did, fault->reason);
}

std::optional<std::string> JobContext::find_failure() noexcept {
  try {
    return store_answers() ? failure_elsewhere() : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<std::string> JobContext::cause_now(const std::vector<int>& waited_for, bool store_answers) {
  if (store_answers) {
    if (auto fault = failure_elsewhere()) return fault;
  }
  std::vector<std::string> ended;
  for (const int rank : peers_.ended()) {
    if (std::count(waited_for.begin(), waited_for.end(), rank) != 0) ended.push_back(describe(rank_info(rank)));
  }
  if (ended.empty()) return word_of_scheduler();
  return fmt::format("{} ended", fmt::join(ended, ", "));
}

std::optional<std::string> JobContext::word_of_scheduler() const {
  if (!session_) return std::nullopt;
  return joined_ ? session_->broken(generation_) : session_->lost();
}

std::string JobContext::store_is_gone() const {
  const auto holder = world_.store_is_external ? "the launcher" : describe(rank_info(0));
  return fmt::format("the store at {}, held by {}, has ended", store_.where, holder);
}

// The holder of the store may have ended first, and its end may have caused the end of the rank that was detected.
std::string JobContext::with_store_gone(const std::string& cause) const {
  const bool said = !world_.store_is_external && cause.find(describe(rank_info(0))) != std::string::npos;
  return said ? cause : fmt::format("{}; and {}", cause, store_is_gone());
}

std::optional<std::string> JobContext::find_cause(const std::vector<int>& waited_for, milliseconds patience) noexcept {
  try {
    const auto deadline = Clock::now() + patience;
    const bool answers = store_answers();
    for (;;) {
      if (auto cause = cause_now(waited_for, answers)) return answers ? cause : with_store_gone(*cause);
      if (Clock::now() >= deadline) break;
      std::this_thread::sleep_for(kPoll);
    }
    // Only after the wait: a process loses its connections shortly before the kernel reports its end.
    return answers ? std::nullopt : std::optional(store_is_gone());
  } catch (const std::exception&) {
    // The store was lost in the middle of a reply.
    const auto word = word_of_scheduler();
    return word ? with_store_gone(*word) : store_is_gone();
  }
}

// Logs the loss only once.
bool JobContext::store_is_away() noexcept {
  const auto now = Clock::now().time_since_epoch();
  const auto again = store_asked_again_.load();
  if (again != 0 && now.count() < again) return true;
  if (store_answers()) {
    store_asked_again_ = 0;
    return false;
  }
  store_asked_again_ = (Clock::now().time_since_epoch() + kStoreAway).count();
  if (again == 0) {
    log_warning("the store at {}, held by the launcher, does not answer; the ranks go on without it", store_.where);
  }
  return true;
}

std::optional<std::string> JobContext::find_loss(const std::vector<int>& waited_for) noexcept {
  if (!world_.store_is_external) return find_cause(waited_for, milliseconds(0));
  try {
    return cause_now(waited_for, !store_is_away());
  } catch (const std::exception&) {
    return std::nullopt;  // the store was lost during a reply; the next check finds that it is away
  }
}

std::vector<int> JobContext::ranks_at_address_in(const std::string& message, const std::vector<int>& among) const {
  std::vector<int> found;
  for (const int rank : among) {
    const auto& address = rank_info(rank).address;
    if (rank == world_.rank || address.empty()) continue;
    const bool bracketed = message.find("[" + address + "]") != std::string::npos;  // an address of IPv6
    if (bracketed || message.find(" " + address + ":") != std::string::npos) found.push_back(rank);
  }
  return found;
}

std::string JobContext::addresses_by_variables(const std::string& message, const std::vector<int>& among) const {
  constexpr std::size_t kMost = 4;  // the other ranks of a large job are alike
  auto ranks = ranks_at_address_in(message, among);
  std::erase_if(ranks, [&](int rank) { return rank_info(rank).address_chosen_by.empty(); });
  if (ranks.empty()) ranks = among;
  std::vector<std::string> chosen;
  for (const int rank : ranks) {
    const auto& info = rank_info(rank);
    if (info.address_chosen_by.empty() || chosen.size() == kMost) continue;
    chosen.push_back(
        fmt::format("{} has the address {}, chosen by {}", describe(info), info.address, info.address_chosen_by));
  }
  if (chosen.empty()) return "";
  return fmt::format(
      ". {}. Where that is not an interface between the hosts, correct the variable, or set LOCKSTEP_SOCKET_IFNAME, "
      "which has precedence, on that host",
      fmt::join(chosen, "; "));
}

std::vector<int> JobContext::find_absent(const std::string& key, const std::vector<int>& of) noexcept {
  std::vector<int> absent;
  try {
    if (!store_answers()) return {};
    auto& store = *store_.store;
    const auto key_of = [&](int rank) { return fmt::format("late/{}/{}", key, rank); };
    store.set(key_of(world_.rank), to_bytes("1"));
    const auto deadline = Clock::now() + milliseconds(500);
    do {
      std::this_thread::sleep_for(kPoll);
      absent.clear();
      for (const int rank : of) {
        if (!store.check({key_of(rank)})) absent.push_back(rank);
      }
    } while (!absent.empty() && Clock::now() < deadline);
  } catch (const std::exception& error) {
    log_debug("cannot determine which ranks are late: {}", error.what());
  }
  return absent;
}

std::vector<NotesOfRank> JobContext::share_notes(const std::string& key, const std::string& own,
                                                 const std::vector<int>& of) noexcept {
  std::vector<NotesOfRank> notes;
  for (const int rank : of) notes.push_back({rank, rank == world_.rank ? own : std::string()});
  try {
    if (!store_answers()) return notes;
    auto& store = *store_.store;
    const auto key_of = [&](int rank) { return fmt::format("trace/{}/{}", key, rank); };
    store.set(key_of(world_.rank), to_bytes(own));
    const auto deadline = Clock::now() + std::chrono::seconds(2);
    const auto missing = [&] {
      bool some = false;
      for (auto& each : notes) {
        if (each.notes.empty() && store.check({key_of(each.rank)})) each.notes = to_text(store.get(key_of(each.rank)));
        some = some || each.notes.empty();
      }
      return some;
    };
    while (missing() && Clock::now() < deadline) std::this_thread::sleep_for(kPoll);
  } catch (const std::exception& error) {
    log_debug("cannot determine where the other ranks are in the program: {}", error.what());
  }
  return notes;
}

void JobContext::acknowledge() noexcept {
  try {
    store_.store->set(acknowledged_key(world_.rank), to_bytes("1"));
  } catch (const std::exception& error) {
    log_debug("the store at {} has ended: {}", store_.where, error.what());
  }
}

void JobContext::linger() noexcept {
  try {
    const auto deadline = Clock::now() + std::chrono::seconds(2);
    while (!everybody_knows() && Clock::now() < deadline) std::this_thread::sleep_for(kPoll);
  } catch (const std::exception& error) {
    log_debug("the store at {} ended early: {}", store_.where, error.what());
  }
}

bool JobContext::everybody_knows() {
  const auto ended = peers_.ended();
  for (const auto& peer : members_) {
    const bool is_gone = std::count(ended.begin(), ended.end(), peer.rank) != 0;
    if (!is_gone && !store_.store->check({acknowledged_key(peer.rank)})) return false;
  }
  return true;
}

}  // namespace lockstep::detail
