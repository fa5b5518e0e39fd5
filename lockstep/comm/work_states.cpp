// The states behind Work: wait, test and check of peers; a failed wait becomes the failure of the group.
#include <lockstep/comm/work_states.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/device/lane.h>
#include <lockstep/comm/group_impl.h>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace lockstep::detail {
namespace {

class DoneState : public WorkState {
 public:
  void wait(std::chrono::milliseconds) override {}
  bool test() override { return true; }
};

class ThenState : public WorkState {
 public:
  ThenState(Backend::Pending first, std::function<void()> finish)
      : first_(std::move(first)), finish_(std::move(finish)) {}

  void wait(std::chrono::milliseconds timeout) override {
    first_->wait(timeout);
    // Cleared before it runs: it must not run twice, and its captures must not outlive it.
    if (const auto finish = std::exchange(finish_, nullptr)) finish();
  }

  bool test() override { return first_->test(); }
  bool would_return() override { return first_->would_return(); }
  void check_peers() override { first_->check_peers(); }

 private:
  Backend::Pending first_;
  std::function<void()> finish_;
};

class AllState : public WorkState {
 public:
  explicit AllState(std::vector<Backend::Pending> works) : works_(std::move(works)) {}

  void wait(std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (const auto& work : works_) {
      const auto left = deadline - std::chrono::steady_clock::now();
      work->wait(std::max(std::chrono::ceil<std::chrono::milliseconds>(left), std::chrono::milliseconds(0)));
    }
  }
  bool test() override {
    return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->test(); });
  }
  bool would_return() override {
    return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->would_return(); });
  }
  void check_peers() override {
    for (const auto& work : works_) {
      if (!work->test()) return work->check_peers();
    }
  }

 private:
  std::vector<Backend::Pending> works_;
};

}  // namespace

Backend::Pending done() { return std::make_shared<DoneState>(); }

Backend::Pending all_of(std::vector<Backend::Pending> works) { return std::make_shared<AllState>(std::move(works)); }

Backend::Pending then(Backend::Pending first, std::function<void()> finish) {
  return std::make_shared<ThenState>(std::move(first), std::move(finish));
}

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

milliseconds since(Clock::time_point start) { return std::chrono::round<milliseconds>(Clock::now() - start); }

class CollectiveWork : public WorkState {
 public:
  CollectiveWork(std::shared_ptr<GroupImpl> group, const Call& call, Backend::Pending pending)
      : group_(std::move(group)), call_(call), pending_(std::move(pending)) {}

  void wait(milliseconds timeout) override {
    const auto groups = group_->job()->options().timeout;
    // A caller whose timeout is less than the group's only wants to check again later: its timeout fails nothing.
    settle(std::min(timeout, groups), timeout < groups);
  }

  void synchronize(milliseconds timeout) override {
    const auto start = Clock::now();
    wait(timeout);
    if (call_.device.is_cpu()) return;
    const auto limit = std::min(timeout, group_->job()->options().timeout);
    const auto& own = group_->backend_on(call_.device);
    const auto others = [&] { group_->job()->progress().advance_others(own); };
    if (!await_current_stream(call_.device, start + limit, others)) {
      throw Error(ErrorKind::timeout, call_.op,
                  fmt::format("{}, or what the stream has to do before, is not complete after {} ms",
                              group_->describe(call_), since(start).count()));
    }
    throw_if_ended_on_device();
  }

  bool test() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    if (!pending_ || pending_->test()) return true;
    // Another rank may first wait for an operation of another group.
    group_->job()->progress().advance_others(group_->backend_on(call_.device));
    return false;
  }

 private:
  // A wait that only orders streams finds no error, because the group has it.
  void throw_if_ended_on_device() const {
    if (call_.device.is_cpu()) return;
    if (const auto ended = group_->failure()) throw *ended;
  }

  void settle(milliseconds timeout, bool may_look_again) {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    throw_if_ended_on_device();
    if (!pending_) return;
    const at::NoGradGuard no_grad;  // for copies at the end
    const auto start = Clock::now();
    try {
      group_->wait_for(*pending_, call_, timeout);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::timeout && may_look_again) {
        throw Error(ErrorKind::timeout, call_.op,
                    fmt::format("{} is not complete after {} ms", group_->describe(call_), timeout.count()));
      }
      fail(start);
    } catch (...) {
      fail(start);
    }
    pending_.reset();
  }

  [[noreturn]] void fail(Clock::time_point start) {
    const auto problem = std::current_exception();
    try {
      group_->rethrow(call_, problem, since(start));
    } catch (...) {
      failure_ = std::current_exception();
      pending_.reset();
      throw;
    }
  }

  const std::shared_ptr<GroupImpl> group_;
  const Call call_;
  std::mutex mutex_;
  Backend::Pending pending_;  ///< none once settled
  std::exception_ptr failure_;
};

}  // namespace

Work start_work(GroupImpl& group, const Call& call, c10::function_ref<Backend::Pending()> start) {
  try {
    return Work(std::make_shared<CollectiveWork>(group.shared_from_this(), call, start()));
  } catch (...) {
    group.rethrow(call, std::current_exception(), since(call.begun));
  }
}

void finish_work(GroupImpl& group, const Call& call, c10::function_ref<Backend::Pending()> start) {
  try {
    group.wait_for(*start(), call, group.job()->options().timeout);
  } catch (...) {
    group.rethrow(call, std::current_exception(), since(call.begun));
  }
}

}  // namespace lockstep::detail

namespace lockstep {

Work::Work(std::shared_ptr<detail::WorkState> state) : state_(std::move(state)) {}

void Work::wait(std::optional<std::chrono::milliseconds> timeout) {
  if (!state_) return;
  state_->wait(timeout.value_or(std::chrono::milliseconds::max()));
}

void Work::synchronize(std::optional<std::chrono::milliseconds> timeout) {
  if (!state_) return;
  state_->synchronize(timeout.value_or(std::chrono::milliseconds::max()));
}

bool Work::test() { return !state_ || state_->test(); }

}  // namespace lockstep
