// A training run small enough for a test: a perceptron on a few synthetic digits, all options by override.
#pragma once

#include <lockstep/base/temporary_folder.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/run_group.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/ranks.h"
#include "support/read_file.h"

namespace lockstep::test {

/// A temporary folder with a data set (made once a process) and a place for work directories.
class SmallRun {
 public:
  /// "mnist" or "cifar10".
  explicit SmallRun(std::string_view dataset = "mnist");

  std::filesystem::path folder() const { return folder_.path(); }
  std::filesystem::path work_dir(const std::string& name) const { return folder() / name; }

  /// 100 training pictures, 50 for evaluation; 12 batches of 8 pictures on all ranks together, 2 epochs.
  train::ResolvedRun config(const std::string& work_dir, std::vector<std::string> overrides = {}) const;

  /// Runs it on `ranks` processes; a rank that ends badly is a failure of the test.
  void run(int ranks, const train::ResolvedRun& config, const RankOptions& options = small_rank_options()) const;

  /// The same without failing the test.
  std::vector<Outcome> outcomes(int ranks, const train::ResolvedRun& config,
                                const RankOptions& options = small_rank_options()) const;

  nlohmann::json result(const std::string& work_dir) const;
  std::string hash(const std::string& work_dir) const { return result(work_dir)["params_sha256"]; }

  /// Step and loss of each line in metrics.jsonl: what must not depend on how often a run was interrupted.
  std::vector<std::pair<std::int64_t, double>> losses(const std::string& work_dir) const;

  static RankOptions small_rank_options();

 private:
  std::string dataset_;
  TemporaryFolder folder_;
};

/// One of each data set for all tests of a process.
const SmallRun& mnist();
const SmallRun& cifar10();

}  // namespace lockstep::test
