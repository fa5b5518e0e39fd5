// The prefetcher of loaders: items of an epoch, made ahead on several threads and delivered in order.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/data/sampler.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::data {

/// One epoch of a loader: its number and the order of this rank's records.
struct EpochRun {
  std::int64_t epoch = 0;
  EpochOrder order;
};

/// Not thread-safe: one consumer thread, which also makes the items when there are no workers. The destructor may run
/// at any time and waits only for items in progress, which it cancels.
template <typename Item>
class Prefetcher {
 public:
  struct Request {
    const EpochRun& run;
    std::int64_t step;
    int worker;                              ///< 0 to workers - 1; 0 without workers
    const std::function<bool()>& cancelled;  ///< true: the item will not be used
  };
  using Make = std::function<Item(const Request&)>;

  /// `ahead`: items that are ready or in progress at a time, at least 1. Error(io) when threads cannot be started.
  Prefetcher(int workers, int ahead, Make make) : make_(std::move(make)), slots_(static_cast<std::size_t>(ahead)) {
    try {
      for (int i = 0; i < workers; ++i) workers_.emplace_back([this, i] { work(i, stop_.get_token()); });
    } catch (const std::system_error& error) {
      stop_.request_stop();
      fail(ErrorKind::io, "loader", "cannot start worker thread {} of {}: {}; lower the number of workers",
           workers_.size() + 1, workers, error.what());
    }
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher() { stop_.request_stop(); }

  /// Continues at `step` of `run`; unfinished items are dropped.
  void start(EpochRun run, std::int64_t step) {
    const std::int64_t steps = run.order.steps();
    if (step < 0 || step > steps) {
      fail(ErrorKind::invalid_argument, "loader", "cannot start at step {} of an epoch of {} steps", step, steps);
    }
    auto shared = std::make_shared<const EpochRun>(std::move(run));
    {
      const std::lock_guard lock(mutex_);
      ++generation_;
      run_ = std::move(shared);
      next_to_make_ = step;
      next_to_deliver_ = step;
      failure_ = nullptr;
      for (Slot& slot : slots_) slot = {};
    }
    room_.notify_all();
  }

  /// The next item; nullopt after the last one, or before `start`. The error of an item is thrown in place of that
  /// item, and again by each further call until `start`.
  std::optional<Item> next() {
    if (failure_) std::rethrow_exception(failure_);
    if (!run_ || next_to_deliver_ >= run_->order.steps()) return std::nullopt;
    if (workers_.empty()) {
      const Job job{run_, next_to_deliver_, generation_};
      ++next_to_deliver_;
      return take(make(job, 0, stop_.get_token()));
    }
    Slot slot;
    {
      std::unique_lock lock(mutex_);
      Slot& head = slots_[static_cast<std::size_t>(next_to_deliver_) % slots_.size()];
      ready_.wait(lock, [&] { return head.ready; });
      slot = std::exchange(head, {});
      ++next_to_deliver_;
    }
    room_.notify_one();
    return take(std::move(slot));
  }

 private:
  // A slot of the ring buffer between workers and consumer; step s uses slot s % slots_.size().
  struct Slot {
    std::optional<Item> item;
    std::exception_ptr error;
    bool ready = false;
  };

  struct Job {
    std::shared_ptr<const EpochRun> run;
    std::int64_t step = 0;
    std::uint64_t generation = 0;
  };

  std::optional<Item> take(Slot slot) {
    if (!slot.error) return std::move(slot.item);
    const std::lock_guard lock(mutex_);
    failure_ = slot.error;
    // No later item will be used: stop the workers until the next `start`.
    next_to_make_ = run_->order.steps();
    std::rethrow_exception(failure_);
  }

  void work(int worker, const std::stop_token& stop) {
    while (const std::optional<Job> job = wait_for_job(stop)) finish(*job, make(*job, worker, stop));
  }

  std::optional<Job> wait_for_job(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    const auto has_room = [&] {
      const auto ahead = static_cast<std::int64_t>(slots_.size());
      return run_ && next_to_make_ < run_->order.steps() && next_to_make_ < next_to_deliver_ + ahead;
    };
    if (!room_.wait(lock, stop, has_room) || stop.stop_requested()) return std::nullopt;
    return Job{run_, next_to_make_++, generation_};
  }

  // Never throws: exceptions are stored in the slot, for the consumer.
  Slot make(const Job& job, int worker, const std::stop_token& stop) {
    Slot slot;
    try {
      const std::function<bool()> cancelled = [&] { return stop.stop_requested() || generation_ != job.generation; };
      slot.item = make_(Request{*job.run, job.step, worker, cancelled});
    } catch (...) {
      slot.error = std::current_exception();
    }
    return slot;
  }

  void finish(const Job& job, Slot slot) {
    {
      const std::lock_guard lock(mutex_);
      if (generation_ != job.generation) return;
      slot.ready = true;
      slots_[static_cast<std::size_t>(job.step) % slots_.size()] = std::move(slot);
    }
    ready_.notify_one();
  }

  const Make make_;
  std::mutex mutex_;
  std::condition_variable_any room_;  // signals workers: there may be an item to make
  std::condition_variable ready_;     // signals the consumer: the next item may be ready
  std::vector<Slot> slots_;
  std::shared_ptr<const EpochRun> run_;
  std::int64_t next_to_make_ = 0;
  std::int64_t next_to_deliver_ = 0;
  std::exception_ptr failure_;                 // the error that `next` threw
  std::atomic<std::uint64_t> generation_ = 0;  // number of `start` calls; items of an older generation are discarded

  std::stop_source stop_;
  std::vector<std::jthread> workers_;
};

}  // namespace lockstep::data
