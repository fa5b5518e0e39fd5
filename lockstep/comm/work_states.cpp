#include <lockstep/comm/work_states.h>

#include <algorithm>
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
    // Cleared before it runs: it must not run twice, and what it holds must not outlive it.
    if (const auto finish = std::exchange(finish_, nullptr)) finish();
  }

  bool test() override { return first_->test(); }
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

}  // namespace lockstep::detail
