// Breaks a job at random, again and again, and compares its end with that of a job that nobody touched.
//
//     lockstep_chaos SEED [SECONDS [WORKERS]]
//
// LOCKSTEP_BACKEND chooses the backend.
#include <lockstep/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "chaos/disk.h"
#include "chaos/order.h"
#include "chaos/scene.h"
#include "chaos/strikes.h"

namespace lockstep::test {
namespace {

struct Peace {
  std::string hash;
  double seconds = 0;  ///< of training
};

/// The same job in the same place, with nobody to break it.
Peace undisturbed(const Order& order, const Scene& scene, std::int64_t epochs) {
  const Workbench bench;
  const auto job = scene.job(bench, epochs, bench.path() / "disk", {});
  job->start_all();
  if (!job->tend_to_the_end(std::chrono::seconds(300 + 2 * order.seconds)) || job->restarts() > 0) {
    fail(ErrorKind::io, "chaos", "the undisturbed run failed: {}", job->last_words());
  }
  const auto result = nlohmann::json::parse(read_file(bench.work_dir() / "result.json"));
  return {hash_in(bench.work_dir()), result.at("seconds").get<double>()};
}

int run(const Order& order) {
  fmt::print("chaos: seed {}, {} s, {} workers\n", order.seed, order.seconds, order.workers);
  const Scene scene(order);
  if (!scene.obstacle().empty()) fmt::print("skipped: partitions: {}\n", scene.obstacle());
  // As many epochs as take a sixth of the time in peace: while workers are started again, nothing is trained.
  constexpr std::int64_t kSample = 100;
  const double epochs_per_s = static_cast<double>(kSample) / undisturbed(order, scene, kSample).seconds;
  const auto epochs = std::max(kSample, static_cast<std::int64_t>(epochs_per_s * order.seconds / 6));
  const auto peace = undisturbed(order, scene, epochs);
  fmt::print("undisturbed: {} epochs in {:.1f} s\n", epochs, peace.seconds);
  const Workbench bench;
  Disk disk(bench.path() / "disk");
  if (!disk.obstacle().empty()) fmt::print("skipped: full disks: {}\n", disk.obstacle());
  const auto job = scene.job(bench, epochs, disk.folder(), disk.variables());
  job->start_all();
  Strikes strikes(order, *job, disk, scene.obstacle().empty());
  const bool ended = strikes.wreak();
  const auto hash = hash_in(bench.work_dir());
  fmt::print("{} strikes, {} workers started again\n", strikes.count(), job->restarts());
  if (ended && hash == peace.hash) {
    fmt::print("the end is that of the undisturbed run: {}\n", hash);
    return 0;
  }
  fmt::print("{}: {} instead of {}\n{}\n", ended ? "ANOTHER END" : "NO END", hash.empty() ? "no result" : hash,
             peace.hash, job->last_words());
  return 1;
}

}  // namespace
}  // namespace lockstep::test

int main(int count, char** words) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whoever watches sees each strike
  try {
    return lockstep::test::run(lockstep::test::parse_order({words + 1, words + count}));
  } catch (const std::exception& error) {
    fmt::print(stderr, "chaos: {}\n", error.what());
    return 2;
  }
}
