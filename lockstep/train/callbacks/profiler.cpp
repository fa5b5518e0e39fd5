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
#include <optional>
#include <set>
#include <tuple>
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
  std::string place{};      ///< of a collective: where in the program it was called, as far as known
};

/// The calls of a rank, taken from what its groups remember: collectives and messages that are complete.
class CollectiveBars {
 public:
  /// Calls that were made before this time are left out.
  explicit CollectiveBars(Clock::time_point begin) : begin_(begin) {}

  /// Takes the calls that have ended since the last time.
  void take(const Group& group) {
    for (const auto& [name, calls] : recent_calls(group)) {
      for (const auto& call : calls) {
        if (call.asked < begin_ || !call.completed) continue;
        if (!taken_.emplace(name, call.is_message(), call.number).second) continue;
        bars_.push_back({call.op, call.asked, *call.completed, static_cast<std::int64_t>(call.number), name, call.bytes,
                         call.place});
      }
    }
  }
  const std::vector<Bar>& bars() const { return bars_; }

 private:
  Clock::time_point begin_;
  std::set<std::tuple<std::string, bool, std::uint64_t>> taken_;
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
    std::vector<TraceArgument> arguments{
        {"bytes", static_cast<std::int64_t>(bar.bytes)}, {"group", bar.group}, {"number", bar.number}};
    if (!bar.place.empty()) arguments.push_back({"place", bar.place});
    trace.add({bar.name, "collective", thread, since_epoch(bar.begin), bar.end - bar.begin, std::move(arguments)});
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
    if (!done_ && !bars_ && run.step() + 1 >= options_.from_step) start(run);
    if (!bars_) return;
    step_begun_ = Clock::now();
    begin(run, "forward");
  }
  void before_backward(RunView& run) override { begin(run, "backward"); }
  void after_backward(RunView& run) override { begin(run, "clip"); }
  void before_update(RunView& run) override { begin(run, "optimizer"); }
  void after_update(RunView& run) override { end(run); }
  void before_evaluation(RunView& run) override { begin(run, "evaluation"); }
  void after_evaluation(RunView& run, const Evaluation&) override { end(run); }
  void before_save(RunView& run) override { begin(run, "save"); }
  void after_save(RunView& run) override { end(run); }

  void after_step(RunView& run, const StepReport& report) override {
    if (!bars_) return;
    end(run);
    if (step_begun_) phases_.push_back({"step", *step_begun_, Clock::now(), report.step});
    step_begun_.reset();
    if (report.step >= first_step_ + options_.steps - 1) finish(run);
  }
  void after_run(RunView& run) override {
    if (bars_) finish(run);
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
    bars_.emplace(Clock::now());
  }

  void begin(RunView& run, const char* phase) {
    if (!bars_) return;
    end(run);
    phase_ = phase;
    phase_begun_ = Clock::now();
  }

  // A group remembers fewer calls than a run makes, but more than a phase does.
  void end(RunView& run) {
    if (!bars_) return;
    if (phase_ != nullptr) phases_.push_back({phase_, phase_begun_, Clock::now()});
    phase_ = nullptr;
    bars_->take(run.group());
  }

  /// Merges the parts of all ranks into one file.
  void finish(RunView& run) {
    end(run);
    const CollectiveBars recorded = *std::exchange(bars_, std::nullopt);
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
    informs_.write(run, [&] { own = own_part(group.rank(), offset, recorded); });
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

  std::string own_part(int rank, const ClockOffset& offset, const CollectiveBars& recorded) {
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
      add_collectives(trace, recorded.bars());
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
  std::optional<CollectiveBars> bars_;  ///< while steps are recorded
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
