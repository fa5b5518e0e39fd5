// Optimizers, parameter groups and schedules as a configuration names them, for comparison with test_optimizers.py:
//   parity_optimizer_steps JOB...
// Each job trains its model on its batches, with the keys of the file JOB.yaml beside it. Writes OUT.json and
// OUT.safetensors.
#include <lockstep/state/safetensors.h>
#include <lockstep/train/config.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/optimizer/parameter_groups.h>
#include <lockstep/train/optimizer/schedule.h>

#include "parity/jobs.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <exception>
#include <fstream>
#include <span>

namespace {

using namespace lockstep;

/// An epoch is five batches, for schedules that count epochs.
constexpr std::int64_t kBatchesOfEpoch = 5;

void run_job(const std::filesystem::path& file) {
  const auto job = parity::read_job(file);
  const auto config = train::load_run_config(std::filesystem::path(file).replace_extension(".yaml"));
  const auto plan = train::run_length_of(config, kBatchesOfEpoch);
  const auto model = parity::make_model(job);
  train::load_weights(*model, job.weights);
  train::freeze_parameters(*model, config.model.freeze);
  const auto optimizer = train::make_optimizer(config, train::trainable_parameters(*model));
  const auto batches = state::load_safetensors(job.batches);
  std::vector<double> losses;
  std::vector<double> rates;
  for (std::int64_t step = 0; step < plan.total_steps; ++step) {
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    const auto loss =
        torch::cross_entropy_loss(model->forward(batches.at("pictures")[step]), batches.at("labels")[step]);
    loss.backward();
    losses.push_back(loss.item<double>());
    rates.push_back(train::learning_rate(plan.schedule, step));
    train::set_learning_rate(*optimizer, rates.back());
    optimizer->step();
  }
  std::ofstream(job.out.string() + ".json") << nlohmann::json{{"losses", losses}, {"rates", rates}}.dump();
  train::save_weights(*model, job.out.string() + ".safetensors");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    torch::set_num_threads(1);
    for (const char* job : std::span(argv, static_cast<std::size_t>(argc)).subspan(1)) run_job(job);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
