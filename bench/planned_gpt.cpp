// Times training steps of a small GPT, planned by auto_parallel() or plain data parallel, for
// bench/auto_vs_data_parallel.py.
//
//   lockstep run --nproc-per-node 2 planned_gpt --mode auto --cluster cluster.yaml --out gpt.json
#include <lockstep/lockstep.h>
#include <lockstep/models/gpt.h>
#include <lockstep/plan/auto_parallel.h>

#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

namespace {

using lockstep::Group;
using lockstep::models::Gpt;

constexpr lockstep::models::GptShape kShape{
    .vocabulary = 256, .context = 64, .layers = 4, .heads = 4, .width = 256, .tied_head = false};
constexpr std::int64_t kSequences = 4;  ///< of each rank

struct Batch {
  at::Tensor tokens;
  at::Tensor next;
};

Batch batch_of(std::int64_t sequences) {
  const auto draw = [&] { return torch::randint(kShape.vocabulary, {sequences, kShape.context}, torch::kLong); };
  return {draw(), draw()};
}

at::Tensor loss_of(Gpt& model, const at::Tensor& tokens, const at::Tensor& next) {
  return torch::cross_entropy_loss(model.forward(tokens).flatten(0, 1), next.flatten());
}

std::unique_ptr<torch::optim::Optimizer> adam(const std::vector<at::Tensor>& parameters) {
  return std::make_unique<torch::optim::AdamW>(parameters);
}

/// Forward and backward, however the model is divided.
std::function<void()> planned(const std::shared_ptr<Gpt>& model, const Group& group, const std::string& cluster,
                              const std::string& plan_file, int verify_steps) {
  const auto batch = batch_of(kSequences * group.size());
  lockstep::AutoParallelOptions options;
  options.cluster = cluster;
  options.plan_file = plan_file;
  options.verify_steps = verify_steps;
  options.optimizer = adam;
  const auto parallel = lockstep::auto_parallel(
      *model, group, {batch.tokens, batch.next}, [&](const auto& in) { return loss_of(*model, in[0], in[1]); },
      options);
  if (group.rank() == 0) {
    std::cout << parallel.explanation;
    for (const auto& remark : parallel.remarks) std::cout << remark << '\n';
  }
  const auto tokens = lockstep::distribute(batch.tokens, parallel.mesh, parallel.batch);
  const auto next = lockstep::distribute(batch.next, parallel.mesh, parallel.batch);
  return [=] { loss_of(*model, tokens, next).backward(); };
}

std::function<void()> data_parallel(const std::shared_ptr<Gpt>& model, const Group& group) {
  const auto parallel = std::make_shared<lockstep::DataParallel>(model, group);
  const auto batch = batch_of(kSequences);
  return [model, batch, parallel] { loss_of(*model, batch.tokens, batch.next).backward(); };
}

double median_step(const std::function<void()>& step, int steps, int warmup) {
  std::vector<double> seconds;
  for (int i = 0; i < warmup + steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step();
    if (i >= warmup) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Times training steps of a small GPT");
  std::string mode = "auto";
  std::string cluster;
  std::string plan;
  std::string out;
  int verify = 0;
  int steps = 10;
  int warmup = 2;
  app.add_option("--mode", mode)->check(CLI::IsMember({"auto", "data_parallel"}))->capture_default_str();
  app.add_option("--cluster", cluster, "as `lockstep calibrate` writes it; without it speeds are guessed");
  app.add_option("--plan", plan, "a plan that is taken where the file is there, and written where it is not");
  app.add_option("--verify", verify, "so many steps of the plan and of data parallel are measured, the faster is kept")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--steps", steps, "steps timed")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  app.add_option("--warmup", warmup, "steps before the clock starts")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--out", out, "JSON file that rank 0 writes")->required();
  CLI11_PARSE(app, argc, argv);

  at::set_num_threads(1);
  torch::manual_seed(1);
  const auto group = lockstep::init();
  const auto model = lockstep::models::gpt(kShape);
  const auto loss = mode == "auto" ? planned(model, group, cluster, plan, verify) : data_parallel(model, group);
  const auto optimizer = adam(model->parameters());
  const double seconds = median_step(
      [&] {
        model->zero_grad(/*set_to_none=*/true);
        loss();
        optimizer->step();
      },
      steps, warmup);
  if (group.rank() == 0) std::ofstream(out) << nlohmann::json{{"mode", mode}, {"step_s", seconds}}.dump() << '\n';
  lockstep::barrier(group);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "planned_gpt: " << error.what() << '\n';
  return 1;
}
