// The fixture of tests that run with every backend and several world sizes.
#pragma once

#include "mirrored/scenario.h"
#include "support/ranks.h"
#include "support/thorough.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace lockstep::test {

class OnEveryBackend : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  static int world_size() { return std::get<1>(GetParam()); }

  static RankOptions rank_options() {
    RankOptions options;
    options.group = RankOptions::test_group_options(std::get<0>(GetParam()));
    if (options.group.backend == "hierarchy") options.hosts = {"alpha", "alpha", "beta", "beta"};
    return options;
  }

  static void on_ranks(const RankBody& body) { run_ranks(world_size(), rank_options(), body); }

  /// Some steps of a scenario; all gradients are those of one process each time.
  static void expect_equals_one_process(const Scenario& scenario, const DataParallelOptions& options = {},
                                        double tolerance = 1e-5) {
    on_ranks([&](Rank& rank) {
      const auto module = scenario.make();
      DataParallel parallel(module, rank.group(), options);
      for (int step = 0; step < 4; ++step) {
        SCOPED_TRACE("step " + std::to_string(step));
        module->zero_grad(true);
        const auto expected = emulated_gradients(scenario, *module, rank.size(), step, options.gradients_mean);
        const at::Tensor loss = scenario.loss(*module, rank.rank(), step);
        if (loss.defined()) {
          loss.backward();
        } else {
          parallel.backward_without_data();
        }
        expect_close(gradients_of(*module), expected, tolerance);
        expect_same_bits_on_all_ranks(gradients_of(*module), rank.group());
      }
    });
  }
};

inline std::string case_name(const testing::TestParamInfo<OnEveryBackend::ParamType>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

/// shm and tcp with 3 ranks, shm with 1, hierarchy with 4 on two hosts; thoroughly shm and tcp with 1 to 4. Under
/// mpirun the mpi backend with the ranks there are.
inline std::vector<OnEveryBackend::ParamType> every_backend() {
  if (const auto size = mpirun_size()) return {{"mpi", *size}};
  if (!thorough()) return {{"shm", 1}, {"shm", 3}, {"tcp", 3}, {"hierarchy", 4}};
  std::vector<OnEveryBackend::ParamType> cases;
  for (const char* backend : {"tcp", "shm"}) {
    for (int size = 1; size <= 4; ++size) cases.emplace_back(backend, size);
  }
  cases.emplace_back("hierarchy", 4);
  return cases;
}

}  // namespace lockstep::test
