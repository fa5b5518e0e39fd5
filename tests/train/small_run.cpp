#include "train/small_run.h"

#include <lockstep/base/config.h>
#include <lockstep/data/synthesize.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/output/run_files.h>

#include <fmt/format.h>

#include <fstream>

namespace lockstep::test {
namespace {

constexpr std::string_view kYaml = R"(
system: {seed: 3}
parallel: {backend: tcp, timeout_s: 60, start_timeout_s: 60}
model: {name: mlp, hidden: [16]}
data:
  batch_size: 8
  workers: 1
  train_transforms: &transforms [rescale: {scale: 0.00392156862745098}, hwc2chw]
  eval_transforms: *transforms
optimizer: {name: momentum, lr: 0.1}
train: {epochs: 2}
)";

}  // namespace

SmallRun::SmallRun(std::string_view dataset) : dataset_(dataset), folder_("lockstep-small-run") {
  data::synthesize(dataset_, folder() / "data", 100, 50, 1);
}

train::ResolvedRun SmallRun::config(const std::string& name, std::vector<std::string> overrides) const {
  overrides.insert(overrides.begin(),
                   {fmt::format("system.work_dir={}", work_dir(name).string()), fmt::format("data.name={}", dataset_),
                    fmt::format("data.root={}", (folder() / "data").string())});
  return train::read_run_config(parse_config(kYaml, "small_run.yaml", overrides));
}

RankOptions SmallRun::small_rank_options() {
  RankOptions options;
  options.deadline = std::chrono::seconds(180);
  return options;
}

std::vector<Outcome> SmallRun::outcomes(int ranks, const train::ResolvedRun& config, const RankOptions& options) const {
  return rank_outcomes(ranks, options, [&](Rank& rank) {
    auto world = rank.world();
    if (world.size == 1) world.rendezvous = Rendezvous::alone;
    train::run_training(config, world);
  });
}

void SmallRun::run(int ranks, const train::ResolvedRun& config, const RankOptions& options) const {
  expect_all_ok(outcomes(ranks, config, options));
}

nlohmann::json SmallRun::result(const std::string& name) const {
  return nlohmann::json::parse(read_file(work_dir(name) / "result.json"));
}

std::vector<std::pair<std::int64_t, double>> SmallRun::losses(const std::string& work_dir) const {
  std::vector<std::pair<std::int64_t, double>> out;
  for (const auto& line : train::read_metrics(this->work_dir(work_dir) / "metrics.jsonl")) {
    out.emplace_back(line.step, line.loss);
  }
  return out;
}

const SmallRun& mnist() {
  static const SmallRun run("mnist");
  return run;
}

const SmallRun& cifar10() {
  static const SmallRun run("cifar10");
  return run;
}

}  // namespace lockstep::test
