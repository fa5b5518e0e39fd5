// The profiler: some steps of a run as bars on a time line, with the collectives of all ranks.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/observe.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/callbacks/run_callbacks.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/resources/work_dir.h>
#include <lockstep/train/viewers/trace_file.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

namespace lockstep::train {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr double kMostRecordedSteps = 1000;  // viewers are slow with more bars
constexpr std::int64_t kStepsThread = 0;     // of the trace; collectives have the next ones

struct ProfilerOptions {
  std::int64_t from_step = 10;
  std::int64_t steps = 5;
  std::string file = "trace.json";
};

void describe(ConfigFields& fields, ProfilerOptions& options) {
  fields.field("from_step", options.from_step, between(1, 1e15),
               "the first step that is recorded; a run that goes on after it begins at once");
  fields.field("steps", options.steps, between(1, kMostRecordedSteps), "how many steps are recorded");
  fields.field("file", options.file, a_path(), "in system.work_dir, unless it is a whole path");
}

/// An activity of a rank, with times of the rank's own clock.
struct Bar {
  std::string name;
  Clock::time_point begin;
  Clock::time_point end;
  std::int64_t number = 0;  ///< of the step, or of the collective in its group
  std::string group{};      ///< of a collective
  std::uint64_t bytes = 0;  ///< of a collective
};

/// The collectives of a rank. Thread-safe, because several threads may wait for collectives.
class CollectiveBars {
 public:
  void add(const CollectiveSpan& span) {
    const std::lock_guard lock(mutex_);
    bars_.push_back({std::string(span.op), span.begin, span.end, static_cast<std::int64_t>(span.number),
                     std::string(span.group), span.bytes});
  }
  std::vector<Bar> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(bars_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Bar> bars_;
};

nanoseconds since_epoch(Clock::time_point time) { return time.time_since_epoch(); }

/// Bars of one thread of a trace must not overlap, but asynchronous collectives overlap: each gets the first free
/// thread.
void add_collectives(TraceFile& trace, std::vector<Bar> bars) {
  std::ranges::stable_sort(bars, {}, &Bar::begin);
  std::vector<Clock::time_point> busy_until;
  for (const auto& bar : bars) {
    auto lane = std::ranges::find_if(busy_until, [&](auto end) { return end <= bar.begin; });
    if (lane == busy_until.end()) lane = busy_until.insert(lane, bar.end);
    *lane = bar.end;
    const auto thread = kStepsThread + 1 + (lane - busy_until.begin());
    trace.add({bar.name,
               "collective",
               thread,
               since_epoch(bar.begin),
               bar.end - bar.begin,
               {{"bytes", static_cast<std::int64_t>(bar.bytes)}, {"group", bar.group}, {"number", bar.number}}});
  }
  for (std::size_t lane = 0; lane < busy_until.size(); ++lane) {
    trace.name_thread(kStepsThread + 1 + static_cast<std::int64_t>(lane),
                      lane == 0 ? "collectives" : fmt::format("collectives at the same time {}", lane + 1));
  }
}

/// The file opens in chrome://tracing and ui.perfetto.dev: each rank is a process with its steps and their phases, and
/// its collectives, from their start until the rank has waited for the result.
class Profiler final : public Callback {
 public:
  explicit Profiler(ProfilerOptions options) : options_(std::move(options)) {
    if (options_.file.empty()) fail(ErrorKind::config, "profiler", "its file is empty; give a name such as trace.json");
  }

  std::string name() const override { return "profiler"; }
  int priority() const override { return kFirst; }
  std::vector<OwnPath> own_paths() const override { return {{options_.file, "file"}}; }

  void before_run(RunView& run) override {
    if (run.group().rank() != 0) return;
    const auto file = file_of(run);
    informs_.write(run, [&] { require_writable_folder(file.parent_path(), "callbacks.use"); });
    if (std::filesystem::is_directory(file)) {
      fail(ErrorKind::config, "callbacks.use", "the profiler's file is {}, which is a folder; give another `file`",
           file.string());
    }
  }

  void before_step(RunView& run) override {
    if (!done_ && !observer_ && run.step() + 1 >= options_.from_step) start(run);
    if (!observer_) return;
    step_begun_ = Clock::now();
    begin("forward");
  }
  void before_backward(RunView&) override { begin("backward"); }
  void after_backward(RunView&) override { begin("clip"); }
  void before_update(RunView&) override { begin("optimizer"); }
  void after_update(RunView&) override { end(); }
  void before_evaluation(RunView&) override { begin("evaluation"); }
  void after_evaluation(RunView&, const Evaluation&) override { end(); }
  void before_save(RunView&) override { begin("save"); }
  void after_save(RunView&) override { end(); }

  void after_step(RunView& run, const StepReport& report) override {
    if (!observer_) return;
    end();
    if (step_begun_) phases_.push_back({"step", *step_begun_, Clock::now(), report.step});
    step_begun_.reset();
    if (report.step >= first_step_ + options_.steps - 1) finish(run);
  }
  void after_run(RunView& run) override {
    if (observer_) finish(run);
    if (!done_)
      run.tell(fmt::format("profiler: nothing is recorded, because the run ended before step {}", options_.from_step));
  }

 private:
  std::filesystem::path file_of(const RunView& run) const {
    return std::filesystem::path(run.config().system.work_dir) / options_.file;
  }

  void start(RunView& run) {
    offset_ = clock_offset(run.group());
    first_step_ = run.step() + 1;
    bars_ = std::make_shared<CollectiveBars>();
    observer_.emplace(run.group(), [bars = bars_](const CollectiveSpan& span) { bars->add(span); });
  }

  void begin(const char* phase) {
    if (!observer_) return;
    end();
    phase_ = phase;
    phase_begun_ = Clock::now();
  }

  void end() {
    if (observer_ && phase_ != nullptr) phases_.push_back({phase_, phase_begun_, Clock::now()});
    phase_ = nullptr;
  }

  /// Merges the parts of all ranks into one file.
  void finish(RunView& run) {
    end();
    observer_.reset();
    done_ = true;
    const auto& group = run.group();
    // Clocks drift. Between the two measurements, the difference lies between the two results.
    const auto later = clock_offset(group);
    const auto drift = later.to_rank_0 - offset_.to_rank_0;
    const ClockOffset offset{offset_.to_rank_0 + drift / 2,
                             std::max(offset_.accuracy, later.accuracy) + std::chrono::abs(drift) / 2};
    const auto offsets = all_gather(torch::tensor({offset.to_rank_0.count()}), group);
    auto worst = torch::tensor({offset.accuracy.count()});
    all_reduce(worst, group, ReduceOp::max);
    std::string own;
    informs_.write(run, [&] { own = own_part(group.rank(), offset); });
    const auto texts = gather_texts(own, group);
    if (group.rank() != 0) return;
    const auto file = file_of(run);
    const bool drawn = informs_.write(run, [&] {
      const TemporaryFolder folder("lockstep-trace");
      std::vector<RankTrace> parts;
      for (std::size_t rank = 0; rank < texts.size(); ++rank) {
        if (texts[rank].empty()) continue;  // that rank could not write it
        parts.push_back({folder.path() / std::to_string(rank),
                         nanoseconds(offsets[static_cast<std::int64_t>(rank)].item<std::int64_t>())});
        write_file_atomically(parts.back().file, texts[rank]);
      }
      merge_traces(parts, file);
    });
    if (!drawn) return;
    run.tell(fmt::format("profiler: {} shows steps {} to {}; the clocks of ranks agree to {:.3g} us", file.string(),
                         first_step_, run.step(),
                         std::chrono::duration<double, std::micro>(nanoseconds(worst.item<std::int64_t>())).count()));
  }

  std::string own_part(int rank, const ClockOffset& offset) {
    const TemporaryFolder folder("lockstep-trace");
    const auto file = folder.path() / "part";
    {
      TraceFile trace(file, rank);
      trace.label(fmt::format("its clock is within {:.3g} us of rank 0's",
                              std::chrono::duration<double, std::micro>(offset.accuracy).count()));
      trace.name_thread(kStepsThread, "steps");
      for (const auto& bar : phases_) {
        std::vector<TraceArgument> arguments;
        if (bar.number > 0) arguments.push_back({"step", bar.number});
        trace.add({bar.name, "step", kStepsThread, since_epoch(bar.begin), bar.end - bar.begin, arguments});
      }
      add_collectives(trace, bars_->take());
      trace.flush();
    }
    phases_.clear();
    return read_file(file).value_or("");
  }

  ProfilerOptions options_;
  OnlyInforms informs_{"the profiler's file"};
  bool done_ = false;
  std::int64_t first_step_ = 0;
  ClockOffset offset_;
  std::vector<Bar> phases_;
  std::shared_ptr<CollectiveBars> bars_;
  std::optional<CollectiveObserver> observer_;  ///< while steps are recorded
  std::optional<Clock::time_point> step_begun_;
  const char* phase_ = nullptr;
  Clock::time_point phase_begun_;
};

}  // namespace

void add_profiler(Parts& parts) {
  parts.callbacks.push_back(callback_part<Profiler>(
      "profiler", "draws some steps and their collectives on all ranks as trace.json", ProfilerOptions{}));
}

}  // namespace lockstep::train
