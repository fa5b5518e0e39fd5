// A nonblocking ncclComm_t: launches and splits polled until settled, finalized or aborted at the end.
#include <lockstep/comm/nccl/communicator.h>

#include <lockstep/base/error.h>

#include <algorithm>
#include <thread>

namespace lockstep::detail::nccl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kLongestPause(1000);
constexpr milliseconds kBetweenChecks(50);
constexpr milliseconds kToClose(2000);

ncclConfig_t nonblocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

ncclUniqueId new_id() {
  ncclUniqueId id{};
  if (const auto result = ncclGetUniqueId(&id); result != ncclSuccess) {
    fail(ErrorKind::unsupported, "connect", "NCCL cannot start: {}; NCCL_DEBUG=INFO shows more",
         ncclGetLastError(nullptr));
  }
  return id;
}

Communicator::Communicator(const ncclUniqueId& id, int rank, int size, const Patience& patience) {
  auto config = nonblocking();
  try {
    settle("ncclCommInitRankConfig", ncclCommInitRankConfig(&comm_, size, id, rank, &config), patience);
  } catch (...) {
    abort();
    throw;
  }
}

Communicator::Communicator(Communicator& parent, int rank, const Patience& patience) {
  auto config = nonblocking();
  const auto split = [&](ncclComm_t comm) { return ncclCommSplit(comm, 0, rank, &comm_, &config); };
  try {
    parent.launch("ncclCommSplit", split, patience);
    // NCCL sets comm_ when the parent is no longer in progress.
    settle("ncclCommSplit", ncclSuccess, patience);
  } catch (...) {
    abort();
    throw;
  }
}

void Communicator::stay_out(Communicator& parent, const Patience& patience) {
  ncclComm_t none = nullptr;
  auto config = nonblocking();
  parent.launch(
      "ncclCommSplit", [&](ncclComm_t comm) { return ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, &config); },
      patience);
}

Communicator::~Communicator() {
  {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return;
  }
  try {
    launch("ncclCommFinalize", ncclCommFinalize, {Clock::now() + kToClose, [] {}});
    const std::lock_guard lock(mutex_);
    ncclCommDestroy(comm_);
    comm_ = nullptr;
  } catch (const Error&) {
    abort();
  }
}

void Communicator::launch(std::string_view what, c10::function_ref<ncclResult_t(ncclComm_t)> calls,
                          const Patience& patience) {
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) fail(ErrorKind::peer_lost, what, "the communicator of NCCL was ended");
    result = calls(comm_);
  }
  settle(what, result, patience);
}

void Communicator::settle(std::string_view what, ncclResult_t result, const Patience& patience) {
  if (!went_well(result)) fail_with(what, result);
  auto next_check = Clock::now() + kBetweenChecks;
  for (microseconds pause(1); !is_settled(what); pause = std::min(pause * 2, kLongestPause)) {
    const auto now = Clock::now();
    if (now >= patience.deadline) fail(ErrorKind::timeout, what, "NCCL did not complete {} in time", what);
    if (now >= next_check) {
      patience.check();
      next_check = now + kBetweenChecks;
    }
    std::this_thread::sleep_for(pause);
  }
}

bool Communicator::is_settled(std::string_view what) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) fail(ErrorKind::peer_lost, what, "the communicator of NCCL was ended");
  auto state = ncclSuccess;
  const auto asked = ncclCommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) fail_with(what, asked);
  if (!went_well(state)) fail_with(what, state);
  return state == ncclSuccess;
}

void Communicator::check() { is_settled("NCCL"); }

void Communicator::fail_with(std::string_view what, ncclResult_t result) const {
  const std::string_view words = ncclGetLastError(comm_);
  fail(ErrorKind::peer_lost, what, "{}: {}{}{}; NCCL_DEBUG=INFO shows more", what, ncclGetErrorString(result),
       words.empty() ? "" : ": ", words);
}

void Communicator::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_ != nullptr) ncclCommAbort(comm_);
  comm_ = nullptr;
}

}  // namespace lockstep::detail::nccl
