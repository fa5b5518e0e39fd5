// Decorators of tasks, data sets, metrics, callbacks and part functions that add plugin and part names to exceptions.
#include <lockstep/base/error.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/plugins/error_origin.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <stdexcept>

namespace lockstep::train {
namespace {

bool is_of_ranks(ErrorKind kind) {
  return kind == ErrorKind::timeout || kind == ErrorKind::peer_lost || kind == ErrorKind::mismatch;
}

/// A part whose functions are called through `call`, which names the part in what they throw.
template <typename Base, typename Owner>
class NamedPart : public Base {
 public:
  NamedPart(Owner part, std::string who) : part_(std::move(part)), who_(std::move(who)) {}

 protected:
  template <auto function, typename... Arguments>
  auto call(Arguments&&... arguments) const {
    return call_from(who_, [&] { return ((*part_).*function)(std::forward<Arguments>(arguments)...); });
  }

  Owner part_;
  std::string who_;
};

struct NamedTask final : NamedPart<Task, std::shared_ptr<Task>> {
  using NamedPart::NamedPart;

  Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) override {
    return call<&Task::run>(model, batch, measures);
  }
  std::int64_t loss_sums() const override { return call<&Task::loss_sums>(); }
  at::Tensor loss_of(const at::Tensor& sums) const override { return call<&Task::loss_of>(sums); }
  Sums late_sums() override { return call<&Task::late_sums>(); }
  Values metrics(const Sums& sums) const override { return call<&Task::metrics>(sums); }
  Values metrics_of_rows(const Rows& rows) const override { return call<&Task::metrics_of_rows>(rows); }
  Prediction predict(torch::nn::Module& model, const samples::Batch& batch) override {
    return call<&Task::predict>(model, batch);
  }
  std::map<std::string, std::string, std::less<>> files(const Prediction& all) const override {
    return call<&Task::files>(all);
  }
  void leave_files(const Prediction& all, const std::filesystem::path& folder, std::int64_t rank,
                   std::int64_t ranks) const override {
    call<&Task::leave_files>(all, folder, rank, ranks);
  }
  std::vector<ShownPicture> pictures() override { return call<&Task::pictures>(); }
  std::string show(torch::nn::Module& model, const Place& place) override { return call<&Task::show>(model, place); }
  at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch) override {
    return call<&Task::nothing>(model, batch);
  }
};

struct NamedBatches final : NamedPart<samples::Batches, std::unique_ptr<samples::Batches>> {
  using NamedPart::NamedPart;

  void start(std::int64_t epoch, std::int64_t step) override { call<&Batches::start>(epoch, step); }
  std::optional<samples::Batch> next() override { return call<&Batches::next>(); }
  std::int64_t left_out() const override { return call<&Batches::left_out>(); }
};

struct NamedDataset final : NamedPart<samples::Dataset, std::shared_ptr<const samples::Dataset>> {
  using NamedPart::NamedPart;

  std::int64_t size() const override { return call<&Dataset::size>(); }
  samples::Sample get(std::int64_t index, const samples::Chance& chance) const override {
    return call<&Dataset::get>(index, chance);
  }
  samples::Batch collate(std::vector<samples::Sample> samples) const override {
    return call<&Dataset::collate>(std::move(samples));
  }
  std::unique_ptr<samples::Batches> batches(std::shared_ptr<const Dataset> /*self*/,
                                            const data::ShardedSampler& sampler,
                                            const data::LoaderOptions& options) const override {
    return std::make_unique<NamedBatches>(call<&Dataset::batches>(part_, sampler, options), who_);
  }
  std::vector<std::string> classes() const override { return call<&Dataset::classes>(); }
  std::vector<std::pair<std::string, std::string>> known_as(std::int64_t index) const override {
    return call<&Dataset::known_as>(index);
  }
  bool leaves_out_errors() const override { return call<&Dataset::leaves_out_errors>(); }
  data::EpochOrder order(const data::ShardedSampler& sampler, std::int64_t epoch) const override {
    return call<&Dataset::order>(sampler, epoch);
  }
  std::shared_ptr<const data::Pictures> stored() const override { return call<&Dataset::stored>(); }
  samples::Batch example() const override { return call<&Dataset::example>(); }
};

struct NamedMetric final : NamedPart<Metric, std::shared_ptr<Metric>> {
  using NamedPart::NamedPart;

  Measures measure(const at::Tensor& output, const at::Tensor& target) const override {
    return call<&Metric::measure>(output, target);
  }
  Values values(const Sums& sums) const override { return call<&Metric::values>(sums); }
  at::Tensor rows(const at::Tensor& output, const at::Tensor& target) const override {
    return call<&Metric::rows>(output, target);
  }
  Values values_of_rows(const at::Tensor& rows) const override { return call<&Metric::values_of_rows>(rows); }
};

struct NamedCallback final : NamedPart<Callback, std::unique_ptr<Callback>> {
  using NamedPart::NamedPart;

  std::string name() const override { return call<&Callback::name>(); }
  int priority() const override { return call<&Callback::priority>(); }
  void check(const ResolvedRun& run) const override { call<&Callback::check>(run); }
  std::vector<OwnPath> own_paths() const override { return call<&Callback::own_paths>(); }
  void before_run(RunView& run) override { call<&Callback::before_run>(run); }
  void after_run(RunView& run) override { call<&Callback::after_run>(run); }
  void before_epoch(RunView& run) override { call<&Callback::before_epoch>(run); }
  void after_epoch(RunView& run, const EpochReport& report) override { call<&Callback::after_epoch>(run, report); }
  void before_step(RunView& run) override { call<&Callback::before_step>(run); }
  void after_step(RunView& run, const StepReport& report) override { call<&Callback::after_step>(run, report); }
  void before_backward(RunView& run) override { call<&Callback::before_backward>(run); }
  void after_backward(RunView& run) override { call<&Callback::after_backward>(run); }
  void before_update(RunView& run) override { call<&Callback::before_update>(run); }
  void after_update(RunView& run) override { call<&Callback::after_update>(run); }
  void before_evaluation(RunView& run) override { call<&Callback::before_evaluation>(run); }
  void after_evaluation(RunView& run, const Evaluation& result) override {
    call<&Callback::after_evaluation>(run, result);
  }
  void before_save(RunView& run) override { call<&Callback::before_save>(run); }
  void after_save(RunView& run) override { call<&Callback::after_save>(run); }
  CallbackState state() const override { return call<&Callback::state>(); }
  void restore(const CallbackState& state) override { call<&Callback::restore>(state); }
};

/// `make`, whose results are with_error_origin, too. Error(invalid_argument) where a result is nullptr or an empty
/// function, unless it `may_be_empty`.
template <bool may_be_empty = false, typename Made, typename... Arguments>
std::function<Made(Arguments...)> with_result_origin(std::function<Made(Arguments...)> make, const std::string& who) {
  if (!make) return make;
  return [make = with_error_origin(std::move(make), who), who](Arguments... arguments) {
    auto made = make(std::forward<Arguments>(arguments)...);
    if constexpr (!may_be_empty) {
      if (!made) fail(ErrorKind::invalid_argument, who, "its function `make` returned nothing");
    }
    return with_error_origin(std::move(made), who);
  };
}

std::string name_of(const std::string& library, std::string_view kind, const std::string& part) {
  return fmt::format("{}, {} {}", library, kind, part);
}

}  // namespace

void rethrow_with(const std::string& who) {
  try {
    throw;
  } catch (const Error& error) {
    if (is_of_ranks(error.kind())) throw;
    const auto where = error.where().empty() ? "" : fmt::format("[{}] ", error.where());
    throw Error(error.kind(), who, where + error.message(), error.position());
  } catch (const c10::Error& error) {
    throw c10::Error({__func__, __FILE__, __LINE__}, fmt::format("[{}] {}", who, error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("[{}] {}", who, error.what()));
  } catch (...) {
    throw std::runtime_error(fmt::format("[{}] threw something that is not a std::exception", who));
  }
}

std::shared_ptr<Task> with_error_origin(std::shared_ptr<Task> task, const std::string& who) {
  return task ? std::make_shared<NamedTask>(std::move(task), who) : nullptr;
}

std::shared_ptr<const samples::Dataset> with_error_origin(std::shared_ptr<const samples::Dataset> dataset,
                                                          const std::string& who) {
  return dataset ? std::make_shared<NamedDataset>(std::move(dataset), who) : nullptr;
}

std::shared_ptr<Metric> with_error_origin(std::shared_ptr<Metric> metric, const std::string& who) {
  return metric ? std::make_shared<NamedMetric>(std::move(metric), who) : nullptr;
}

std::unique_ptr<Callback> with_error_origin(std::unique_ptr<Callback> callback, const std::string& who) {
  return callback ? std::make_unique<NamedCallback>(std::move(callback), who) : nullptr;
}

ModelPart part_with_error_origin(ModelPart part, const std::string& library) {
  const auto who = name_of(library, "model", part.name);
  if (part.make) part.make = with_error_origin(part.make.function(), who);
  part.save = with_error_origin(std::move(part.save), who);
  part.start = with_error_origin(std::move(part.start), who);
  return part;
}

DataPart part_with_error_origin(DataPart part, const std::string& library) {
  const auto who = name_of(library, "data set", part.name);
  part.load = with_result_origin</*may_be_empty=*/true>(std::move(part.load), who);
  part.example = with_error_origin(std::move(part.example), who);
  return part;
}

TaskPart part_with_error_origin(TaskPart part, const std::string& library) {
  part.make = with_result_origin(std::move(part.make), name_of(library, "task", part.name));
  return part;
}

LossPart part_with_error_origin(LossPart part, const std::string& library) {
  part.make = with_result_origin(std::move(part.make), name_of(library, "loss", part.name));
  return part;
}

OptimizerPart part_with_error_origin(OptimizerPart part, const std::string& library) {
  const auto who = name_of(library, "optimizer", part.name);
  part.make = with_error_origin(std::move(part.make), who);
  part.check = with_error_origin(std::move(part.check), who);
  return part;
}

SchedulePart part_with_error_origin(SchedulePart part, const std::string& library) {
  const auto who = name_of(library, "schedule", part.name);
  part.make = with_result_origin(std::move(part.make), who);
  part.check = with_error_origin(std::move(part.check), who);
  return part;
}

MetricPart part_with_error_origin(MetricPart part, const std::string& library) {
  const auto who = name_of(library, "metric", part.name);
  part.make = with_result_origin(std::move(part.make), who);
  part.values = with_error_origin(std::move(part.values), who);
  return part;
}

samples::TransformPart part_with_error_origin(samples::TransformPart part, const std::string& library) {
  const auto who = name_of(library, "transform", part.name);
  part.make = with_result_origin(std::move(part.make), who);
  part.make_for_batches = with_result_origin(std::move(part.make_for_batches), who);
  return part;
}

WrapperPart part_with_error_origin(WrapperPart part, const std::string& library) {
  const auto who = name_of(library, "wrapper", part.name);
  part.settings = with_error_origin(std::move(part.settings), who);
  part.place = with_error_origin(std::move(part.place), who);
  part.wrap = with_error_origin(std::move(part.wrap), who);
  return part;
}

Parts with_error_origin_of_program(Parts parts, const std::string& program) {
  for_each_kind([&](std::string_view, std::string_view, auto member) {
    for (auto& part : parts.*member) {
      if (find_part((*shared_shipped_parts()).*member, part.name) != nullptr) continue;
      part = part_with_error_origin(std::move(part), program);
    }
  });
  return parts;
}

CallbackPart part_with_error_origin(CallbackPart part, const std::string& library) {
  part.make = with_result_origin</*may_be_empty=*/true>(std::move(part.make), name_of(library, "callback", part.name));
  return part;
}

}  // namespace lockstep::train
