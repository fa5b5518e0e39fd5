#include <lockstep/base/error.h>
#include <lockstep/data/batch_maker.h>
#include <lockstep/data/batch_pool.h>
#include <lockstep/data/loader.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::data {
namespace {

constexpr int kMostWorkers = 1024;
constexpr int kMostPrefetch = 65536;

int batches_ahead(const LoaderOptions& options) {
  if (options.workers == 0) return 1;
  return options.prefetch > 0 ? options.prefetch : 2 * options.workers;
}

void check(const Dataset& dataset, const Pipeline& pipeline, const ShardedSampler& sampler,
           const LoaderOptions& options) {
  if (options.workers < 0 || options.workers > kMostWorkers || options.prefetch < 0 ||
      options.prefetch > kMostPrefetch) {
    fail(ErrorKind::invalid_argument, "loader", "{} workers and {} batches ahead: there can be 0 to {} and 0 to {}",
         options.workers, options.prefetch, kMostWorkers, kMostPrefetch);
  }
  if (dataset.shape() != pipeline.input()) {
    const auto [channels, height, width] = dataset.shape();
    const PictureShape& input = pipeline.input();
    fail(ErrorKind::invalid_argument, "loader",
         "the data set has pictures of {}x{}x{}, but the transforms take {}x{}x{}", channels, height, width,
         input.channels, input.height, input.width);
  }
  if (dataset.size() != sampler.options().dataset_size) {
    fail(ErrorKind::invalid_argument, "loader", "the data set has {} records, but the sampler counts {}",
         dataset.size(), sampler.options().dataset_size);
  }
}

}  // namespace

class Loader::Impl {
 public:
  Impl(BatchMaker maker, const LoaderOptions& options);
  ~Impl();

  void start(std::int64_t epoch, std::int64_t step);
  std::shared_ptr<Batch> next();
  const BatchMaker& maker() const { return maker_; }

 private:
  // A slot of the ring buffer between workers and consumer; step s uses slot s % slots_.size().
  struct Slot {
    std::shared_ptr<Batch> batch;
    std::exception_ptr error;
    bool ready = false;
  };

  struct Job {
    std::shared_ptr<const EpochRun> run;
    std::int64_t step = 0;
    std::uint64_t generation = 0;
  };

  void work(const std::stop_token& stop);
  std::optional<Job> wait_for_job(const std::stop_token& stop);
  Slot make(const Job& job, Pipeline::Scratch& scratch, const std::stop_token& stop);
  void finish(const Job& job, Slot slot);
  std::shared_ptr<Batch> next_here();
  std::shared_ptr<Batch> take(Slot slot);

  const BatchMaker maker_;
  BatchPool pool_;
  Pipeline::Scratch own_scratch_;  // used by the consumer thread, without workers

  std::mutex mutex_;
  std::condition_variable_any room_;  // signals workers: there may be a batch to make
  std::condition_variable ready_;     // signals the consumer: the next batch may be ready
  std::vector<Slot> slots_;
  std::shared_ptr<const EpochRun> run_;
  std::int64_t next_to_make_ = 0;
  std::int64_t next_to_deliver_ = 0;
  std::exception_ptr failure_;                 // the error that `next` threw
  std::atomic<std::uint64_t> generation_ = 0;  // number of `start` calls; batches of an older generation are discarded

  std::stop_source stop_;
  std::vector<std::jthread> workers_;
};

Loader::Impl::Impl(BatchMaker maker, const LoaderOptions& options)
    : maker_(std::move(maker)),
      // Batches in the ring buffer, batches that workers are making, and two that the consumer holds.
      pool_(static_cast<std::size_t>(batches_ahead(options) + options.workers + 2)),
      slots_(static_cast<std::size_t>(batches_ahead(options))) {
  try {
    for (int i = 0; i < options.workers; ++i) workers_.emplace_back([this] { work(stop_.get_token()); });
  } catch (const std::system_error& error) {
    stop_.request_stop();
    fail(ErrorKind::io, "loader", "cannot start worker thread {} of {}: {}; lower the number of workers",
         workers_.size() + 1, options.workers, error.what());
  }
}

Loader::Impl::~Impl() { stop_.request_stop(); }

void Loader::Impl::start(std::int64_t epoch, std::int64_t step) {
  const std::int64_t steps = maker_.sampler.steps_per_epoch();
  if (step < 0 || step > steps) {
    fail(ErrorKind::invalid_argument, "loader", "cannot start at step {} of an epoch of {} steps", step, steps);
  }
  auto run = std::make_shared<const EpochRun>(EpochRun{epoch, maker_.sampler.epoch(epoch)});
  {
    const std::lock_guard lock(mutex_);
    ++generation_;
    run_ = std::move(run);
    next_to_make_ = step;
    next_to_deliver_ = step;
    failure_ = nullptr;
    for (Slot& slot : slots_) slot = {};
  }
  room_.notify_all();
}

std::shared_ptr<Batch> Loader::Impl::next() {
  if (failure_) std::rethrow_exception(failure_);
  if (!run_ || next_to_deliver_ >= run_->order.steps()) return nullptr;
  if (workers_.empty()) return next_here();
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

std::shared_ptr<Batch> Loader::Impl::next_here() {
  const Job job{run_, next_to_deliver_, generation_};
  ++next_to_deliver_;
  return take(make(job, own_scratch_, stop_.get_token()));
}

std::shared_ptr<Batch> Loader::Impl::take(Slot slot) {
  if (!slot.error) return std::move(slot.batch);
  const std::lock_guard lock(mutex_);
  failure_ = slot.error;
  // No later batch will be used: stop the workers until the next `start`.
  next_to_make_ = run_->order.steps();
  std::rethrow_exception(failure_);
}

void Loader::Impl::work(const std::stop_token& stop) {
  Pipeline::Scratch scratch;
  while (const std::optional<Job> job = wait_for_job(stop)) finish(*job, make(*job, scratch, stop));
}

std::optional<Loader::Impl::Job> Loader::Impl::wait_for_job(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto has_room = [&] {
    const auto ahead = static_cast<std::int64_t>(slots_.size());
    return run_ && next_to_make_ < run_->order.steps() && next_to_make_ < next_to_deliver_ + ahead;
  };
  if (!room_.wait(lock, stop, has_room) || stop.stop_requested()) return std::nullopt;
  return Job{run_, next_to_make_++, generation_};
}

// Never throws: exceptions are stored in the slot, for the consumer.
Loader::Impl::Slot Loader::Impl::make(const Job& job, Pipeline::Scratch& scratch, const std::stop_token& stop) {
  Slot slot;
  try {
    slot.batch = pool_.take();
    const auto cancelled = [&] { return stop.stop_requested() || generation_.load() != job.generation; };
    maker_.fill(*slot.batch, *job.run, job.step, scratch, cancelled);
  } catch (...) {
    slot.batch.reset();
    slot.error = std::current_exception();
  }
  return slot;
}

void Loader::Impl::finish(const Job& job, Slot slot) {
  {
    const std::lock_guard lock(mutex_);
    if (generation_ != job.generation) return;
    slot.ready = true;
    slots_[static_cast<std::size_t>(job.step) % slots_.size()] = std::move(slot);
  }
  ready_.notify_one();
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, const ShardedSampler& sampler,
               const LoaderOptions& options) {
  check(*dataset, pipeline, sampler, options);
  impl_ = std::make_unique<Impl>(BatchMaker{std::move(dataset), std::move(pipeline), sampler, options.seed}, options);
}

Loader::~Loader() = default;

void Loader::start(std::int64_t epoch, std::int64_t step) { impl_->start(epoch, step); }

std::shared_ptr<Batch> Loader::next() { return impl_->next(); }

const ShardedSampler& Loader::sampler() const { return impl_->maker().sampler; }

const Pipeline& Loader::pipeline() const { return impl_->maker().pipeline; }

}  // namespace lockstep::data
