#include <lockstep/comm/work_states.h>

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

 private:
  Backend::Pending first_;
  std::function<void()> finish_;
};

}  // namespace

Backend::Pending done() { return std::make_shared<DoneState>(); }

Backend::Pending then(Backend::Pending first, std::function<void()> finish) {
  return std::make_shared<ThenState>(std::move(first), std::move(finish));
}

}  // namespace lockstep::detail
