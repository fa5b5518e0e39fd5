#include "chaos/scene.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::test {

Scene::Scene(const Order& order) : order_(order) {
  if (find(current_environment(), "LOCKSTEP_BACKEND") == "shm") {
    obstacle_ = "LOCKSTEP_BACKEND=shm is for one host";
    return;
  }
  hosts_ = std::make_unique<TwoHosts>();
  if (hosts_->made()) return;
  obstacle_ = TwoHosts::kObstacle;
  hosts_.reset();
}

std::unique_ptr<SupervisedJob> Scene::job(const Workbench& bench, std::int64_t epochs,
                                          const std::filesystem::path& disk, const Environment& more) const {
  Environment variables = {{"MS_NODE_TIMEOUT", "10"}, {"LOCKSTEP_TIMEOUT_S", "60"}, {"LOCKSTEP_HANG_TIMEOUT_S", "60"}};
  variables.insert({"MS_RECOVERY_PATH", (disk / "state").string()});
  if (const auto backend = find(current_environment(), "LOCKSTEP_BACKEND")) variables["LOCKSTEP_BACKEND"] = *backend;
  variables.insert(more.begin(), more.end());
  OnHost on_host;
  if (hosts_) {
    variables.insert(
        {{"MS_SCHED_HOST", TwoHosts::address(0)}, {"LOCKSTEP_ALLOW_INSECURE", "1"}, {"LOCKSTEP_HOST_TIMEOUT_S", "4"}});
    on_host = [first_on_second = (order_.workers + 1) / 2](int process, Words words) {
      return TwoHosts::on(process >= first_on_second ? 1 : 0, std::move(words));
    };
  }
  const auto words = bench.train({fmt::format("data.batch_size={}", std::max(1, 40 / order_.workers)),
                                  fmt::format("train.epochs={}", epochs), "train.eval_every=50",
                                  "callbacks.loss_every=0", "checkpoint.every_epochs=0", "checkpoint.every_steps=20",
                                  "checkpoint.folder=" + (disk / "checkpoints").string()});
  return std::make_unique<SupervisedJob>(bench.path() / "logs", words, order_.workers, variables, on_host);
}

}  // namespace lockstep::test
