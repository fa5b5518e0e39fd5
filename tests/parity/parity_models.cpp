// What the Python tests ask of the models and of files of weights:
//   parity_models copy IN OUT       reads a safetensors file and writes it again
//   parity_models initial JOB       writes the weights that the job's model has after torch::manual_seed
//   parity_models load JOB          writes the weights that the job's model has after loading the job's
//   parity_models gradients JOB     one forward and backward of the job's model; writes all that came of it
#include <lockstep/state/safetensors.h>
#include <lockstep/train/named_tensors.h>

#include "parity/jobs.h"

#include <cstdio>
#include <exception>
#include <span>

namespace {

using namespace lockstep;
using lockstep::state::NamedTensors;

void copy(const std::filesystem::path& in, const std::filesystem::path& out) {
  state::save_safetensors(out, state::load_safetensors(in), state::load_safetensors_metadata(in));
}

void write_initial_weights(const parity::Job& job) {
  torch::manual_seed(job.seed);
  train::save_weights(*parity::make_model(job), job.out);
}

void write_loaded_weights(const parity::Job& job) {
  const auto model = parity::make_model(job);
  train::load_weights(*model, job.weights);
  train::save_weights(*model, job.out);
}

void write_gradients(const parity::Job& job) {
  const auto model = parity::make_model(job);
  train::load_weights(*model, job.weights);
  const auto batch = state::load_safetensors(job.batch);
  const auto& pictures = batch.at("pictures");

  const auto logits = model->forward(pictures);
  const auto loss = torch::cross_entropy_loss(logits, batch.at("labels"));
  loss.backward();

  NamedTensors results = {{"logits", logits}, {"loss", loss}};
  for (const auto& item : model->named_parameters()) results["gradient." + item.key()] = item.value().grad();
  for (const auto& item : model->named_buffers()) results["buffer." + item.key()] = item.value();
  model->eval();
  const torch::NoGradGuard no_grad;
  results["eval_logits"] = model->forward(pictures);
  state::save_safetensors(job.out, results);
}

int run(std::span<char*> arguments) {
  const std::string task = arguments.size() > 1 ? arguments[1] : "";
  if (task == "copy" && arguments.size() == 4) {
    copy(arguments[2], arguments[3]);
  } else if (task == "initial" && arguments.size() == 3) {
    write_initial_weights(parity::read_job(arguments[2]));
  } else if (task == "load" && arguments.size() == 3) {
    write_loaded_weights(parity::read_job(arguments[2]));
  } else if (task == "gradients" && arguments.size() == 3) {
    write_gradients(parity::read_job(arguments[2]));
  } else {
    std::fputs("usage: parity_models copy IN OUT | initial JOB | load JOB | gradients JOB\n", stderr);
    return 2;
  }
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
