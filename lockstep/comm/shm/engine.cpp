// The progress loop of shared memory: advance collectives and messages, spin, yield, sleep, and check for lost ranks.
#include <lockstep/comm/shm/engine.h>
#include <lockstep/comm/shm/spin_then_sleep.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <poll.h>
#include <sched.h>

#include <algorithm>

namespace lockstep::shm {
namespace {

constexpr std::chrono::milliseconds kSlice{50};  // sleep between checks for lost ranks

void relax_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

bool has_ended(const UniqueFd& lifeline) {
  pollfd watched{lifeline.get(), POLLIN, 0};
  return lifeline && ::poll(&watched, 1, 0) == 1;
}

}  // namespace

Engine::Engine(const Segment& segment, std::shared_ptr<void> memory, EngineOptions options)
    : segment_(segment),
      memory_(std::move(memory)),
      options_(std::move(options)),
      strategy_(segment.ranks(), options_.cpus),
      endpoint_(segment, options_.rank),
      point_to_point_(segment, options_.rank) {}

Engine::~Engine() {
  segment_.left(options_.rank).store(1, std::memory_order_release);
  wake_sleepers(segment_, options_.rank);
}

void Engine::submit(std::shared_ptr<Collective> collective) {
  const Lock lock(mutex_);
  throw_if_failed();
  collective->start(endpoint_);
  collectives_.push_back(std::move(collective));
  advance();
}

void Engine::submit(std::shared_ptr<Send> send) {
  const Lock lock(mutex_);
  throw_if_failed();
  messages_.push_back(send);
  point_to_point_.post(*send);
  advance();
}

void Engine::submit(std::shared_ptr<Receive> receive) {
  const Lock lock(mutex_);
  throw_if_failed();
  messages_.push_back(receive);
  fail_on_error([&] { point_to_point_.post(*receive); });
  advance();
}

bool Engine::test(ShmOperation& operation) noexcept {
  if (operation.done()) return true;
  const Lock lock(mutex_);
  advance();
  return operation.done();
}

bool Engine::advance_all() noexcept {
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  const std::uint64_t before = moved();
  advance();
  return moved() != before;
}

void Engine::wait(ShmOperation& operation, std::chrono::milliseconds timeout) {
  if (operation.done()) return operation.rethrow();
  Lock lock(mutex_);
  Waiting waiting(strategy_);
  std::optional<Clock::time_point> start;
  Clock::time_point next_check;
  for (;;) {
    const std::uint64_t before = moved();
    advance();
    if (moved() != before) waiting.restart();
    if (operation.done()) return operation.rethrow();
    switch (waiting.next()) {
      case Waiting::Step::spin: relax_cpu(); break;
      case Waiting::Step::yield:
        lock.unlock();
        ::sched_yield();
        lock.lock();
        break;
      case Waiting::Step::sleep: {
        const auto now = Clock::now();
        if (!start) {
          start = now;
          next_check = now + kSlice;
        } else if (now >= next_check) {
          check_peers(operation);
          next_check = Clock::now() + kSlice;
        }
        if (now - *start >= timeout && !operation.done()) throw describe_timeout(operation);
        sleep(operation, std::min(next_check, *start + timeout), lock);
        break;
      }
    }
  }
}

void Engine::check(ShmOperation& operation) {
  const Lock lock(mutex_);
  advance();
  if (!operation.done()) check_peers(operation);
  if (operation.done()) operation.rethrow();
}

void Engine::sleep(ShmOperation& operation, Clock::time_point until, Lock& lock) {
  // One rank of each lack. The last rank is found step by step, and the ranks in between need not wake this one.
  std::vector<int> publishers;
  for (const Lack& lack : lacks_before(operation)) {
    if (!lack.ranks.empty()) publishers.push_back(lack.ranks.front());
  }
  const auto look_again = [&] {
    const std::uint64_t before = moved();
    advance();
    const bool news = operation.done() || moved() != before;
    lock.unlock();
    return news;
  };
  const auto limit = std::max(until - Clock::now(), Clock::duration(0));
  sleep_until_published(segment_, options_.rank, publishers, limit, look_again);
  lock.lock();
}

std::vector<Lack> Engine::lacks_before(const ShmOperation& operation) const {
  std::vector<Lack> lacks = operation.lacks(endpoint_);
  // A collective may also wait for its turn: then the causes that block the earlier ones count too.
  for (const auto& collective : collectives_) {
    if (collective.get() == &operation) break;
    if (collective->done()) continue;
    for (Lack& lack : collective->lacks(endpoint_)) lacks.push_back(std::move(lack));
  }
  return lacks;
}

void Engine::advance() noexcept {
  if (failure_) return;
  fail_on_error([this] {
    for (const auto& collective : collectives_) {
      if (!collective->done()) collective->advance(endpoint_);
    }
    while (!collectives_.empty() && collectives_.front()->done()) {
      endpoint_.complete(collectives_.front()->sequence());
      collectives_.pop_front();
    }
    endpoint_.flush();
    if (messages_.empty()) return;
    if (point_to_point_.advance()) ++messages_moved_;
    std::erase_if(messages_, [](const auto& message) { return message->done(); });
  });
  note_unfinished();
}

void Engine::note_unfinished() noexcept {
  unfinished_.store(!collectives_.empty() || !messages_.empty(), std::memory_order_relaxed);
}

// Only messages of the wrong size and lack of memory can fail here; no operation could continue after either.
template <typename Step>
void Engine::fail_on_error(const Step& step) noexcept {
  try {
    step();
  } catch (const Error& error) {
    report(Failure::wrong_size, options_.rank);
    fail_all(error);
  } catch (const std::exception& error) {
    report(Failure::gave_up, options_.rank);
    fail_all(Error(ErrorKind::peer_lost, "shm", error.what()));
  }
}

std::optional<Failure::Cause> Engine::gone(int rank) const {
  if (segment_.left(rank).load(std::memory_order_acquire) != 0) return Failure::left;
  const auto index = static_cast<std::size_t>(rank);
  if (index < options_.lifelines.size() && has_ended(options_.lifelines[index])) return Failure::died;
  return std::nullopt;
}

// All ranks that block the operation, in order, without duplicates.
std::vector<int> Engine::awaited(const ShmOperation& operation) const {
  std::vector<int> ranks;
  for (const Lack& lack : lacks_before(operation)) ranks.insert(ranks.end(), lack.ranks.begin(), lack.ranks.end());
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void Engine::check_peers(const ShmOperation& operation) {
  if (segment_.failure().state.load(std::memory_order_acquire) == Failure::ready) return fail_all(describe_failure());
  std::vector<std::pair<int, Failure::Cause>> gone_ranks;
  for (const int rank : awaited(operation)) {
    if (const auto cause = gone(rank)) gone_ranks.emplace_back(rank, *cause);
  }
  if (!gone_ranks.empty()) {
    advance();  // they may have completed their part before they ended
    const std::vector<int> still = awaited(operation);
    for (const auto& [rank, cause] : gone_ranks) {
      if (!std::binary_search(still.begin(), still.end(), rank)) continue;
      report(cause, rank);
      return fail_all(describe_failure());
    }
  }
  if (options_.while_waiting && !operation.done()) options_.while_waiting(awaited(operation));
}

void Engine::throw_if_failed() {
  if (!failure_ && segment_.failure().state.load(std::memory_order_acquire) == Failure::ready) {
    fail_all(describe_failure());
  }
  if (failure_) throw *failure_;
}

void Engine::report(Failure::Cause cause, int culprit) noexcept {
  Failure& failure = segment_.failure();
  std::uint32_t expected = Failure::none;
  if (!failure.state.compare_exchange_strong(expected, Failure::being_written, std::memory_order_acq_rel)) return;
  failure.cause = cause;
  failure.culprit = culprit;
  failure.reporter = options_.rank;
  failure.state.store(Failure::ready, std::memory_order_release);
  wake_sleepers(segment_, options_.rank);  // ranks that sleep for other ranks check after every slice
}

void Engine::fail_all(const Error& error) noexcept {
  failure_ = error;
  for (const auto& collective : collectives_) collective->finish_with(error);
  for (const auto& message : messages_) message->finish_with(error);
  collectives_.clear();
  messages_.clear();
  note_unfinished();
}

void Engine::abort() noexcept {
  const Lock lock(mutex_);
  report(Failure::gave_up, options_.rank);
  if (!failure_) fail_all(Error(ErrorKind::peer_lost, "shm", "this rank aborted the group"));
}

Error Engine::describe_failure() const {
  const Failure& failure = segment_.failure();
  const std::string culprit = rank_name(failure.culprit);
  const std::string reporter = failure.reporter == options_.rank || failure.reporter == failure.culprit
                                   ? std::string()
                                   : fmt::format(", as {} found", rank_name(failure.reporter));
  switch (failure.cause) {
    case Failure::died:
      return Error(ErrorKind::peer_lost, "shm", fmt::format("{} died while others waited for it{}", culprit, reporter));
    case Failure::left:
      return Error(ErrorKind::peer_lost, "shm",
                   fmt::format("{} left the group while others waited for it{}", culprit, reporter));
    case Failure::wrong_size:
      return Error(ErrorKind::peer_lost, "shm",
                   fmt::format("{} received a message whose size differs from that of the receiving tensor", culprit));
    default: return Error(ErrorKind::peer_lost, "shm", fmt::format("{} aborted the group", culprit));
  }
}

Error Engine::describe_timeout(const ShmOperation& operation) const {
  std::string what = "for operations before it";
  for (const Lack& lack : lacks_before(operation)) {
    if (lack.ranks.empty()) continue;
    std::vector<std::string> names;
    for (const int rank : lack.ranks) names.push_back(rank_name(rank));
    what = fmt::format("for {}, which {}", fmt::join(names, ", "), lack.what);
    break;
  }
  return Error(ErrorKind::timeout, operation.name(), fmt::format("waited {}", what));
}

std::string Engine::rank_name(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= options_.world_ranks.size()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (world rank {})", rank, options_.world_ranks[index]);
}

}  // namespace lockstep::shm
