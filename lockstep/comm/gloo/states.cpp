// Work states over c10d::Work and futures, which check peers while they wait, and the conversion of Gloo's exceptions.
#include <lockstep/comm/gloo/states.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::detail::gloo {
namespace {

using std::chrono::milliseconds;

class CollectiveState : public WorkState {
 public:
  explicit CollectiveState(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}

  void wait(milliseconds timeout) override {
    try {
      work_->wait(std::max(timeout, milliseconds(1)));  // for c10d 0 means no timeout
    } catch (const std::exception& error) {
      if (!work_->isCompleted()) throw Error(ErrorKind::timeout, "gloo", "not complete");
      throw as_error(error);
    }
  }

  bool test() override { return work_->isCompleted(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

class ThreadState : public WorkState {
 public:
  explicit ThreadState(std::shared_future<void> done) : done_(std::move(done)) {}

  void wait(milliseconds timeout) override {
    if (done_.wait_for(timeout) != std::future_status::ready) throw Error(ErrorKind::timeout, "gloo", "not complete");
    done_.get();
  }

  bool test() override { return is_ready(done_); }

 private:
  std::shared_future<void> done_;
};

class WatchedState : public WorkState {
 public:
  WatchedState(Backend::Pending work, std::function<void()> check) : work_(std::move(work)), check_(std::move(check)) {}

  void wait(milliseconds timeout) override {
    constexpr milliseconds kBetweenLooks(1000);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
      try {
        return work_->wait(std::clamp(left, milliseconds(0), kBetweenLooks));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::timeout || left <= kBetweenLooks || work_->test()) throw;
      }
      check_peers();
    }
  }

  bool test() override { return work_->test(); }

  void check_peers() override {
    constexpr milliseconds kInARow(5000);
    const auto now = std::chrono::steady_clock::now();
    try {
      check_();
      missing_since_.reset();
    } catch (const Error&) {
      if (!missing_since_) missing_since_ = now;
      if (now - *missing_since_ >= kInARow) throw;
    }
  }

 private:
  Backend::Pending work_;
  std::function<void()> check_;
  std::optional<std::chrono::steady_clock::time_point> missing_since_;
};

}  // namespace

Error as_error(const std::exception& error) {
  std::string text = error.what();
  // Gloo's text begins with the source line: "[/src/gloo/transport/tcp/pair.cc:799] connect [10.0.0.2]:4711: ...".
  if (const auto end = text.find("] "); text.starts_with('[') && text.find(".cc:") < end) text.erase(0, end + 2);
  // A connection is lost, not late, when its other end has not answered the kernel for too long, or refuses it.
  const bool lost =
      text.find("Connection timed out") != std::string::npos || text.find("Connection refused") != std::string::npos;
  const bool late =
      !lost && (text.find("Timed out") != std::string::npos || text.find("timed out") != std::string::npos);
  return Error(late ? ErrorKind::timeout : ErrorKind::peer_lost, "gloo", text.substr(0, text.find('\n')));
}

Backend::Pending pending(c10::intrusive_ptr<c10d::Work> work) {
  return std::make_shared<CollectiveState>(std::move(work));
}

bool is_ready(const std::shared_future<void>& done) {
  return done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Backend::Pending pending(std::shared_future<void> done) { return std::make_shared<ThreadState>(std::move(done)); }

Backend::Pending watched(Backend::Pending work, std::function<void()> check) {
  return std::make_shared<WatchedState>(std::move(work), std::move(check));
}

}  // namespace lockstep::detail::gloo
