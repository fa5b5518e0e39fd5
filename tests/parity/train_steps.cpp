// One rank of a training job, for comparison with ddp_peer.py:
//   parity_train_steps BACKEND JOB...
// Started as often as there are ranks, with torchrun's environment. Writes OUT.rank<r>.json and, on rank 0,
// OUT.safetensors for each job.
#include <lockstep/comm/group.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/named_tensors.h>

#include "parity/jobs.h"
#include "parity/odd_models.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <span>

namespace {

using namespace lockstep;
using torch::Tensor;

/// Module::to would convert BatchNorm's counters as well.
void to_double(const torch::nn::Module& model) {
  for (auto& [name, tensor] : train::module_state(model)) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(torch::kDouble));
  }
}

std::shared_ptr<models::Network> load_model(const parity::Job& job) {
  auto model = parity::make_model(job);
  train::load_weights(*model, job.weights);
  if (job.dtype == "float64") to_double(*model);
  if (job.channels_last) to_channels_last(*model);
  auto parameters = model->named_parameters();
  for (const auto& name : job.frozen) parameters[name].set_requires_grad(false);
  return model;
}

/// libtorch lists a parameter that two modules share once for each.
std::vector<Tensor> trainable_parameters(const torch::nn::Module& model) {
  std::vector<Tensor> found;
  for (const auto& parameter : model.parameters()) {
    const auto is_same = [&](const Tensor& other) { return other.is_same(parameter); };
    if (parameter.requires_grad() && std::ranges::none_of(found, is_same)) found.push_back(parameter);
  }
  return found;
}

/// The same rule as in ddp_peer.py.
int head_for(int rank, std::int64_t step) { return step % 4 == 3 ? 0 : static_cast<int>((rank + step) % 2); }

/// Adds up the gradients of all micro-batches, sends them once, and returns the mean loss of the batch.
double accumulate(DataParallel& parallel, models::Network& model, const Tensor& pictures, const Tensor& labels,
                  std::int64_t micro_batches) {
  double total = 0;
  const auto parts = pictures.chunk(micro_batches);
  const auto part_labels = labels.chunk(micro_batches);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::optional<DataParallel::NoSync> quiet;
    if (i + 1 < parts.size()) quiet.emplace(parallel);
    const auto loss =
        torch::cross_entropy_loss(model.forward(parts[i]), part_labels[i]) / static_cast<double>(micro_batches);
    loss.backward();
    total += loss.item<double>();
  }
  return total;
}

std::vector<double> train_steps(const parity::Job& job, DataParallel& parallel, models::Network& model) {
  const auto rank = parallel.group().rank();
  torch::optim::SGD optimizer(trainable_parameters(model),
                              torch::optim::SGDOptions(job.learning_rate).momentum(job.momentum));
  const auto batches = state::load_safetensors(job.batches);
  const auto pictures = batches.at("pictures").to(job.dtype == "float64" ? torch::kDouble : torch::kFloat);
  const auto& labels = batches.at("labels");
  const auto begin = rank * job.batch_size;
  std::vector<double> losses;
  for (std::int64_t step = 0; step < job.steps; ++step) {
    if (auto* two_heads = dynamic_cast<parity::TwoHeads*>(&model)) two_heads->choose_head(head_for(rank, step));
    for (auto& parameter : model.parameters()) parameter.mutable_grad().reset();
    const auto end = begin + job.batch_size;
    losses.push_back(accumulate(parallel, model, pictures[step].slice(0, begin, end), labels[step].slice(0, begin, end),
                                job.micro_batches));
    optimizer.step();
  }
  return losses;
}

void run_job(const parity::Job& job, const Group& group) {
  const auto model = load_model(job);
  DataParallel parallel(model, group);
  const auto losses = train_steps(job, parallel, *model);
  parallel.synchronize_buffers();
  const nlohmann::json results = {
      {"losses", losses}, {"backend", group.backend()}, {"params_sha256", train::params_sha256(*model)}};
  std::ofstream(job.out.string() + ".rank" + std::to_string(group.rank()) + ".json") << results.dump();
  if (group.rank() == 0) train::save_weights(*model, job.out.string() + ".safetensors");
}

int run(std::span<char*> arguments) {
  if (arguments.size() < 3) {
    std::fputs("usage: parity_train_steps BACKEND JOB...\n", stderr);
    return 2;
  }
  torch::set_num_threads(1);
  const auto group = init({.backend = arguments[1]});
  for (const char* job : arguments.subspan(2)) run_job(parity::read_job(job), group);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv, static_cast<std::size_t>(argc)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
