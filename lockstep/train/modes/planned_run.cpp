// The trace of one training step on a model without memory: forward, loss, clipping and optimizer; the warning where
// the host has less memory than it needs; shapes, states and distinct rows of embedding tables.
#include <lockstep/base/error.h>
#include <lockstep/models/remote_rows.h>
#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/search/search.h>
#include <lockstep/plan/trace/trace_step.h>
#include <lockstep/samples/criteo.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/forward.h>
#include <lockstep/train/modes/planned_run.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/optimizer/gradient_scaling.h>
#include <lockstep/train/served/served_tables.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <unordered_set>
#include <vector>

namespace lockstep::train {
namespace {

samples::Batch example_of(const Program& program) {
  return program.example ? program.example() : program.data(data::Split::train)->example();
}

template <typename Trace>
PlannedStep timed(const Trace& trace) {
  const auto start = std::chrono::steady_clock::now();
  PlannedStep step{.graph = trace()};
  step.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return step;
}

std::vector<plan::ExampleInput> inputs_of(const samples::Batch& example, std::int64_t samples) {
  std::vector<plan::ExampleInput> inputs;
  for (const auto& [name, tensor] : example.tensors) {
    auto sizes = tensor.sizes().vec();
    sizes.at(0) = samples;
    inputs.push_back({.name = name, .sizes = std::move(sizes), .dtype = tensor.scalar_type()});
  }
  return inputs;
}

samples::Batch batch_of(const samples::Batch& example, const std::vector<at::Tensor>& tensors, std::int64_t samples) {
  samples::Batch batch;
  batch.count = samples;
  std::size_t i = 0;
  for (const auto& [name, tensor] : example.tensors) batch.tensors.emplace(name, tensors.at(i++));
  return batch;
}

std::shared_ptr<models::Gpt> gpt_without_memory(const models::GptShape& shape) {
  const plan::WithoutMemory scope;
  return models::gpt(shape);
}

constexpr std::int64_t kMostCounted = 1 << 16;

struct CountedRows {
  std::int64_t rows = 0;
  std::string where;
};

// Samples spread over the data set, like a shuffled batch.
CountedRows count_rows(const samples::Dataset& data, std::int64_t samples, std::uint64_t seed) {
  const auto read = std::min({samples, data.size(), kMostCounted});
  std::unordered_set<std::int64_t> rows;
  for (std::int64_t i = 0; i < read; ++i) {
    const auto index = i * (data.size() / read);
    const auto ids = data.collate({data.get(index, samples::Chance(seed, 0, index))})[samples::kIds].contiguous();
    const auto* id = ids.data_ptr<std::int64_t>();
    rows.insert(id, id + ids.numel());
  }
  return {static_cast<std::int64_t>(rows.size()), fmt::format("{} samples of the training data", read)};
}

// nullopt for an optimizer that is not a row optimizer.
std::optional<TableRules> find_rules(const ResolvedRun& config, const torch::nn::Module& module) {
  try {
    return std::optional<TableRules>(std::in_place, config, module, NamedParameters());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    return std::nullopt;
  }
}

}  // namespace

std::vector<plan::ExampleInput> inputs_of_step(const Program& program, std::int64_t samples) {
  return inputs_of(example_of(program), samples);
}

PlannedStep trace_run(const ResolvedRun& config, const Program& program, std::int64_t samples) {
  return timed([&] { return trace_run(config, program, example_of(program), samples).graph; });
}

PlannedStep trace_run(const ResolvedRun& config, const Program& program, const samples::Batch& example,
                      std::int64_t samples) {
  return timed([&] {
    const auto model = model_without_memory(config, program);
    const double clip_norm = config.train.clip_norm;
    return plan::trace_step(
        {.module = model.module.get(),
         .inputs = inputs_of(example, samples),
         .loss =
             [&](const std::vector<at::Tensor>& in) {
               return model.task->run(*model.module, batch_of(example, in, samples), /*measures=*/false).loss;
             },
         .prepare_gradients =
             [clip_norm](const std::vector<at::Tensor>& parameters) {
               if (clip_norm > 0) clip_gradients(parameters, clip_norm);
             },
         .optimizer =
             [&](const std::vector<at::Tensor>& /*without their names*/) {
               return make_optimizer(config, trainable_parameters(*model.module));
             }});
  });
}

PlannedStep trace_gpt(const models::GptShape& shape, std::int64_t batch) {
  return timed([&] {
    const auto model = gpt_without_memory(shape);
    const std::vector<std::int64_t> sizes{batch, shape.context};
    return plan::trace_step(
        {.module = model.get(),
         .inputs = {{.name = "tokens", .sizes = sizes, .dtype = torch::kLong},
                    {.name = "next", .sizes = sizes, .dtype = torch::kLong}},
         .loss =
             [&](const std::vector<at::Tensor>& in) {
               const auto logits = model->forward(in[0]);
               return torch::cross_entropy_loss(logits.flatten(0, 1), in[1].flatten());
             },
         .optimizer = [](const std::vector<at::Tensor>& parameters) -> std::unique_ptr<torch::optim::Optimizer> {
           return std::make_unique<torch::optim::AdamW>(parameters);
         }});
  });
}

plan::Memory memory_of_step(const ResolvedRun& config, const Program& program, const samples::Batch& example,
                            std::int64_t samples) {
  const auto step = trace_run(config, program, example, samples);
  return plan::predict(step.graph, plan::Cluster{}, {1}, Placements(1), {}).memory;
}

std::string why_too_large(const plan::Memory& needed, int ranks, std::int64_t samples, std::uint64_t available) {
  using plan::shown;
  const auto missing = static_cast<double>(ranks) * (needed.total() - needed.parameters).value;
  if (missing <= static_cast<double>(available)) return "";
  return fmt::format(
      "warning: the first step does not fit into memory: {} samples a rank need about {} (parameters {}, gradients {}, "
      "optimizer {}, activations {}){}, and beside the parameters {} are available. The system may end the run without "
      "a message: make data.batch_size smaller (train.accumulate keeps the samples of a step), or use "
      "parallel.recompute, fewer ranks on this machine, or parallel.mode semi_auto",
      samples, shown(needed.total()), shown(needed.parameters), shown(needed.gradients), shown(needed.optimizer_state),
      shown(needed.activations), ranks == 1 ? "" : fmt::format(" on each of {} ranks here", ranks),
      shown(plan::Bytes{static_cast<double>(available)}));
}

std::optional<plan::TableQuestion> planned_tables(const ResolvedRun& config, const Program& program, int workers,
                                                  std::optional<int> servers) {
  auto served = config;  // so that the tables take no memory, however large they are
  served.parallel.mode = "parameter_server";
  const auto model = model_without_memory(served, program);
  const auto tables = models::tables_elsewhere(*model.module);
  if (tables.empty()) return std::nullopt;
  const auto rules = find_rules(config, *model.module);
  if (!rules) return std::nullopt;
  const auto samples = std::max<std::int64_t>(1, samples_of_step(config, workers) / workers);
  const auto counted = count_rows(*program.data(data::Split::train), samples, config.system.seed);
  plan::TableQuestion question{.samples = samples,
                               .counted = counted.where,
                               .servers = servers.value_or(static_cast<int>(config.cluster.server_num.value_or(0))),
                               .replicas = static_cast<int>(config.parallel.server.replicas)};
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto& shape = tables[i].table->shape();
    question.tables.push_back({.name = tables[i].name,
                               .rows = shape.rows,
                               .dim = shape.dim,
                               .states = static_cast<int>(rows::state_names(rules->settings(i).rule).size()),
                               .used = std::min(counted.rows, shape.rows)});
  }
  return question;
}

}  // namespace lockstep::train
