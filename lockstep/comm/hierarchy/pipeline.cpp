// Queues of operations by engine: under a lock, every test or wait advances the steps of all pending operations.
#include <lockstep/comm/hierarchy/plans.h>

#include <lockstep/comm/progress.h>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cstddef>
#include <exception>
#include <string_view>
#include <utility>

namespace lockstep::detail::hierarchy {
namespace {

using std::chrono::milliseconds;

constexpr auto kBetweenChecks = milliseconds(50);

std::string_view whom_for(Lane lane) {
  switch (lane) {
    case Lane::up: return "the other ranks of this host";
    case Lane::across: return "the other hosts";
    case Lane::down: return "the rank of this host that gets it from the other hosts";
    default: return "the other ranks";
  }
}

// An error on some engines only (for example a mismatch, which is detected where calls are compared) must end the group
// on all of them.
Error fatal(const Error& error) {
  if (error.kind() == ErrorKind::peer_lost || error.kind() == ErrorKind::timeout) return error;
  if (error.kind() == ErrorKind::mismatch) {
    return Error(ErrorKind::peer_lost, "hierarchy",
                 fmt::format("among ranks that share an engine, counted from 0: {}", error.message()));
  }
  return Error(ErrorKind::peer_lost, "hierarchy", error.message());
}

}  // namespace

struct Pipeline::Operation {
  explicit Operation(Plan its_plan) : plan(std::move(its_plan)) {}

  Lane lane() const { return plan.steps[next - 1].lane; }  ///< of the step that was started last

  Plan plan;
  std::size_t next = 0;      ///< the first step that was not started
  Backend::Pending running;  ///< the step before `next`, until it is complete
  bool done = false;
  std::optional<Error> error;
};

class Pipeline::State : public WorkState {
 public:
  State(Pipeline& pipeline, std::shared_ptr<const Operation> operation)
      : pipeline_(pipeline), operation_(std::move(operation)) {}
  void wait(milliseconds timeout) override { pipeline_.wait(*operation_, timeout); }
  bool test() override { return pipeline_.test(*operation_); }
  void check_peers() override { pipeline_.check(*operation_); }

 private:
  Pipeline& pipeline_;
  std::shared_ptr<const Operation> operation_;
};

Pipeline::Line* Pipeline::line_of(Lane lane) {
  return lane == Lane::message ? nullptr : &lines_[static_cast<std::size_t>(lane)];
}

Backend::Pending Pipeline::start(Plan plan) {
  const Lock lock(mutex_);
  if (failure_) throw *failure_;
  auto operation = std::make_shared<Operation>(std::move(plan));
  for (const auto& step : operation->plan.steps) {
    if (auto* line = line_of(step.lane)) line->push_back(operation.get());
  }
  operations_.push_back(operation);
  advance();
  if (operation->error) throw *operation->error;
  return std::make_shared<State>(*this, std::move(operation));
}

bool Pipeline::test(const Operation& operation) {
  const Lock lock(mutex_);
  if (!operation.done) advance();
  return operation.done;
}

void Pipeline::wait(const Operation& operation, milliseconds timeout) {
  const auto begin = Clock::now();
  auto next_check = begin + kBetweenChecks;
  Pause pause;
  for (;;) {
    {
      const Lock lock(mutex_);
      if (advance()) pause.restart();
      if (!operation.done && Clock::now() >= next_check) {
        check_peers(operation);
        next_check = Clock::now() + kBetweenChecks;
      }
      if (operation.error) throw *operation.error;
      if (operation.done) return;
      if (Clock::now() - begin >= timeout) {
        const auto whom = operation.running ? whom_for(operation.lane()) : "the operations before it";
        throw Error(ErrorKind::timeout, "hierarchy", fmt::format("waited for {}", whom));
      }
    }
    pause.take();
  }
}

void Pipeline::check(const Operation& operation) {
  const Lock lock(mutex_);
  if (!operation.done) check_peers(operation);
  if (operation.error) throw *operation.error;
}

// Returns whether anything moved.
bool Pipeline::advance() {
  const at::NoGradGuard no_grad;
  bool moved = false;
  // A failure empties the list.
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const auto operation = operations_[i];
    try {
      if (advance(*operation)) moved = true;
    } catch (const Error& error) {
      operation->error = operation->lane() == Lane::message ? error : fatal(error);
      fail_all(fatal(error));
    } catch (const std::exception& error) {
      fail_all(Error(ErrorKind::peer_lost, "hierarchy", error.what()));
    }
  }
  std::erase_if(operations_, [](const auto& operation) { return operation->done; });
  unfinished_ = !operations_.empty();
  return moved;
}

Progressed Pipeline::advance_all() noexcept {
  bool moved = false;
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) moved = advance();
  return {.unfinished = unfinished_, .moved = moved};
}

bool Pipeline::advance(Operation& operation) {
  constexpr auto kAtOnce = milliseconds(1000);
  auto& plan = operation.plan;
  for (bool moved = false;; moved = true) {
    if (operation.running) {
      if (!operation.running->test()) return moved;
      operation.running->wait(kAtOnce);
      operation.running.reset();
    }
    if (operation.next == plan.steps.size()) {
      if (plan.finish) plan.finish();
      operation.done = true;
      plan = {};  // releases the tensors
      return true;
    }
    const auto& step = plan.steps[operation.next];
    if (auto* line = line_of(step.lane)) {
      if (line->front() != &operation) return moved;
      line->pop_front();
    }
    ++operation.next;
    operation.running = step.start();
  }
}

void Pipeline::check_peers(const Operation& operation) {
  try {
    throw_if_failed_();
    for (const auto& each : operations_) {
      const bool is_it = each.get() == &operation;
      // An earlier message may arrive at any time; an earlier collective may block this one.
      if (each->running && (is_it || each->lane() != Lane::message)) each->running->check_peers();
      if (is_it) return;
    }
  } catch (const Error& error) {
    fail_all(fatal(error));
  }
}

void Pipeline::fail_all(const Error& error) {
  failure_ = error;
  for (const auto& operation : operations_) {
    if (!operation->done && !operation->error) operation->error = error;
    operation->done = true;
    operation->running.reset();
    operation->plan = {};
  }
  operations_.clear();
  unfinished_ = false;
  for (auto& line : lines_) line.clear();
}

}  // namespace lockstep::detail::hierarchy
